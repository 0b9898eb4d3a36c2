"""Objects of other libraries: our operators inside them, values on them, and their points taken,
with real packages.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trimesh
from matplotlib import colormaps

import eigenprobe as ep
from eigenprobe.errors import InputError


@pytest.fixture(scope="module")
def mesh() -> tuple[np.ndarray, np.ndarray]:
    sphere = trimesh.creation.icosphere(3)
    vertices, faces = sphere.vertices, sphere.faces
    return 2 * np.asarray(vertices), np.asarray(faces)


def _is_ours(
    values: np.ndarray, vectors: np.ndarray, stiffness: np.ndarray, mass: np.ndarray
) -> None:
    """Of a sphere of radius 2: l (l + 1) / 4, orthonormal in a mass that sums to its area."""
    np.testing.assert_allclose(values[1:9], [0.5] * 3 + [1.5] * 5, rtol=0.03)
    np.testing.assert_allclose(vectors.T @ (mass @ vectors), np.eye(vectors.shape[1]), atol=1e-6)
    np.testing.assert_allclose(stiffness @ vectors, (mass @ vectors) * values, atol=1e-4)
    assert mass.sum() == pytest.approx(16 * np.pi, rel=0.03)


def test_pyfm_mesh(mesh: tuple[np.ndarray, np.ndarray]) -> None:
    pyfm = pytest.importorskip("pyFM.mesh", reason="pip install 'eigenprobe[peers]'")
    shape = pyfm.TriMesh(*mesh)
    assert ep.interop.equip(shape, k=12) is shape
    _is_ours(shape.eigenvalues, shape.eigenvectors, shape.stiffness, shape.mass)
    f = shape.vertices[:, 2]  # its own tools work with our basis
    assert np.abs(shape.unproject(shape.project(f)) - f).max() < 0.02
    other = ep.interop.equip(pyfm.TriMesh(mesh[0][::-1].copy()), k=12)  # a cloud: without faces
    _is_ours(other.eigenvalues, other.eigenvectors, other.stiffness, other.mass)


def test_geomfum_shapes(mesh: tuple[np.ndarray, np.ndarray]) -> None:
    shapes = pytest.importorskip("geomfum.shape", reason="pip install 'eigenprobe[geomfum]'")
    for shape in (shapes.TriangleMesh(*mesh), shapes.PointCloud(mesh[0])):
        ep.interop.equip(shape, k=12)
        laplacian = shape.laplacian
        _is_ours(
            shape.basis.vals, shape.basis.vecs, laplacian.stiffness_matrix, laplacian.mass_matrix
        )
        f = np.asarray(shape.vertices)[:, 0]
        assert np.abs(shape.basis.vecs @ shape.basis.project(f) - f).max() < 0.02
        before = np.asarray(laplacian.stiffness_matrix @ f)
        ep.interop.equip(
            shape, k=5, neighbours=9
        )  # again, with other settings: what it had is replaced
        assert (
            shape.basis.full_vecs.shape[1] == 5
            and np.abs(laplacian.stiffness_matrix @ f - before).max() > 1e-6
        )


def test_points_of_trimesh_and_pyvista_are_taken_and_drawn(
    mesh: tuple[np.ndarray, np.ndarray],
) -> None:

    pyvista = pytest.importorskip("pyvista", reason="pip install pyvista")
    vertices, faces = mesh
    expected = ep.decompose(vertices, k=4)
    objects = [trimesh.Trimesh(vertices, faces, process=False), trimesh.PointCloud(vertices)]
    objects += [pyvista.PolyData.from_regular_faces(vertices, faces), pyvista.PolyData(vertices)]
    f = np.asarray(expected.vectors[:, 1])
    for shape in objects:
        basis = ep.decompose(shape, k=4)
        np.testing.assert_allclose(basis.eigenvalues, expected.eigenvalues, rtol=1e-3, atol=1e-6)
        assert abs(ep.laplacian(shape)[1].sum() - 16 * np.pi) < 2
        assert ep.apps.geodesic_distance(shape, 0).shape == (len(vertices),)
        drawn = ep.interop.with_scalars(shape, torch.as_tensor(f), name="v2")
        if isinstance(shape, pyvista.PolyData):
            assert np.allclose(drawn.point_data["v2"], f) and "v2" not in shape.point_data
        else:
            colours = np.asarray(drawn.visual.vertex_colors, int)
            red, blue = colours[f.argmax()], colours[f.argmin()]
            assert red[0] > red[2] and blue[2] > blue[0], "blue below 0, red above"
            assert not np.array_equal(np.asarray(shape.visual.vertex_colors), colours)
    assert (
        ep.decompose(objects[0], k=4).faces is not None
        and ep.decompose(objects[2], k=4).faces is not None
    )


def test_open3d(mesh: tuple[np.ndarray, np.ndarray]) -> None:
    o3d = pytest.importorskip("open3d", reason="pip install open3d")
    points, triangles = o3d.utility.Vector3dVector(mesh[0]), o3d.utility.Vector3iVector(mesh[1])
    for shape, place in (
        (o3d.geometry.PointCloud(points), "colors"),
        (o3d.geometry.TriangleMesh(points, triangles), "vertex_colors"),
    ):
        basis = ep.decompose(shape, k=4)
        np.testing.assert_allclose(
            basis.eigenvalues, ep.decompose(mesh[0], k=4).eigenvalues, rtol=1e-9, atol=1e-9
        )
        drawn = ep.interop.with_scalars(shape, basis.vectors[:, 1])
        assert np.asarray(getattr(drawn, place)).shape == (len(mesh[0]), 3) and not len(
            getattr(shape, place)
        )


def test_bad_input_is_one_line(mesh: tuple[np.ndarray, np.ndarray]) -> None:

    with pytest.raises(InputError, match="TriMesh of pyFM or a shape of GeomFuM, got ndarray"):
        ep.interop.equip(mesh[0])
    with pytest.raises(InputError, match=r"values of shape \(642,\), got \(3,\)"):
        ep.interop.with_scalars(trimesh.Trimesh(*mesh, process=False), np.zeros(3))
    with pytest.raises(InputError, match="trimesh, Open3D or PyVista, got SimpleNamespace"):
        ep.interop.with_scalars(SimpleNamespace(points=mesh[0]), np.zeros(642))


class Numbers(np.ndarray):
    """Three numbers a row, as Open3D's vectors have."""

    def __new__(cls, rows: np.ndarray) -> Numbers:
        assert rows.ndim == 2 and rows.shape[1] == 3 and rows.flags.c_contiguous
        return rows.view(cls)


