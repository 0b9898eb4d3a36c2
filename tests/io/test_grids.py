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
    """As ParaView and PyVista write them, in text: the old and the new way to list cells, a field
    and lines before.
    """
    before = (
        "FIELD FieldData 1\ntime 1 2 double\n0 1\nPOINTS 5 float\n0 0 0 1 0 0 1 1 0\n0 1 0 2 0 0\n"
    )
    before += "METADATA\nINFORMATION 0\n\n"
    old = "LINES 1 3\n2 0 1\nPOLYGONS 2 9\n4 0 1 2 3\n3 1 4 2\n"
    new = "LINES 2 2\nOFFSETS vtktypeint64\n0 2\nCONNECTIVITY vtktypeint64\n0 1\n"
    new += "POLYGONS 3 7\nOFFSETS vtktypeint64\n0 4 7\nCONNECTIVITY vtktypeint64\n0 1 2 3 1 4 2\n"
    for version, cells in (("3.0", old), ("5.1", new)):
        head = f"# vtk DataFile Version {version}\n{title}\nASCII\nDATASET POLYDATA\n"
        (path := tmp_path / "a.vtk").write_text(
            head + before + cells + "POINT_DATA 5\nNORMALS n float\n1 2 3\n"
        )
        shape = load(path)
        assert shape.vertices[4].tolist() == [2, 0, 0] and len(shape.vertices) == 5
        assert sorted(shape.faces.tolist()) == [[0, 1, 2], [0, 2, 3], [1, 4, 2]]


@pytest.mark.parametrize(
    "text, told",
    [
        ("BINARY\nDATASET POLYDATA\nPOINTS 1000000000 double\n0 0 0", "cannot read"),
        ("ASCII\nDATASET POLYDATA\nPOINTS 2 double\n0 0 0      1 1\n", "cannot read"),
        (
            "ASCII\nDATASET POLYDATA\nPOINTS 1 double\n0 0 0\nPOLYGONS 1000000000 3\n3 0 0\n",
            "cannot read",
        ),
        (
            "ASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 2 2 2\n",
            "must hold POLYDATA or an UNSTRUCTURED_GRID, got",
        ),
        ("ASCII\nDATASET POLYDATA\n", "has no POINTS"),
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
