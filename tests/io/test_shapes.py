"""Every format read back, every kind of damage named."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe import geometry
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.io.shapes import Shape, find_shapes, load, save
from tests.meshes import blob, cube, tetrahedron


@pytest.mark.parametrize("suffix", ["obj", "off", "ply", "stl", "glb"])
@pytest.mark.filterwarnings(
    "ignore:.*coincident vertices merged"
)  # stl stores every corner on its own
def test_meshes_come_back(tmp_path, suffix) -> None:
    vertices, faces = blob(4)
    path = tmp_path / f"blob.{suffix}"
    save(Shape(vertices, faces), path)
    shape = load(path)
    assert shape.name == "blob"
    assert shape.n == len(vertices)
    assert len(shape.faces) == len(faces)
    assert geometry.is_closed(shape.faces)[0]
    assert geometry.face_areas(shape.vertices, shape.faces).sum() == pytest.approx(
        geometry.face_areas(vertices, faces).sum(), rel=1e-5
    )
    assert np.allclose(np.sort(shape.vertices, axis=0), np.sort(vertices, axis=0), atol=1e-5)
    if suffix in ("obj", "off", "ply"):
        assert np.allclose(shape.vertices, vertices, atol=1e-5), "the order of the file is kept"
        assert (shape.faces == faces).all()


@pytest.mark.parametrize("suffix", ["xyz", "txt", "csv", "npy", "ply"])
def test_clouds_come_back(tmp_path, rng, suffix) -> None:
    points = rng.standard_normal((50, 3))
    path = tmp_path / f"cloud.{suffix}"
    save(Shape(points), path)
    shape = load(path)
    assert shape.faces is None
    assert np.allclose(shape.vertices, points, atol=1e-5)
    assert "cloud" in repr(shape)


def test_npz_by_name_and_dtypes(tmp_path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, labels=np.arange(3), points=np.eye(3, dtype=np.float16))
    assert load(path).vertices.dtype == np.float64
    np.savez(path, labels=np.arange(3), something=2 * np.eye(3))  # the only table
    assert (load(path).vertices == 2 * np.eye(3)).all()
    np.savez(path, one=np.eye(3), other=3 * np.eye(3))
    with pytest.raises(
        InputError,
        match=r"it holds one, other, expected one array named points .*: choose one by key",
    ):
        load(path)
    assert (load(path, key="other").vertices == 3 * np.eye(3)).all()
    with pytest.raises(InputError, match="no array 'third', there are one, other"):
        load(path, key="third")
    vertices, faces = blob(3)
    np.savez(path, vertices=vertices, faces=faces)  # a mesh
    assert (load(path).faces == faces).all()
    np.savez(path, vertices=vertices, faces=faces + 1)
    with pytest.raises(InputError, match=r"faces must index \d+ vertices, got indices 1 to"):
        load(path)
    np.save(tmp_path / "a.npy", np.eye(3, dtype=np.float32))
    assert load(tmp_path / "a.npy").vertices.dtype == np.float32


def test_a_number_that_is_missing_is_named(tmp_path) -> None:
    points = np.zeros(((1 << 20) + 9, 3), np.float32)
    points[-2, 1] = np.nan
    np.save(tmp_path / "bad.npy", points)
    with pytest.raises(InputError, match=f"point {len(points) - 2} is"):
        load(tmp_path / "bad.npy")


def test_a_mesh_is_cleaned_and_told(tmp_path) -> None:
    vertices, faces = tetrahedron()
    vertices = np.concatenate(
        [vertices, [[9, 9, 9], vertices[3]]]
    )  # one unused, one copy of vertex 3
    faces = np.concatenate(
        [faces, [[0, 1, 1], [1, 2, 5], [0, 0, 0]]]
    )  # degenerate, repeated once merged, degenerate
    text = "".join(f"v {x} {y} {z}\n" for x, y, z in vertices) + "".join(
        f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in faces
    )
    (tmp_path / "dirty.obj").write_text(text)
    with pytest.warns(
        EigenprobeWarning,
        match=r"dirty.obj: 1 coincident vertices merged, 2 degenerate faces dropped",
    ):
        shape = load(tmp_path / "dirty.obj")
    assert shape.repairs["repeated faces dropped"] == 1
    assert shape.repairs["unused vertices dropped"] == 1
    assert geometry.is_closed(shape.faces)[0]
    assert np.allclose(shape.vertices, tetrahedron()[0])
    assert (shape.faces == tetrahedron()[1]).all()
    assert load(tmp_path / "dirty.obj", clean=False).n == 6


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.obj", b"", "cannot read|no points"),
        ("empty.xyz", b"", "no points"),
        ("blank.xyz", b"\n\n# nothing\n", "no points"),
        ("words.csv", b"a,b,c\nd,e,f\n", "cannot read"),
        ("nan.obj", b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "point 0 is"),
        ("ragged.xyz", b"1 2 3\n4 5 6 7\n", "cannot read"),
        ("short.xyz", b"1 2 3\n4 5\n", "finite"),
        ("garbage.ply", b"\x00\x01\x02not a ply", "cannot read"),
        ("garbage.npy", b"not an array", "cannot read"),
        ("garbage.npz", b"not an archive", "cannot read"),
        ("garbage.glb", b"not a scene", "cannot read"),
        ("garbage.off", b"not an off file", "cannot read"),
        ("flat.obj", b"v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n", "only degenerate faces"),
        ("shape.dwg", b"anything", "expected one of .obj"),
        ("nothing.obj", b"# just a comment\n", "nothing.obj"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_bad_files_are_one_clear_line(tmp_path, name, content, message) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert name in str(caught.value)


def test_objects_are_never_unpickled(tmp_path) -> None:
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "evil.npy")


def test_wrong_shapes_and_missing_files(tmp_path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros(5))
    with pytest.raises(InputError, match=r"shape \(n, d\), got \(5,\)"):
        load(tmp_path / "flat.npy")
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "absent.obj")
    with pytest.raises(InputError, match="cannot write a mesh as"):
        save(Shape(*cube(1)), tmp_path / "cube.xyz")
    assert not list(tmp_path.glob("cube*"))


def test_find_shapes(tmp_path) -> None:
    for name in ("b.obj", "a.off", "notes.md"):
        (tmp_path / name).write_text("x")
    assert [p.name for p in find_shapes([tmp_path])] == ["a.off", "b.obj"]
    with pytest.raises(InputError, match="no such file or folder"):
        find_shapes([tmp_path / "absent"])
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no shapes in"):
        find_shapes([tmp_path / "none"])
