"""Folders of small meshes and pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.io.shapes import Shape, save
from tests.meshes import blob, torus


@pytest.fixture(scope="module")
def mesh_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shapes")
    save(Shape(*torus(30, 14)), path / "kitten.off")  # a name the paper knows
    save(Shape(*blob(9)), path / "blob.obj")
    return path


def write_picture(rng: np.random.Generator, path: Path, size: tuple[int, int] = (40, 30)) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), np.uint8)).save(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, root = np.random.default_rng(0), tmp_path_factory.mktemp("photos")
    for name in ("cats", "dogs"):
        for i in range(5):
            write_picture(rng, root / name / f"{i}.png", (40 + i, 30 + 2 * i))
    return root
