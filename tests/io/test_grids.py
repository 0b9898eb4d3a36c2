"""Files of simulations: points and faces come back, and headers cannot claim more than the file
holds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.io.shapes import load
from tests.meshes import blob


def write_grid(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    import meshio

    if path.suffix == ".vtp":
        return (
            pytest.importorskip("pyvista").PolyData.from_regular_faces(vertices, faces).save(path)
        )
    meshio.Mesh(vertices, [("triangle", faces[:-1]), ("triangle", faces[-1:])]).write(path)


@pytest.mark.parametrize("suffix", ["vtk", "vtu", "vtp"])
def test_vtk(tmp_path: Path, suffix: str) -> None:
    vertices, faces = blob(3)
    write_grid(path := tmp_path / f"a.{suffix}", vertices, faces)
    shape = load(path)
    assert (shape.vertices == vertices).all() and (shape.faces == faces).all()


def test_vtp_of_polygons_and_scalars(tmp_path: Path) -> None:
    """Quadrilaterals, lines and data at the points; as text, in base64, and raw, which is told."""
    pyvista, vtk = pytest.importorskip("pyvista"), pytest.importorskip("vtk")
    surface = pyvista.PolyData(np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0]]))
    surface.faces, surface.lines, surface["s"] = (
        [4, 0, 1, 2, 3, 3, 1, 4, 2],
        [2, 0, 1],
        np.arange(5.0),
    )
    for mode, encoded in (
        (vtk.vtkXMLWriter.Ascii, 1),
        (vtk.vtkXMLWriter.Appended, 1),
        (vtk.vtkXMLWriter.Appended, 0),
    ):
        writer = vtk.vtkXMLPolyDataWriter()
        writer.SetFileName(str(path := tmp_path / "a.vtp"))
        writer.SetInputData(surface)
        writer.SetDataMode(mode)
        writer.SetEncodeAppendedData(encoded)
        writer.Write()
        if encoded:
            shape = load(path)
            assert shape.vertices[4].tolist() == [2, 0, 0] and len(shape.vertices) == 5
            assert sorted(shape.faces.tolist()) == [[0, 1, 2], [0, 2, 3], [1, 4, 2]]
        else:
            with pytest.raises(InputError, match="got raw ones"):
                load(path)


def test_quadrilaterals_are_two_triangles(tmp_path: Path) -> None:
    import meshio

    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    meshio.Mesh(square, [("quad", np.array([[0, 1, 2, 3]]))]).write(tmp_path / "a.vtk")
    assert load(tmp_path / "a.vtk").faces.tolist() == [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize("title", ["a title", ""])
def test_vtk_surfaces(tmp_path: Path, title: str) -> None:
    """Of triangles, as ParaView and PyVista write them, in text: the old and the new way to list
    cells, a field before, functions behind.
    """
    before = (
        "FIELD FieldData 1\ntime 1 2 double\n0 1\nPOINTS 5 float\n0 0 0 1 0 0 1 1 0\n0 1 0 2 0 0\n"
    )
    before += "METADATA\nINFORMATION 0\n\n"
    old = "POLYGONS 2 8\n3 0 1 2\n3 1 4 2\n"
    new = "POLYGONS 3 6\nOFFSETS vtktypeint64\n0 3 6\nCONNECTIVITY vtktypeint64\n0 1 2 1 4 2\n"
    (path := tmp_path / "a.vtk").touch()
    for version, cells in (("3.0", old), ("5.1", new)):
        head = f"# vtk DataFile Version {version}\n{title}\nASCII\nDATASET POLYDATA\n"
        path.write_text(head + before + cells + "POINT_DATA 5\nNORMALS n float\n1 2 3\n")
        shape = load(path)
        assert shape.vertices[3].tolist() == [2, 0, 0] and len(shape.vertices) == 4
        assert sorted(shape.faces.tolist()) == [[0, 1, 2], [1, 3, 2]]
    path.write_text(head + before + old.replace("2 8\n3", "2 9\n4 3"))
    with pytest.raises(InputError, match="a surface of triangles: convert it to ply"):
        load(path)


@pytest.mark.parametrize("binary", [False, True])
def test_vtk_of_other_programs(tmp_path: Path, binary: bool) -> None:
    """Surfaces and grids with normals, which meshio does not know."""
    pyvista = pytest.importorskip("pyvista")
    surface = pyvista.Sphere(theta_resolution=6, phi_resolution=6)
    for each in (surface, surface.cast_to_unstructured_grid()):
        each.save(path := tmp_path / "a.vtk", binary=binary)
        shape = load(path)
        assert np.allclose(shape.vertices, surface.points, atol=1e-6)
        assert (shape.faces == surface.regular_faces).all()


@pytest.mark.parametrize(
    "text, told",
    [
        ("BINARY\nDATASET POLYDATA\nPOINTS 1000000000 double\n0 0 0", "cannot read"),
        ("ASCII\nDATASET POLYDATA\nPOINTS 2 double\n0 0 0      1 1\n", "cannot read"),
        (
            "ASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\nPOLYGONS 1000000000 4000000000\n3",
            "claims 4 GB of data",
        ),
        ("ASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 2 2 2\n", "the file is damaged, or not"),
        ("ASCII\nDATASET POLYDATA\n", "cannot read"),
        (
            "ASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\nPOLYGONS 1 4\n3 0 1 2\n",
            "faces must index 1 vertices, got indices 0 to 2",
        ),
    ],
)
def test_vtk_files_that_cannot_be_true(tmp_path: Path, text: str, told: str) -> None:
    (path := tmp_path / "a.vtk").write_text("# vtk DataFile Version 3.0\ntitle\n" + text)
    with pytest.raises(InputError, match=told) as caught:
        load(path)
    assert "a.vtk" in str(caught.value)