@pytest.mark.parametrize("place", ["colors", "vertex_colors"])
def test_colours_are_three_numbers_in_the_kind_that_a_shape_has(place: str) -> None:
    points = np.random.default_rng(0).random((30, 3))
    shape = SimpleNamespace(points=points, **{place: Numbers(np.zeros((30, 3)))})
    drawn = ep.interop.with_scalars(shape, np.linspace(-1, 1, 30))
    colours = getattr(drawn, place)
    assert (
        isinstance(colours, Numbers)
        and colours.shape == (30, 3)
        and not getattr(shape, place).any()
    )
    assert (
        colours[0, 2] > colours[0, 0] and colours[-1, 0] > colours[-1, 2]
    )  # blue below 0, red above


def test_zero_is_in_the_middle_of_the_colours() -> None:
    mesh = trimesh.creation.icosphere(1)
    values = np.zeros(len(mesh.vertices))
    values[1], values[2] = -1.0, 2.0
    for shift, places in ((0, (0.5, 0.25, 1.0)), (3, (1 / 3, 0.0, 1.0))):  # both signs; one sign
        shades = np.asarray(ep.interop.with_scalars(mesh, values + shift).visual.vertex_colors)
        expected = [255 * np.array(colormaps["RdBu_r"](place)) for place in places]
        np.testing.assert_allclose(shades[:3], expected, atol=1)
    shades = ep.interop.with_scalars(mesh, 0 * values + 7).visual.vertex_colors  # a constant
    assert len(np.unique(shades, axis=0)) == 1
