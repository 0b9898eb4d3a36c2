"""The command line as a program: help, options, exit codes, one line on failure, nothing half-written."""

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
from eigenprobe.cli.arguments import Command, parser_of
from eigenprobe.errors import EigenprobeWarning, InputError

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., tuple[int, str, str]]


def leaves(command: Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Command]]:
    if not command.commands:
        return [(path, command)]
    return [leaf for below in command.commands for leaf in leaves(below, (*path, below.name))]


LEAVES = leaves(cli.commands())


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``main`` in a folder of its own: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def refused(result: tuple[int, str, str], pattern: str) -> None:
    code, _, err = result
    assert code == 2, err
    assert len(err.splitlines()) == 1 and err.startswith("eigenprobe: "), err
    assert re.search(pattern, err), err


def test_all_commands_are_there() -> None:
    names = {command.name for command in cli.commands().commands}
    expected = ["decompose", "embed", "train", "encode", "evaluate", "reproduce", "cache", "features", "view", "demo"]
    expected += ["export"]
    assert names == set(expected)


@pytest.mark.parametrize("path", [path for path, _ in LEAVES], ids=" ".join)
def test_help_has_examples_and_shared_options(path: tuple[str, ...], run: Run) -> None:
    code, out, _ = run(*path, "--help")
    assert code == 0
    assert f"eigenprobe {' '.join(path)}" in out.split("Examples:")[1]
    for option in ("--device", "--seed", "--out", "--verbose", "--quiet", "--debug"):
        without = {("view",): ("--seed", "--out"), ("export",): ("--seed", "--out", "--device")}
        assert (option in out) == (option not in without.get(path, ()))


@pytest.mark.parametrize("group", ["evaluate", "reproduce"])
def test_help_of_a_group_has_an_example_of_each(group: str, run: Run) -> None:
    told = run(group, "--help")[1].split("Examples:")[1]
    assert all(f"eigenprobe {group} {below.name} " in told for below in cli.commands().path([group])[-1].commands)


@pytest.mark.parametrize("path, command", LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_option_is_documented_and_every_example_parses(path: tuple[str, ...], command: Command) -> None:
    from eigenprobe.cli.arguments import descriptions

    assert command.function is not None
    own = set(inspect.signature(command.function).parameters) - {"session", "options"}
    assert own <= set(descriptions(command.function)) <= set(command.options)
    assert all(option.text for option in command.options.values())
    parser = parser_of(cli.commands())
    for line in re.findall(r"^\s+(eigenprobe .*)$", inspect.getdoc(command.function) or "", re.M):
        parser.parse_args(shlex.split(line)[1:])


def test_decompose_has_every_option_of_the_library_that_can_be_typed() -> None:
    import eigenprobe as ep

    options = cli.commands().path(["decompose"])[-1].options
    parameters = inspect.signature(ep.decompose).parameters
    assert set(parameters) - set(options) == {"points", "seed", "device", "options"}
    for name, option in options.items():
        if name in parameters:
            assert option.default == parameters[name].default and option.text


def test_start_is_quick_and_light() -> None:
    code = "import sys; from eigenprobe.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    best = 9.0
    for _ in range(8):  # other tests share the cores: the least of several is the program's own time
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        best = min(best, time.perf_counter() - started)
        if best < 0.6:
            break
    assert not {"torch", "numpy", "scipy", "matplotlib", "plotly"} & set(done.stderr.split())
    assert best < 1.0


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell: str, run: Run) -> None:
    code, out, _ = run("--completion", shell)
    assert code == 0
    assert "decompose" in out
    assert "--samples" in out or shell == "tcsh"


def test_version_and_bare_call(run: Run) -> None:
    assert run("--version")[1].startswith("eigenprobe 0.")
    code, out, _ = run()
    assert code == 0 and "decompose" in out


@pytest.mark.parametrize(
    "words, pattern",
    [
        ("nope", "no command 'nope', there are decompose"),
        ("evaluate", "missing COMMAND, one of surfaces, volumes, scans"),
        ("reproduce nope", "no command 'nope', there are toy1d"),
        ("decompose", "missing SHAPE"),
        ("train", "missing RECIPE"),
        ("decompose a.obj -k many", "--k takes a whole number, got 'many'"),
        ("decompose a.obj -k 2.5", "--k takes a whole number, got '2.5'"),
        ("decompose a.obj --method magic", "--method takes one of direct, network, pretrained, got 'magic'"),
        ("decompose a.obj --samples few", "--samples takes a whole number, got 'few'"),
        ("decompose a.obj --bogus 3", "no option --bogus"),
        ("view a.obj b.obj", "one word too many: b.obj"),
        ("view a.obj --seed 3", "no option --seed"),
        ("view a.obj --out b", "no option --out"),
        ("decompose . --refine 2", "--refine is for --method pretrained, not for direct"),
        ("decompose . -m network --steps -3", "--steps takes a number above 0, got -3"),
        ("decompose . --bandwidth -1", "--bandwidth takes a number above 0, got -1.0"),
        ("decompose . --steps 2", "--steps is for --method network, not for direct"),
        (
            "decompose . -m pretrained --smoother row",
            "--smoother is for --method direct or network, not for pretrained",
        ),
        ("decompose a.obj --seed x", "--seed takes a whole number"),
        ("evaluate surfaces m --methods magic", "--methods takes one of direct"),
        ("--completion fish", "takes one of bash, zsh, tcsh, got 'fish'"),
    ],
)
def test_wrong_options_get_one_line(words: str, pattern: str, run: Run) -> None:
    refused(run(*words.split()), pattern)


