"""``pip install .`` and nothing else: the wheel and the packages that it asks for run the README's
first example.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import eigenprobe as ep
from tests.meshes import blob

ROOT = Path(__file__).resolve().parent.parent
RECIPES = (
    "import pathlib; root = pathlib.Path(ep.__file__).parent.parent; "
    "assert (root / 'eigenprobe_lab' / 'recipes' / 'overfit.yaml').is_file()"
)
FRESH = "EIGENPROBE_FRESH"  # .ci/run sets it
SITE = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def built_wheel(folder: Path) -> Path:
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder,
        ROOT,
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    return next(folder.glob("*.whl"))


def needed(
    distribution_: Distribution, extras: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """Names (and their extras) of what a distribution asks for on this machine."""
    for line in distribution_.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield requirement.name, frozenset(requirement.extras)


def closure(first: Distribution) -> list[Distribution]:
    """Everything that ``pip install`` of it would bring, as it is installed here."""
    waiting, seen, found = list(needed(first)), set(), {}
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # a part of a package for other machines
            continue
        waiting += needed(found[name], extras)
    return list(found.values())


def first_example(python: Path, folder: Path) -> None:
    """The command and the Python block of the README, in a folder with a mesh of that name."""
    ep.geometry.save(ep.geometry.Shape(*blob(10)), folder / "bunny.obj")
    text = (ROOT / "README.md").read_text().split("## A shape")[1]
    command = re.search(r"^\$ eigenprobe (decompose .*)$", text, re.M)[1].split()
    block = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1]
    environment = {"PATH": "", "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    block += f"\n{RECIPES}\nfrom eigenprobe.cli import main\nmain(['train', 'overfit'])"
    told = "eigenprobe: this needs yaml: pip install 'eigenprobe[train]'"
    for words, said in (
        ([python.with_name("eigenprobe"), *command], ""),
        ([python, "-W", "error", "-c", block], told),
    ):
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=200
        )
        assert (
            done.returncode == 0
            and done.stderr.startswith(said)
            and len(done.stderr.splitlines()) == bool(said)
        )
    assert {path.name for path in (folder / "bunny").iterdir()} == {
        "basis.safetensors",
        "report.html",
        "summary.json",
    }


def test_the_first_example_with_the_packages_of_the_wheel_only(tmp_path: Path) -> None:
    """A new environment that holds the wheel and links to exactly what the wheel asks for."""
    venv.create(tmp_path / "env", with_pip=False)
    python, site = tmp_path / "env" / "bin" / "python", tmp_path / "env" / SITE
    words = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-deps",
        built_wheel(tmp_path),
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    (metadata,) = site.glob("eigenprobe-*.dist-info")
    here = Path(sysconfig.get_path("purelib"))
    for each in closure(Distribution.at(metadata)):
        for top in {
            file.parts[0] for file in each.files or () if file.parts[0] not in ("..", "__pycache__")
        }:
            if not (site / top).exists():
                (site / top).symlink_to(here / top)
    for absent in ("igl", "pytest", "lightning", "tensorboard", "huggingface_hub"):
        assert not (site / absent).exists(), absent
    first_example(python, tmp_path)


@pytest.mark.timeout(900)
@pytest.mark.skipif(not os.environ.get(FRESH), reason=f"downloads a gigabyte: set {FRESH}=1")
def test_the_first_example_after_pip_install(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    alone = [python, "-I", "-m", "pip"]  # what PYTHONPATH offers is not installed here
    words = [*alone, "install", "-q", "-c", ROOT / "constraints.txt", ROOT]
    subprocess.run(words, check=True, timeout=800)
    check = subprocess.run([*alone, "check"], capture_output=True, text=True, timeout=100)
    assert check.returncode == 0, check.stdout
    first_example(python, tmp_path)
