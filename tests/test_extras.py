"""The base install does what the README's first example does; any other missing package is one line
to type.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import EXTRAS, InputError, extra
from tests.clouds import fibonacci_sphere
from tests.meshes import blob

ROOT = Path(__file__).resolve().parent.parent
BASE = f"""
import sys
for package in {sorted(EXTRAS)!r}:
    sys.modules[package] = None  # as if it were not installed
from eigenprobe.cli import main
assert main(["decompose", "bunny.obj", "-k", "5", "--out", "bunny"]) == 0
assert main(["decompose", "cloud.xyz", "-k", "5", "--out", "cloud", "--no-report"]) == 0
import eigenprobe as ep
shape = ep.geometry.load("bunny.obj")
basis = ep.decompose(shape.vertices, k=5)
basis.filter(shape.vertices, lambda lam: lam < basis.eigenvalues[3])
assert main(["decompose", "bunny.obj", "-k", "5", "--volume", "--out", "inside"]) == 2
assert main(["train", "overfit", "shape=bunny.obj"]) == 2
assert main(["encode", "bunny.obj", "--model", "owner/name"]) == 2
"""
TRAINING = """
import sys
sys.modules["lightning"] = None
import eigenprobe as ep
from tests.clouds import fibonacci_sphere
x = fibonacci_sphere(200)
network = lambda: ep.decompose(x, k=5, method="network")
estimator = lambda: ep.OptimalApproximationEigenmaps(3, solver="network").fit(x)
for call in (network, estimator, lambda: ep.training):
    try:
        call()
    except ep.InputError as error:
        assert str(error) == "this needs lightning: pip install 'eigenprobe[train]'", error
    else:
        raise AssertionError("no error")
ep.decompose(x, k=5)
"""
# Four threads that come to training by different modules, all at the same time, in a fresh process.
THREADS = """
import importlib, sys, threading
import eigenprobe as ep
training = "eigenprobe.training"
names = (training, training + ".fit", training + ".runs", "eigenprobe_lab.factory.overfit")
barrier, failed = threading.Barrier(len(names)), []
def load(name):
    barrier.wait()
    try:
        getattr(importlib.import_module(name), "RunSettings")
    except Exception as error:
        failed.append(repr(error))
threads = [threading.Thread(target=load, args=(name,)) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
"""


def test_the_first_example_needs_no_extra(tmp_path: Path) -> None:
    ep.geometry.save(ep.geometry.Shape(*blob(8)), tmp_path / "bunny.obj")
    np.savetxt(tmp_path / "cloud.xyz", fibonacci_sphere(200))
    needs = {"igl": "geometry", "yaml": "train", "huggingface_hub": "hub"}
    lines = [
        f"eigenprobe: this needs {name}: pip install 'eigenprobe[{of}]'\n"
        for name, of in needs.items()
    ]
    assert python(BASE, tmp_path) == "".join(lines)


def python(program: str, folder: Path) -> str:
    """What a fresh process says on stderr while it runs the program."""
    environment = {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PATH": "",
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_training_without_lightning_is_one_line_and_decompose_never_imports_it(
    tmp_path: Path,
) -> None:
    assert python(TRAINING, tmp_path) == ""


def test_threads_that_load_training_together(tmp_path: Path) -> None:
    python(THREADS, tmp_path)


def test_every_extra_exists_and_none_is_needed_by_the_base() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= set(project["optional-dependencies"])
    base = " ".join(project["dependencies"])
    assert (
        "trimesh" in base
        and "pandas" in base
        and not [name for name in EXTRAS if f" {name}>" in f" {base}"]
    )


def test_a_missing_extra_is_one_line_in_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("igl", "torch_geometric", "pynndescent"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(
            InputError, match=rf"^this needs {name}: pip install 'eigenprobe\[{EXTRAS[name]}\]'$"
        ):
            extra(name)
    for loaded in ("eigenprobe.interop.pyg", "torch_geometric.transforms"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    with pytest.raises(InputError, match=r"pip install 'eigenprobe\[pyg\]'"):
        _ = ep.interop.SpectralBasis
    with pytest.raises(ModuleNotFoundError):
        extra("no_such_package")
