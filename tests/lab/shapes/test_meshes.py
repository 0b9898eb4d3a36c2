"""Real meshes: dense points on their faces, and paths along them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.io.mesh import face_areas
from eigenprobe_lab.shapes.contacts import distances
from eigenprobe_lab.shapes.meshes import (
    HELD_OUT,
    MeshShapes,
    edges_of,
    mesh_links,
    read_meshes,
    refine,
)
from tests.meshes import blob, cube, sphere, torus


@pytest.mark.parametrize("mesh", [torus(16, 8), blob(4), cube(2)])
def test_a_refined_mesh_is_the_same_surface(mesh: tuple[np.ndarray, np.ndarray]) -> None:
    vertices, faces = refine(*mesh, 1000)
    assert len(vertices) == 1000
    assert face_areas(vertices, faces).sum() == pytest.approx(face_areas(*mesh).sum())
    edges, of_face = edges_of(faces)
    assert (np.bincount(of_face.reshape(-1)) == 2).all(), "closed as before"
    before = len(mesh[0]) - len(edges_of(mesh[1])[0]) + len(mesh[1])
    assert len(vertices) - len(edges) + len(faces) == before
    length = np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1)
    assert length.max() < 6 * np.sqrt(face_areas(*mesh).sum() / 1000)


def test_paths_on_a_sphere_are_arcs() -> None:
    vertices, faces = refine(*sphere(12), 3000)
    vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
    index, length = (torch.from_numpy(x)[None] for x in mesh_links(vertices, faces))
    far = distances((index, length.float()), torch.tensor([[0]]), 4.0)[0, :, 0].numpy()
    exact = np.arccos(np.clip(vertices @ vertices[0], -1, 1))
    ratio = far[exact > 0.3] / exact[exact > 0.3]
    assert ratio.min() > 0.99 and ratio.max() < 1.1 and ratio.mean() < 1.05


def test_no_path_crosses_the_gap_between_sheets() -> None:
    """A strip folded in two: the ends of it lie close to each other."""
    s, t = (x.reshape(-1) for x in np.meshgrid(np.linspace(0, 2, 41), np.linspace(0, 1, 21)))
    x, z = np.where(s < 1, s, 2 - s), np.where(s < 1, 0.0, 0.02)
    corner = np.arange(20 * 41).reshape(20, 41)[:, :40].reshape(-1)
    first = np.stack([corner, corner + 1, corner + 41], 1)
    second = np.stack([corner + 1, corner + 42, corner + 41], 1)
    faces = np.concatenate([first, second])
    index, length = mesh_links(np.stack([x, t, z], 1), faces)
    graph = torch.from_numpy(index)[None], torch.from_numpy(length)[None].float()
    far = distances(graph, torch.tensor([[0]]), 4.0)[0, :, 0]
    assert float(far[40]) == pytest.approx(2.0, abs=0.05), "not .02, through the gap"


def test_meshes_come_back_dense(tmp_path: Path) -> None:
    vertices, faces = torus(16, 10)
    both = np.concatenate([100 * vertices, 0.1 * blob(4)[0] + 500])
    apart = np.concatenate([faces, blob(4)[1] + len(vertices)])  # a small part beside it
    soup = vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)
    given = {"a": (both, apart), "b": blob(5), "c": soup, "few": cube(1)}
    arrays = {f"{name}/{k}": x for name, m in given.items() for k, x in zip("vf", m, strict=True)}
    np.savez(tmp_path / "meshes.npz", **arrays)
    source = MeshShapes(tmp_path / "meshes.npz", 0, torch.device("cpu"), 4, 600, 200, 1)
    assert len(source.meshes) == 2, "the first is held out"
    shapes, (index, length), order = source.block(0)
    assert shapes.points.shape == shapes.normals.shape == (4, 600, 3)
    assert float(shapes.points.norm(dim=2).amax(1).min()) == pytest.approx(1, abs=1e-5)
    assert not shapes.part.any(), "closed surfaces"
    ends = shapes.points[torch.arange(4)[:, None, None], index]
    chord = (ends - shapes.points[:, :, None]).norm(dim=3)
    linked = torch.isfinite(length)
    assert bool((length[linked] >= chord[linked] - 1e-5).all())
    assert float((length[linked] / chord[linked].clamp_min(1e-9)).median()) < 1.02
    assert order.shape[0] == 4 and int(order.max()) < 600
    again = MeshShapes(tmp_path / "meshes.npz", 0, torch.device("cpu"), 4, 600, 200, 1).block(0)
    assert torch.equal(again[0].points, shapes.points)
    held = MeshShapes(tmp_path / "meshes.npz", 0, source.device, 1, 600, 200, 1, held_out=True)
    assert len(held.meshes) == 1 and HELD_OUT > 3


def test_a_file_without_meshes_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.eye(3))
    with pytest.raises(InputError, match="expected meshes NAME/v and NAME/f"):
        read_meshes(tmp_path / "other.npz")
