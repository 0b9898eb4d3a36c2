"""Every command and every Python block of the README and the docs, run as it stands, on small data
made here.

A page is run top to bottom in its own folder: ``console`` blocks line by line (``$ ...``),
``python`` blocks in one namespace. Long commands are shortened by the arguments in ``SHORTER``,
never left out.
"""

from __future__ import annotations

import argparse
import doctest
import inspect
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from eigenprobe import cli
from tests.playground import TINY_IMAGES, TINY_PRETRAIN, stock, without_network, write_vision_model

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
PAGES.remove(ROOT / "docs" / "gallery.md")  # its blocks are what examples/gallery.py runs
RUN = [
    page for page in PAGES if page.name != "paper.md"
]  # minutes of training: tests/cli runs its commands smaller
EXAMPLES = sorted(path for path in (ROOT / "src").rglob("*.py") if ">>> " in path.read_text())
FENCE = re.compile(r"^```(console|python)\n(.*?)^```", re.M | re.S)

# command prefix -> arguments that make it quick: instead of the same options, or appended
SHORTER = {
    "eigenprobe train pretrain": TINY_PRETRAIN,
    "eigenprobe train paper_images": TINY_IMAGES,
    "eigenprobe train paper_overfit": (
        "k=6 optimisation.steps=2 size=100 preset=tiny probes.paper.count=20"
    ),
    "eigenprobe train overfit": "k=6 steps=3",
    "eigenprobe reproduce overfit": "-k 6 --n 200 --steps 3 --resamplings 1 --size 300",
    "eigenprobe decompose bunny.obj --method network": "--steps 20 --no-report",
    "eigenprobe evaluate surfaces": "--n 250 --no-figures",
    "eigenprobe evaluate volumes": "--n 250 --no-figures",
    "eigenprobe evaluate scans": "--points 250 -k 5 --kinds even strays:0.05",
    "eigenprobe features": "--model weights",
    "eigenprobe cache": "--jobs 1",
    "eigenprobe view": "--port 18090",
    "eigenprobe reproduce generalisation": "-k 10 --n 250 --volumes 0 --steps 3",
    "eigenprobe reproduce images": "--runs 1 --n 120 --ks 2 --methods pca direct",
    "eigenprobe reproduce all": "--way paper",
    "eigenprobe reproduce toy1d": "--steps 20 --probes 2000",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text())


def inline(page: Path) -> list[str]:
    """Commands in running text: `eigenprobe ...`, the ones beside the README's tables among
    them.
    """
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return list(
        dict.fromkeys(
            re.findall(r"`(eigenprobe [^`]+|python -m [^`]+|python benchmarks/[^`]+)`", text)
        )
    )


