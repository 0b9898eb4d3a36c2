"""Image data sets as they come from their authors, and any folder of images.

    open_images(path, split) -> ImageSet: n images (RGB), labels (n,) integers or None, class names

| layout      | recognised by                               | images                         |
|-------------|---------------------------------------------|--------------------------------|
| stl10       | ``train_X.bin``, ``test_X.bin``             | 96x96, column-major, 1-based y |
| cifar100    | ``train.bin``, ``test.bin`` (no pickles)    | 32x32, fine labels             |
| imagenette  | ``train`` and ``val`` folders of WordNet-id folders   | JPEG                |
| caltech256  | folders ``001.ak47`` ... ``257.clutter``    | JPEG, clutter left out         |
| imagefolder | anything else: one folder per class, or one flat folder without labels           |

An official archive is to be unpacked first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from eigenprobe.errors import InputError
from eigenprobe.host.files import reading

from .published import table

if TYPE_CHECKING:
    from PIL.Image import Image

Labels = NDArray[np.int64]
Split = Literal["train", "test", "all"]
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm")
IMAGENETTE = {row["folder"]: row["name"] for row in table("imagenette")}
SOURCES = {row["dataset"]: row["address"] for row in table("image_archives")}


@dataclass(frozen=True)
class ImageSet:
    """``read(i)`` gives image i in RGB; ``names[i]`` says which it is; ``key`` changes when the
    content does.
    """

    names: list[str]
    labels: Labels | None
    classes: list[str]
    read: Callable[[int], Image]
    key: str

    def __len__(self) -> int:
        return len(self.names)


def open_images(path: str | Path, split: Split = "all") -> ImageSet:
    """Recognise the layout of a folder and open one of its splits."""
    root = Path(path)
    if not root.exists():
        known = "; ".join(f"{name} {where}" for name, where in SOURCES.items())
        raise InputError(f"no images at {root} (official archives: {known})")
    if root.is_file():
        raise InputError(f"images come as a folder, got {root.name}: unpack it first (tar, unzip)")
    while (inner := _only_folder(root)) is not None:
        root = inner
    files = {child.name for child in root.iterdir() if child.is_file()}
    folders = {
        child.name for child in root.iterdir() if child.is_dir() and not child.name.startswith(".")
    }
    parts = [part for part in ("train", "test") if split in (part, "all")]
    if files & {"train_X.bin", "test_X.bin"}:
        with reading(root, "images of STL-10"):
            return _stl10(root, parts)
    if "fine_label_names.txt" in files:
        with reading(root, "images of CIFAR-100"):
            return _cifar100(root, parts)
    if {"meta", "train"} <= files:
        raise InputError(
            f"{root} holds pickles, which can run code: "
            f"take the binary version, {SOURCES['cifar100']}"
        )
    if {"train", "val"} <= folders:
        chosen = [root / part.replace("test", "val") for part in parts]
        return _by_class(root, chosen, lambda name: IMAGENETTE.get(name, name))
    if split != "all":
        raise InputError(f"{root.name} has no official split, use split 'all', got {split!r}")
    if folders and all(re.fullmatch(r"\d{3}\.[\w-]+", name) for name in folders):
        return _by_class(root, [root], lambda name: name.split(".", 1)[1], skip="257.clutter")
    if any(_images(root / name, deep=True) for name in folders):
        return _by_class(root, [root], lambda name: name)
    return _files(root, _images(root), None, [])


def _only_folder(root: Path) -> Path | None:
    """The archive's own top folder: alone, and not a class of images itself."""
    children = [child for child in root.iterdir() if not child.name.startswith((".", "__MACOSX"))]
    alone = len(children) == 1 and children[0].is_dir() and not _images(children[0])
    return children[0] if alone else None


def _images(folder: Path, deep: bool = False) -> list[Path]:
    """The images of a folder and, where ``deep``, of all folders below it."""
    found = folder.rglob("*") if deep else folder.iterdir()
    return sorted(file for file in found if file.suffix.lower() in SUFFIXES and file.is_file())


def _by_class(
    root: Path, folders: list[Path], title: Callable[[str], str], skip: str = ""
) -> ImageSet:
    """One sub-folder per class, with its images somewhere below."""
    classes = [
        c
        for folder in folders
        for c in sorted(folder.iterdir())
        if c.is_dir() and not c.name.startswith(".")
    ]
    found = [(c.name, file) for c in classes if c.name != skip for file in _images(c, deep=True)]
    names = sorted({name for name, _ in found})
    labels = np.array([names.index(name) for name, _ in found], np.int64)
    return _files(root, [file for _, file in found], labels, [title(name) for name in names])


def _files(root: Path, files: list[Path], labels: Labels | None, classes: list[str]) -> ImageSet:
    if not files:
        raise InputError(f"no images ({', '.join(SUFFIXES)}) in {root}")
    names = [str(file.relative_to(root)) for file in files]
    sizes = [file.stat().st_size for file in files]
    return ImageSet(names, labels, classes, lambda i: open_image(files[i]), _key(names, sizes))


def _stl10(root: Path, parts: list[str]) -> ImageSet:
    stored = {}
    for part in parts:
        pixels = np.memmap(root / f"{part}_X.bin", np.uint8, "r")
        if pixels.size % (3 * 96 * 96):
            raise InputError(
                f"{part}_X.bin should hold images of 3x96x96 bytes, got {pixels.size} bytes"
            )
        labels = np.fromfile(root / f"{part}_y.bin", np.uint8).astype(np.int64) - 1
        stored[part] = (
            labels,
            pixels.reshape(-1, 3, 96, 96).swapaxes(2, 3),
        )  # columns before rows on disk
    text = root / "class_names.txt"
    classes = text.read_text().split() if text.is_file() else [str(i + 1) for i in range(10)]
    return _arrays(root, stored, classes)


def _cifar100(root: Path, parts: list[str]) -> ImageSet:
    stored = {}
    for part in parts:  # coarse label, fine label, 3x32x32 pixels
        rows = np.memmap(root / f"{part}.bin", np.uint8, "r").reshape(-1, 2 + 3072)
        stored[part] = (rows[:, 1].astype(np.int64), rows[:, 2:].reshape(-1, 3, 32, 32))
    return _arrays(root, stored, (root / "fine_label_names.txt").read_text().split())


def _arrays(
    root: Path, parts: dict[str, tuple[Labels, NDArray[np.uint8]]], classes: list[str]
) -> ImageSet:
    """Images stored as one array (n, 3, h, w) per split, with labels (n,)."""
    from PIL import Image

    names = [f"{part}/{i}" for part, (_, pixels) in parts.items() for i in range(len(pixels))]
    labels = np.concatenate([found for found, _ in parts.values()])
    if len(labels) != len(names):
        raise InputError(f"{root} has {len(names)} images and {len(labels)} labels")

    def read(index: int) -> Image.Image:
        part, i = names[index].split("/")
        return Image.fromarray(np.ascontiguousarray(parts[part][1][int(i)].transpose(1, 2, 0)))

    return ImageSet(names, labels, classes, read, _key(names, [p.size for _, p in parts.values()]))


def open_image(path: Path) -> Image:
    """One image in RGB; a file that is not one is named."""
    from PIL import Image

    with reading(path, "an image"), Image.open(path) as image:
        return image.convert("RGB")


def _key(names: list[str], sizes: list[int]) -> str:
    return hashlib.sha256("\n".join([*names, *map(str, sizes)]).encode()).hexdigest()[:16]
