"""Tests of `paper.datasets`: image data sets as they come from their authors, and any folder of
images.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe_lab.paper import extract
from eigenprobe_lab.paper.datasets import open_images
from eigenprobe_lab.paper.extract import load_encoder
from tests.lab.conftest import write_picture

Image = pytest.importorskip("PIL.Image")


class Calls:
    """What a pickle may hold: any function and its arguments, called when it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_missing_things_say_how_to_get_them(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(InputError, match="hf download facebook/dinov2-small"):
        extract.run(photos, model="dinov2-small", out=tmp_path / "f.npz", device="cpu")
    with pytest.raises(InputError, match="stl10_binary"):
        open_images(tmp_path / "stl10")
    with pytest.raises(InputError, match="no images"):
        open_images(tmp_path)
    (tmp_path / "stl10.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match="unpack it first"):
        open_images(tmp_path / "stl10.tar.gz")
    with pytest.raises(InputError, match="npz"):
        extract.run(photos, out=tmp_path / "f.csv")
    with pytest.raises(InputError, match=r"config\.json"):
        load_encoder(str(tmp_path))
    (photos / "cats" / "zzz.png").write_text("not a picture")
    images = open_images(photos)
    with pytest.raises(InputError, match=r"expected an image, cannot read .*zzz\.png"):
        images.read(images.names.index("cats/zzz.png"))
    (photos / "cats" / "zzz.png").unlink()


def test_stl10(tmp_path: Path, rng: np.random.Generator) -> None:
    root = tmp_path / "stl10_binary"
    root.mkdir()
    pixels = rng.integers(0, 255, (5, 96, 96, 3), np.uint8)
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
        pixels[rows].transpose(0, 3, 2, 1).tofile(root / f"{part}_X.bin")
        (np.arange(5, dtype=np.uint8)[rows] + 1).tofile(root / f"{part}_y.bin")
    (root / "class_names.txt").write_text("airplane\nbird\ncar\ncat\ndeer\n")
    for source in (root, tmp_path):
        images = open_images(source)
        assert (len(images), images.classes[1]) == (5, "bird")
        assert images.labels is not None and images.labels.tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(np.asarray(images.read(4)), pixels[4])
    assert open_images(root, "test").names == ["test/0", "test/1"]


def test_cifar100(tmp_path: Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 255, (4, 32, 32, 3), np.uint8)
    flat, fine = pixels.transpose(0, 3, 1, 2).reshape(4, -1), np.array([3, 99, 0, 7], np.uint8)
    for part, rows in (("train", slice(0, 2)), ("test", slice(2, 4))):
        np.concatenate([fine[rows, None] * 0, fine[rows, None], flat[rows]], axis=1).tofile(
            tmp_path / f"{part}.bin"
        )
    (tmp_path / "fine_label_names.txt").write_text("\n".join(f"c{i}" for i in range(100)))
    images = open_images(tmp_path)
    assert images.classes[99] == "c99"
    assert images.labels is not None and images.labels.tolist() == fine.tolist()
    for i in range(4):
        np.testing.assert_array_equal(np.asarray(images.read(i)), pixels[i])


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    trace, folder = tmp_path / "ran", tmp_path / "cifar"
    folder.mkdir()
    for name in ("train", "test", "meta"):
        (folder / name).write_bytes(pickle.dumps(Calls(os.mkdir, str(trace))))
    with pytest.raises(InputError, match="take the binary version, www"):
        open_images(folder)
    assert not trace.exists()


def test_imagenette_and_caltech256(tmp_path: Path, rng: np.random.Generator) -> None:
    nette = tmp_path / "imagenette2-160"
    for part in ("train", "val"):
        for name in ("n01440764", "n03888257"):
            write_picture(rng, nette / part / name / f"{part}_{name}.JPEG")
    images = open_images(nette, "test")
    assert (images.classes, len(images)) == (["tench", "parachute"], 2)
    assert len(open_images(nette)) == 4
    caltech = tmp_path / "256_ObjectCategories"
    for name in ("001.ak47", "002.american-flag", "257.clutter"):
        write_picture(rng, caltech / name / f"{name[:3]}_0001.jpg")
    images = open_images(caltech)
    assert images.classes == ["ak47", "american-flag"]
    with pytest.raises(InputError, match="no official split"):
        open_images(caltech, "train")
