"""What people have: files, meshes of other libraries, lists; numpy in, numpy out in every public
function.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.points import check_points, points_and_faces
from tests.meshes import blob


def carriers(folder: Path) -> dict[str, Any]:
    """One mesh in every form. Open3D and PyVista are stood in for by what they hold (checked
    against the real ones).
    """
    import trimesh
    from torch_geometric.data import Data

    vertices, faces = blob(5)
    shape = ep.geometry.Shape(vertices, faces)
    ep.geometry.save(shape, path := folder / "a.off")
    flat = np.hstack([np.full((len(faces), 1), 3), faces]).ravel()
    return {
        "path": path,
        "text": str(path),
        "Shape": shape,
        "pair": (vertices, faces),
        "pair of tensors": (torch.tensor(vertices), torch.tensor(faces)),
        "trimesh": trimesh.Trimesh(vertices, faces, process=False),
        "Open3D": SimpleNamespace(vertices=vertices.tolist(), triangles=faces.tolist()),
        "PyVista": SimpleNamespace(points=vertices, faces=flat),
        "PyG": Data(pos=torch.tensor(vertices), face=torch.tensor(faces.T)),
    }


def test_every_carrier_gives_the_same(tmp_path: Path) -> None:
    vertices, faces = blob(5)
    model = ep.SpectralModel.from_pretrained("surface")
    expected, encoded = ep.decompose(vertices, k=4), model.encode(vertices, k=4)
    stiffness = ep.laplacian(vertices)[0]
    for name, source in carriers(tmp_path).items():
        points, triangles = points_and_faces(source)
        assert np.allclose(np.asarray(points), vertices, atol=1e-6) and np.array_equal(
            triangles, faces
        ), name
        for call, wanted in ((ep.decompose, expected), (model.encode, encoded)):
            basis = call(source, k=4).numpy()
            assert np.allclose(basis.eigenvalues, wanted.eigenvalues, rtol=1e-3), name
            assert np.array_equal(basis.faces, faces), name
        matrix = ep.laplacian(source)[0]
        matrix = matrix.to_dense().numpy() if isinstance(matrix, torch.Tensor) else matrix.toarray()
        assert np.abs(matrix - stiffness.toarray()).max() < 1e-3 * np.abs(matrix).max(), name
        assert len(ep.geometry.sample_surface(source, 10, 0)) == 10, name


def test_a_small_pyg_mesh_is_not_read_sideways() -> None:
    """Three faces: a matrix (3, 3) either way, told by its name."""
    faces = torch.tensor([[0, 0, 0], [1, 2, 3], [2, 3, 1]])
    assert (
        points_and_faces(SimpleNamespace(pos=torch.rand(4, 3), face=faces))[1] == faces.T.numpy()
    ).all()


def test_lists_of_anything(tmp_path: Path) -> None:
    vertices, _ = blob(4)
    np.save(tmp_path / "a.npy", vertices)
    model = ep.SpectralModel.from_pretrained("surface")
    several = [
        vertices.tolist(),
        tmp_path / "a.npy",
        torch.tensor(vertices),
        ep.geometry.Shape(vertices),
    ]
    for call in (ep.decompose, model.encode):
        bases = call(several, k=3)
        assert len(bases) == 4 and all(
            np.allclose(b.eigenvalues, bases[0].eigenvalues, atol=1e-6) for b in bases
        )
        one = call(vertices.tolist(), k=3)
        assert np.allclose(one.eigenvalues, bases[0].eigenvalues, atol=1e-9)
    assert len(ep.laplacian(several[:2])) == 2
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes())
    assert [basis.n for basis in model.encode(tmp_path, k=3)] == [len(vertices)] * 2


@pytest.mark.parametrize("wrong", [None, {"points": 3}, 7, object()])
def test_other_things_are_one_line(wrong: Any) -> None:
    model = ep.SpectralModel.from_pretrained("surface")
    for call in (ep.decompose, model.encode, ep.laplacian, ep.build_graph, ep.build_smoother):
        with pytest.raises(InputError, match=rf"^expected points .*, got {type(wrong).__name__}$"):
            call(wrong)


def test_numpy_in_numpy_out(tmp_path: Path) -> None:
    vertices, _ = blob(4)
    reference = ep.build_graph(torch.tensor(vertices), 5)
    for source in (vertices, vertices.tolist(), ep.geometry.Shape(vertices)):
        graph = ep.build_graph(source, 5)
        assert all(
            isinstance(each, np.ndarray) for each in (graph.points, graph.indices, graph.distances)
        )
        assert np.array_equal(graph.indices, reference.indices.numpy())
        assert np.array_equal(graph.distances, reference.distances.numpy())
        assert graph.components()[0] == 1 and isinstance(graph.components()[1], np.ndarray)
    assert ep.build_graph(vertices.astype(np.float32), 5).distances.dtype == np.float32
    f = np.random.default_rng(0).normal(size=(len(vertices), 2))
    for kind in ("adaptive", "symmetric", "row"):
        wanted = ep.build_smoother(torch.tensor(vertices), kind)
        smoother = ep.build_smoother(vertices, kind)
        for name in ("apply", "apply_transpose", "apply_symmetric"):
            found = getattr(smoother, name)(f)
            assert isinstance(found, np.ndarray)
            assert np.allclose(found, getattr(wanted, name)(torch.tensor(f)).numpy(), atol=1e-12)
        assert np.allclose(
            smoother.power(f, 3), wanted.power(torch.tensor(f), 3).numpy(), atol=1e-12
        )
        assert np.allclose(
            ep.build_smoother(ep.build_graph(vertices, 30), kind).apply(f).mean(),
            f.mean(),
            atol=0.05,
        )
    probes = ep.Probes(count=3, k=5, steps=2)
    generator = lambda: torch.Generator().manual_seed(0)  # noqa: E731
    drawn = probes.draw(torch.tensor(vertices), generator()).numpy()
    for source in (vertices, ep.build_graph(vertices, 5), ep.geometry.Shape(vertices)):
        found = probes.draw(source, generator())
        assert isinstance(found, np.ndarray) and np.array_equal(found, drawn)
    assert probes.draw(np.stack([vertices, vertices]), generator()).shape == (2, len(vertices), 3)


def test_odd_arguments_are_one_line(tmp_path: Path) -> None:
    vertices, faces = blob(4)
    basis = ep.decompose(vertices, k=4)
    for call, told in {
        lambda: basis.project(["a"] * basis.n): "expected an array of numbers, got <U1",
        lambda: basis.reconstruct("abc"): "expected an array of numbers",
        lambda: basis.torch().project(["a"] * basis.n): "expected an array of numbers",
        lambda: basis.truncate(2.5): "k must be a whole number, got 2.5",
        lambda: basis.plot(
            [1], interactive=True, path="a.html"
        ): "an interactive plot does not take path",
        lambda: ep.decompose(
            vertices, k=4, device="cuda:77"
        ): "device 'cuda:77' cannot be used here",
        lambda: ep.geometry.load(tmp_path): "expected a file, or views with a pose each",
        lambda: ep.geometry.sample_surface(
            ep.geometry.Shape(vertices), 5
        ): "expected a mesh with faces",
    }.items():
        with pytest.raises(InputError, match=told) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert np.array_equal(
        ep.geometry.farthest_points(vertices.tolist(), 5), ep.geometry.farthest_points(vertices, 5)
    )
    areas = ep.geometry.face_areas(vertices.tolist(), faces.tolist())
    assert np.allclose(
        areas.sum(), ep.geometry.vertex_areas(vertices.tolist(), faces.tolist()).sum()
    )
    assert ep.geometry.is_closed(faces.tolist())[0]


def test_a_table_with_named_axes(rng: np.random.Generator) -> None:
    table = pd.DataFrame(rng.normal(size=(200, 6)), columns=["r", "X", "Y", "Z", "g", "b"])
    points, _ = points_and_faces(table)
    np.testing.assert_array_equal(points, table[["X", "Y", "Z"]])


def test_single_precision_far_from_the_origin(tmp_path: Path, rng: np.random.Generator) -> None:
    """At 4,500,000 the next number is half a unit away: metres of a map, points 20 cm apart."""
    far = (rng.uniform(0, 20, size=(5000, 3)) + 4_500_000).astype(np.float32)
    for rounded in (far, far.astype(np.float64)):  # as readers give it
        with pytest.warns(ep.EigenprobeWarning, match="rounded to 0.5"):
            check_points(rounded, 3)
    for digits in ("%.9g", "%.2f", "%.17g"):
        np.savetxt(path := tmp_path / "far.xyz", far, fmt=digits)
        with pytest.warns(ep.EigenprobeWarning, match="rounded to 0.5"):
            check_points(path, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_points((far - 4_500_000).astype(np.float32), 3)
        exact = rng.uniform(0, 20, size=(5000, 3)) + 4_500_000
        check_points(exact, 3)
        check_points(exact.round(2), 3)
        check_points(rng.integers(0, 20, size=(5000, 3)) + 4_500_000.0, 3)


def test_vertices_that_do_not_cover_their_faces(tmp_path: Path) -> None:
    """A capsule has vertices on its caps alone: lambda_2 was 3e-12. A sphere is taken as it is."""
    import trimesh

    trimesh.creation.capsule(height=1, radius=1).export(tmp_path / "capsule.ply")
    with pytest.warns(ep.EigenprobeWarning, match="points are drawn on its faces"):
        basis = ep.decompose(tmp_path / "capsule.ply", k=4)
    assert basis.n == 4000 and basis.faces is None and "33 %" in basis.info["warnings"][0]
    assert basis.eigenvalues[1] == pytest.approx(1.02, rel=0.03)
    trimesh.creation.icosphere(3).export(tmp_path / "sphere.ply")
    sphere = ep.decompose(tmp_path / "sphere.ply", k=4)
    assert sphere.n == 642 and sphere.faces is not None and sphere.info["warnings"] == []
