"""Types that a user's checker believes: a script is checked as a user would, by mypy, and by
pyright where it is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

import eigenprobe as ep
from eigenprobe.decomposition.entry import Options
from eigenprobe.training import FitSettings, fit_network

SOURCE = Path(__file__).parent.parent / "src"
# what a user writes | what its type is called
CALLS = """
ep.decompose("bunny.obj").eigenvalues | ndarray
ep.decompose(Path("bunny.obj"), k=20, dimension=2, neighbours="plain").mass | ndarray
ep.decompose(trimesh.creation.capsule(), k=5).vectors | ndarray
ep.decompose(ep.datasets.creature(), resolution="all").vectors | ndarray
ep.decompose((x, faces), 9).vectors | ndarray
ep.decompose(torch.zeros((9, 3))).vectors | Tensor
ep.decompose([x, x], 3)[0].vectors | ndarray
ep.decompose([torch.zeros((9, 3))], 3)[0].vectors | Tensor
ep.decompose(x, method="network", steps=100).vectors | ndarray
ep.decompose(x, method="pretrained", refine=2).vectors | ndarray
basis.filter(x, lambda e: e < 3) | ndarray
basis(x) | ndarray
ep.apps.hks(basis, 16) | ndarray
ep.apps.hks(basis.torch(), 16) | Tensor
ep.apps.match(basis, basis)[1] | ndarray
ep.apps.geodesic_distance(x, 0) | ndarray
ep.laplacian(torch.zeros((9, 3)))[0] | Tensor
ep.geometry.oracle(x, faces, 3).vectors | ndarray
ep.SpectralModel.from_pretrained("surface").encode(x, k=3).vectors | ndarray
ep.Eigenmaps(n_components=2).fit(x) | Eigenmaps
ep.Eigenmaps(n_components=2).fit_transform(x) | ndarray
"""
SCRIPT = """
from pathlib import Path

import numpy as np
import torch
import trimesh

import eigenprobe as ep

x, faces = np.zeros((9, 3)), np.zeros((4, 3), dtype=np.int64)
basis = ep.decompose(x, k=3)
"""
WRONG = ('ep.decompose("bunny.obj", neighbour=12)', "ep.laplacian(x, parts='some')")


def script(folder: Path) -> tuple[Path, list[str]]:
    """A user's script, and the names of the types in it, in order."""
    calls = [line.rpartition(" | ") for line in CALLS.strip().splitlines()]
    path = folder / "script.py"
    path.write_text(SCRIPT + "".join(f"reveal_type({call})\n" for call, _, _ in calls))
    with path.open("a") as file:
        file.writelines(f"{call}\n" for call in WRONG)
    return path, [name for _, _, name in calls]


def found(command: list[str], folder: Path) -> list[str]:
    environment = os.environ | {"MYPYPATH": str(SOURCE), "HOME": str(folder)}
    command = [sys.executable, "-m", *command]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder
    ).stdout.splitlines()


@pytest.mark.long
def test_mypy_understands_a_users_script(tmp_path: Path) -> None:
    path, names = script(tmp_path)
    config = ["--follow-imports", "silent", "--ignore-missing-imports", "--python-version", "3.11"]
    lines = found(["mypy", "--no-incremental", *config, str(path)], tmp_path)
    told = [line for line in lines if "Revealed" in line]
    assert all(name in line for name, line in zip(names, told, strict=True)), told
    assert len({line.split(":")[1] for line in lines if "error:" in line}) == len(WRONG), lines


@pytest.mark.long
@pytest.mark.skipif(not importlib.util.find_spec("basedpyright"), reason="no basedpyright")
def test_pyright_understands_a_users_script(tmp_path: Path) -> None:
    path, names = script(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{SOURCE}"], "typeCheckingMode": "standard"}}'
    )
    lines = found(["basedpyright", "--pythonpath", sys.executable, str(path)], tmp_path)
    told = [line.rpartition(" is ")[2] for line in lines if "Type of" in line]
    assert all(name in line for name, line in zip(names, told, strict=True)), told
    assert len({line.split(":")[1] for line in lines if "error:" in line}) == len(WRONG), lines


def test_every_option_of_decompose_has_a_type() -> None:
    """`Options` spells out what `decompose` and the two methods that learn take."""
    called = [ep.decompose, fit_network, ep.SpectralModel.encode]
    names = {name for each in called for name in signature(each).parameters}
    names |= {field.name for field in fields(FitSettings)} | {"model"}
    names -= {"self", "points", "k", "method", "options"}
    assert set(Options.__annotations__) - {"neighbors"} == names  # which is another spelling