def commands(text: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    return [
        line[2:].split("  #")[0].strip() for line in joined.splitlines() if line.startswith("$ ")
    ]


@pytest.fixture(scope="session")
def supplies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages talk about, small."""
    folder = tmp_path_factory.mktemp("supplies")
    stock(folder)
    return folder


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(
    page: Path,
    supplies: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    shutil.copytree(supplies, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(work)
    monkeypatch.setattr("eigenprobe.viz.viewer.Viewer.wait", lambda viewer: viewer.stop())
    without_network(monkeypatch)
    if "eigenprobe features" in page.read_text():
        write_vision_model(work / "weights")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), namespace)
            continue
        found = commands(text)
        assert found, f"a console block of {page.name} without a '$ ' line:\n{text}"
        for command in found:
            _run(command, capsys)
    for command in inline(page):
        _run(command, capsys)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_examples_in_docstrings(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = [
        part for part in path.relative_to(ROOT / "src").with_suffix("").parts if part != "__init__"
    ]
    assert doctest.testmod(import_module(".".join(parts))).failed == 0


def _run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for prefix, extra in SHORTER.items():
        if command.startswith(prefix):
            command = _with(command, extra)
            break
    words = shlex.split(command)
    if words[0] == "eigenprobe":
        code = cli.main(words[1:])
        captured = capsys.readouterr()
        assert code == 0, f"{command}: exit {code}: {captured.err}"
    elif words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[:2] == ["pip", "install"]:
        _check_extras(words[-1])
    elif words[0] == "python":
        _check_benchmark(words[1:])
    else:
        pytest.fail(f"the docs use a command no test can run: {command}")


def _with(command: str, extra: str) -> str:
    """The command with other options, which stand for those of the same name: none may be given
    twice.
    """
    words, instead = shlex.split(command), re.split(r"(?:^| )(?=--?[a-z])", extra)
    _, *given = words  # what is shown is a command too
    cli.commands().parse_args(given, exit_on_error=False, print_error=False)
    for option, *values in map(str.split, filter(None, instead)):
        if option in words:
            start = words.index(option)
            after = [at for at in range(start + 1, len(words)) if words[at].startswith("-")]
            end = min([len(words), *after])  # of as many values as there are
            del words[start : end if len(values) > 1 else start + 1 + len(values)]
    return f"{shlex.join(words)} {extra}"


def _check_benchmark(words: list[str]) -> None:
    """A benchmark takes minutes by design: it starts, and is stopped when its parser has taken all
    its arguments.
    """
    script = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    options = words[2:] if words[0] == "-m" else words[1:]
    assert script.startswith("benchmarks/") and (ROOT / script).is_file(), script
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Understood):
        patch.setattr(sys, "argv", [script, *options])
        patch.setattr(argparse.ArgumentParser, "parse_args", _parse_and_stop)
        patch.setattr("benchmarks.record.existing", Path)  # the data of the pages is not here
        runpy.run_path(str(ROOT / script), run_name="__main__")


class Understood(Exception):
    """A command line that its parser takes."""


def _parse_and_stop(
    parser: argparse.ArgumentParser, args: list[str] | None = None, namespace: object = None
) -> None:
    _, unknown = parser.parse_known_args(args, namespace)
    assert not unknown, f"{parser.prog} does not know {unknown}"
    raise Understood


def test_a_command_with_a_wrong_option_is_found() -> None:
    _check_benchmark(["-m", "benchmarks.direct", "--sizes", "4000"])
    for wrong in (["--sises", "4000"], ["--sizes", "many"], ["surplus"]):
        with pytest.raises((SystemExit, AssertionError)):
            _check_benchmark(["-m", "benchmarks.direct", *wrong])


def _check_extras(requirement: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = re.findall(r"[\w-]+", (re.search(r"\[(.*)\]", requirement) or [""])[0])
    assert set(asked) <= set(extras), requirement


@pytest.mark.long
@pytest.mark.parametrize(
    "script",
    sorted(
        {*(ROOT / "examples").glob("*.py")} - {ROOT / "examples" / "pages.py"}
    ),  # needs a browser
    ids=lambda script: script.name,
)
def test_example(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_links_inside_the_tree_resolve() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_promises_name_tests_that_there_are() -> None:
    path = ROOT / "tests"
    text = (ROOT / "docs" / "trust.md").read_text()
    for file, name in re.findall(r"`([\w/]+\.py)?(?:::(\w+))?`", text):
        path = ROOT / "tests" / file if file else path
        assert path.exists() and (not name or f"def {name}(" in path.read_text()), f"{file} {name}"


def test_numbers_in_the_readme_come_from_results() -> None:
    from benchmarks.readme import PAGES, filled

    def numbers(text: str) -> str:
        """Without the lines that say where a table comes from: whether a table is confirmed today
        changes no number.
        """
        return re.sub(r"^(\*(Stale|Unconfirmed).*|`python -m .*:)\n+", "", text, flags=re.M)

    assert {page.name for page in PAGES} == {"README.md", "results.md", "paper.md"}
    for page in PAGES:
        text = page.read_text()
        assert "<!-- results: " in text
        assert numbers(filled(text)) == numbers(text), (
            f"{page.name}: run 'make readme STALE=--stale'"
        )


def test_rounded_times_of_the_scaling_page_are_those_of_the_file() -> None:
    """Seconds and GiB on the GPU, size by size, to the two digits that are shown."""
    page = (ROOT / "docs" / "scaling.md").read_text()
    found = json.loads((ROOT / "benchmarks" / "results" / "scale_cuda.json").read_text())
    rows = [found["tables"][0]["rows"]["eigenprobe"][str(10**5 * m)] for m in (1, 3, 10, 30, 100)]
    for head, values in {
        "one H200, seconds": [row["seconds"] for row in rows],
        "GPU memory, GiB": [row["MiB"] / 1024 for row in rows],
    }.items():
        (line,) = re.findall(rf"^\| {head} \|(.*)\|$", page, flags=re.M)
        assert [float(cell) for cell in line.split("|")] == [
            float(f"{value:.2g}") for value in values
        ], head
    each = 1000 * found["stacked"]["seconds"] / found["stacked"]["clouds"]
    assert f"take {each:.1f} ms each" in " ".join(page.split())
    noisy = json.loads((ROOT / "benchmarks" / "results" / "noisy_cuda.json").read_text())["rows"]
    assert (
        max(row["seconds"] for row in noisy) < 2
        and round(max(row["MiB"] for row in noisy) / 1024) == 4
    )
    assert "take less than 2 s and 4 GiB on one H200" in " ".join(page.split())


def test_every_entry_of_the_api_lists_its_parameters() -> None:
    for name in re.findall(r"<!-- api: (\S+) -->", (ROOT / "docs" / "api.md").read_text()):
        if name.startswith("errors."):
            continue
        module, _, last = name.rpartition(".")
        entry = getattr(import_module(f"eigenprobe.{module}"), last)
        takes = set(inspect.signature(entry).parameters) - {"args", "kwargs"}
        assert not takes or "Parameters\n" in entry.__doc__, name