def test_changes_of_a_recipe_may_stand_anywhere() -> None:
    from eigenprobe.cli.arguments import join_changes

    words = ["train", "r.yaml", "a=1", "--out", "o=o", "b.c=[2]", "-q", "d=3", "--device", "cpu"]
    assert join_changes(words) == ["train", "r.yaml", "a=1", "b.c=[2]", "d=3", "--out", "o=o", "-q", "--device", "cpu"]
    parsed = parser_of(cli.commands()).parse_args(join_changes(words))
    assert parsed.train.changes == ["a=1", "b.c=[2]", "d=3"]
    assert join_changes(["decompose", "a.obj", "x=1"]) == ["decompose", "a.obj", "x=1"]


def raising(error: BaseException) -> Callable[..., None]:
    def function(**_: object) -> None:
        raise error

    return function


@pytest.mark.parametrize(
    "error, code, pattern",
    [
        (InputError("expected points (n, d), got (3,)"), 2, r"^eigenprobe: expected points \(n, d\), got \(3,\)$"),
        (FileNotFoundError(2, "No such file or directory", "x.obj"), 2, "x.obj: No such file"),
        (IsADirectoryError(21, "Is a directory", "d"), 2, "d: Is a directory"),
        (ModuleNotFoundError("No module named 'umap'", name="umap"), 2, r"pip install 'eigenprobe\[peers\]'"),
        (RuntimeError("two\nlines"), 1, r"unexpected RuntimeError: two lines \(--debug shows where\)"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_failures_are_one_line(
    error: BaseException, code: int, pattern: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigenprobe_lab.cli.experiments.toy1d", _like("toy1d", raising(error)))
    got, _, err = run("reproduce", "toy1d")
    assert got == code
    assert len(err.splitlines()) == 1 and re.search(pattern, err), err


def test_debug_shows_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigenprobe_lab.cli.experiments.toy1d", _like("toy1d", raising(RuntimeError("bug"))))
    code, _, err = run("reproduce", "toy1d", "--debug")
    assert code == 1 and "Traceback" in err


def test_warnings_are_one_line_and_quiet_is_quiet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    def warns(*, session: object) -> None:
        warnings.warn("3 duplicates", EigenprobeWarning, stacklevel=2)
        warnings.warn("of no interest", DeprecationWarning, stacklevel=2)
        session.say("done")  # type: ignore[attr-defined]

    monkeypatch.setattr("eigenprobe_lab.cli.experiments.toy1d", _like("toy1d", warns))
    assert run("reproduce", "toy1d") == (0, "done\n", "eigenprobe: warning: 3 duplicates\n")
    assert run("reproduce", "toy1d", "--quiet") == (0, "", "")


def _like(name: str, function: Callable[..., None]) -> Callable[..., None]:
    """``function`` with the signature and docstring of the command it stands for."""

    def stand_in(*, session: object) -> None:
        function(session=session)

    stand_in.__name__ = name
    stand_in.__doc__ = "A stand-in.\n\n    Args:\n    "
    return stand_in


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{shlex.quote(sys.executable)} -m eigenprobe.cli --help | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=ROOT / "src")
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_one_word_for_one_thing_and_the_old_ones_still_work(run: Run) -> None:
    parser = parser_of(cli.commands())
    for words, old, new, name in (
        (["evaluate", "surfaces", "a.obj"], "--n", "--samples", "n"),
        (["embed", "a.npy"], "--neighbors", "--neighbours", "neighbors"),
    ):
        for flag in (old, new):
            parsed = parser.parse_args([*words, flag, "7"])
            while "command" in parsed and parsed.command:
                parsed = parsed[parsed.command]
            assert parsed[name] == 7
        refused(run(*words, new, "few"), f"{new} takes a whole number, got 'few'")
    for path, _ in LEAVES:
        out = run(*path, "--help")[1]
        assert ("--neighbors" in out) <= ("--neighbours" in out) and ("--n N" in out) <= ("--samples N" in out)


def test_nothing_is_frozen_that_tells_its_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """triton, which a torch for GPUs brings, prints a page at the end of a process whose objects are frozen."""
    frozen: list[bool] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(True))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["eigenprobe", "--version"])
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert cli.main() == 0 and frozen
    monkeypatch.setitem(sys.modules, "triton", inspect)
    assert cli.main() == 0 and len(frozen) == 1


def test_an_empty_word_is_one_word_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    """As a variable of the shell that is not set gives, in quotes."""
    assert main(["embed", "table.csv", ""]) == 2
    assert "one word too many: ''" in capsys.readouterr().err
