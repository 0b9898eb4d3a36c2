"""Tests of `paper.meshes`: clouds of real meshes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe_lab.paper.meshes import CLEAN, MeshClouds


def icosahedron() -> tuple[np.ndarray, np.ndarray]:
    from scipy.spatial import ConvexHull

    g = (1 + 5**0.5) / 2
    x = np.array([(0, a, b * g) for a in (-1, 1) for b in (-1, 1)])
    x = np.concatenate([x, np.roll(x, 1, 1), np.roll(x, 2, 1)])
    return x, ConvexHull(x).simplices


@pytest.fixture
def file(tmp_path: Path) -> Path:
    vertices, faces = icosahedron()
    far = vertices + 100
    np.savez(
        tmp_path / "m.npz",
        **{"a/v": vertices, "a/f": faces, "flat/v": far * [1, 1, 0], "flat/f": faces},
    )
    return tmp_path / "m.npz"


def test_points_lie_on_one_mesh_each_and_depend_on_the_step(file: Path) -> None:
    clouds = MeshClouds(file)
    assert len(clouds) == 2
    x, again, other = (clouds.draw(6, 200, step) for step in (0, 0, 1))
    assert x.shape == (6, 200, 3) and torch.equal(x, again) and not torch.equal(x, other)
    assert torch.allclose(x.norm(dim=-1).amax(1), torch.ones(6))
    clouds = MeshClouds(file, variation=replace(CLEAN, scale=0, bend=0, twist=0, taper=0))
    spread = torch.linalg.svdvals(clouds.draw(30, 200, 0))[:, -1]  # undeformed: flat or round
    assert ((spread < 1e-3) | (spread > 1)).all() and len(set((spread > 1).tolist())) == 2


def test_a_file_without_meshes_is_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", points=np.zeros((3, 3)))
    with pytest.raises(InputError, match="expected meshes NAME/v and NAME/f"):
        MeshClouds(tmp_path / "m.npz")
