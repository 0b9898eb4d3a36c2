"""The command line as a program: help, options, exit codes, one line on failure, nothing
half-written.
"""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eigenprobe import cli
from eigenprobe.cli import main
from eigenprobe.cli.session import SHARED, Session
from eigenprobe.errors import EigenprobeWarning, InputError

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., tuple[int, str, str]]
GROUPS = {"evaluate": ("surfaces", "neighbours", "volumes", "scans")}
GROUPS |= {"reproduce": ("toy1d", "overfit", "generalisation", "images", "all")}
ALONE = ("decompose", "embed", "encode", "cache", "features", "view", "export", "demo")
LEAVES = [*ALONE, *(f"{group} {name}" for group, names in GROUPS.items() for name in names)]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``main`` in a folder of its own: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_all_commands_are_there(run: Run) -> None:
    out = run()[1]
    assert all(re.search(rf"│ {name} ", out) for name in (*ALONE, *GROUPS))
    assert run("--version")[1].startswith("eigenprobe 0.")


@pytest.mark.parametrize("path", LEAVES)
def test_help_has_options_and_examples_that_parse(path: str, run: Run) -> None:
    code, out, _ = run(*path.split(), "--help")
    assert code == 0
    for option in ("--device", "--seed", "--out", "--verbose", "--quiet", "--debug"):
        assert option in out
    for line in re.findall(r"^│ +\*? *(-.*) │$", out, re.M):
        assert re.search(r" {2,}\S", line), f"not documented: {line}"
    examples = re.findall(r"^ *(eigenprobe .*?)\s*$", out.split("For example:")[1], re.M)
    assert examples
    for line in examples:
        words = shlex.split(line)[1:]
        assert " ".join(words).startswith(path)
        cli.commands().parse_args(words, exit_on_error=False, print_error=False)


def test_decompose_has_every_option_of_the_library_that_can_be_typed(run: Run) -> None:
    import eigenprobe as ep

    out = run("decompose", "--help")[1]
    called = {"measure": "alpha"}
    for name in set(inspect.signature(ep.decompose).parameters) - {"points", "options"}:
        assert f"--{called.get(name, name)}" in out, name


@pytest.mark.parametrize("words", [["--help"], ["decompose", "--help"]])
def test_start_is_quick_and_light(words: list[str]) -> None:
    code = f"import sys; from eigenprobe.cli import main; main({words}); "
    code += "print(*sys.modules, file=sys.stderr)"
    best = 9.0
    for _ in range(8):  # other tests share the cores: the least is the program's own time
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        best = min(best, time.perf_counter() - started)
        if best < 0.6:
            break
    assert not {"torch", "numpy", "scipy", "matplotlib", "plotly"} & set(done.stderr.split())
    assert best < 1.0


@pytest.mark.parametrize(
    "words, told",
    [
        (["decompose", "no.obj"], "no such file or folder: no.obj\n"),
        (["train", "a.yaml"], "expected a YAML recipe, cannot read a.yaml: line 2: "),
    ],
)
def test_a_wrong_file_is_told_before_the_library_is_imported(
    words: list[str], told: str, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("kind: overfit\nk: {1: 2")
    code = f"import sys; from eigenprobe.cli import main; main({words}); print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.startswith(f"eigenprobe: {told}")
    assert not {"torch", "numpy", "scipy"} & set(done.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, run: Run) -> None:
    code, out, _ = run("--completion", shell)
    assert code == 0 and "decompose" in out and "samples" in out


@pytest.mark.parametrize(
    "words, pattern",
    [
        ("nope", 'Unknown command "nope"'),
        ("--verison", r"\(did you mean --version\?\)"),
        ("decompos a.obj", 'Did you mean "decompose"'),
        ("reproduce nope", 'Unknown command "nope".*toy1d'),
        ("decompose", "--shapes requires an argument"),
        ("decompose . -k many", "Invalid value for -k: expected a whole number, got 'many'"),
        ("decompose . -k 2.5", "Invalid value for -k"),
        ("decompose . --method magic", 'Invalid value "magic" for --method. Choose from'),
        ("decompose . --samples few", "Invalid value for --samples"),
        ("decompose . --neigbours 3", "Unknown option: --neigbours. Did you mean --neighbours"),
        ("view . b.obj", r"Unused Tokens: \['b.obj'\]"),
        ("decompose . --seed x", "Invalid value for --seed"),
        ("decompose . --seed -1", "Invalid value.*--seed. Must be >= 0"),
        ("evaluate surfaces m --n few", "Invalid value for --n"),
        ("embed . --neighbors few", "Invalid value for --neighbors"),
        ("--completion tcsh", 'Choose from: "bash", "zsh", "fish"'),
    ],
)
def test_wrong_options_get_one_line(words: str, pattern: str, run: Run) -> None:
    code, _, err = run(*words.split())
    assert code == 2, err
    assert len(err.splitlines()) == 1 and err.startswith("eigenprobe: "), err
    assert re.search(pattern, err), err


def raising(error: BaseException) -> Callable[..., None]:
    def toy1d(*, session: Session = SHARED) -> None:
        """A stand-in."""
        raise error

    return toy1d


@pytest.mark.parametrize(
    "error, code, pattern",
    [
        (
            InputError("expected points (n, d), got (3,)"),
            2,
            r"^eigenprobe: expected points \(n, d\), got \(3,\)$",
        ),
        (FileNotFoundError(2, "No such file or directory", "x.obj"), 2, "x.obj: No such file"),
        (
            ModuleNotFoundError("No module named 'umap'", name="umap"),
            2,
            r"pip install 'eigenprobe\[peers\]'",
        ),
        (
            RuntimeError("two\nlines"),
            1,
            r"unexpected RuntimeError: two lines \(--debug shows where\)",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_failures_are_one_line(
    error: BaseException, code: int, pattern: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigenprobe_lab.cli.experiments.toy1d", raising(error))
    got, _, err = run("reproduce", "toy1d")
    assert got == code
    assert len(err.splitlines()) == 1 and re.search(pattern, err), err
    assert "Traceback" in run("reproduce", "toy1d", "--debug")[2] or code == 2


def test_warnings_are_one_line_and_quiet_is_quiet(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    def toy1d(*, session: Session = SHARED) -> None:
        """A stand-in."""
        warnings.warn("3 duplicates", EigenprobeWarning, stacklevel=2)
        warnings.warn("of no interest", DeprecationWarning, stacklevel=2)
        session.say("done")

    monkeypatch.setattr("eigenprobe_lab.cli.experiments.toy1d", toy1d)
    assert run("reproduce", "toy1d") == (0, "done\n", "eigenprobe: warning: 3 duplicates\n")
    assert run("reproduce", "toy1d", "--quiet") == (0, "", "")


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{shlex.quote(sys.executable)} -m eigenprobe --help | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=ROOT / "src"
    )
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
