"""Image data sets as they come from their authors, and any folder of images.

    open_images(path, split) -> ImageSet: n images (RGB), labels (n,) integers or None, class names

| layout      | recognised by                               | images                         |
|-------------|---------------------------------------------|--------------------------------|
| stl10       | ``train_X.bin``, ``test_X.bin``             | 96x96, column-major, 1-based y |
| cifar100    | ``train.bin``, ``test.bin`` (binary) or ``train``, ``test``, ``meta`` (python) | 32x32, fine labels |
| imagenette  | ``train`` and ``val`` folders of ``nXXXXXXXX`` folders | JPEG                |
| caltech256  | folders ``001.ak47`` ... ``257.clutter``    | JPEG, clutter left out         |
| imagefolder | anything else: one folder a class, or one flat folder without labels           |

An official archive (tar, tar.gz, tgz, zip) is unpacked once into the cache.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import default_cache_dir

if TYPE_CHECKING:
    from PIL.Image import Image

Split = Literal["train", "test", "all"]
Layout = Literal["stl10", "cifar100", "imagenette", "caltech256", "imagefolder"]
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm")
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
IMAGENETTE = {
    "n01440764": "tench",
    "n02102040": "English springer",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03888257": "parachute",
}
SOURCES = {
    "stl10": "ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    "cifar100": "www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    "imagenette": "s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz",
    "caltech256": "data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
}


@dataclass(frozen=True)
class ImageSet:
    """``read(i)`` gives image i in RGB; ``names[i]`` says which it is; ``key`` changes when the content does."""

    layout: Layout
    names: list[str]
    labels: NDArray[np.int64] | None
    classes: list[str]
    read: Callable[[int], Image]
    key: str

    def __len__(self) -> int:
        return len(self.names)


def open_images(path: str | Path, split: Split = "all") -> ImageSet:
    """Recognise the layout of a folder or archive and open one of its splits."""
    root = Path(path)
    if not root.exists():
        known = "; ".join(f"{name} {where}" for name, where in SOURCES.items())
        raise InputError(f"no images at {root} (official archives: {known})")
    if root.is_file():
        root = unpack(root)
    while (inner := _only_folder(root)) is not None:
        root = inner
    opener: dict[str, Callable[[Path, Split], ImageSet]] = {
        "stl10": _stl10,
        "cifar100": _cifar100,
        "imagenette": _imagenette,
        "caltech256": _caltech256,
        "imagefolder": _folder,
    }
    return opener[_layout(root)](root, split)


def unpack(archive: Path) -> Path:
    """An archive's content, unpacked once into the cache; paths that leave the target folder are refused."""
    if not archive.name.lower().endswith(ARCHIVES):
        raise InputError(f"images come as a folder or as {', '.join(ARCHIVES)}, got {archive.name}")
    facts = archive.stat()
    key = hashlib.sha256(f"{archive.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode()).hexdigest()[:16]
    target = default_cache_dir() / "images" / f"{archive.name.split('.')[0]}-{key}"
    if target.is_dir():
        return target
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        if archive.suffix.lower() == ".zip":
            with zipfile.ZipFile(archive) as file:
                file.extractall(partial)  # zipfile drops drive letters and '..' itself
        else:
            with tarfile.open(archive) as file:
                file.extractall(partial, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InputError(f"{archive.name} cannot be unpacked: {error}") from error
    partial.rename(target)
    return target


def _only_folder(root: Path) -> Path | None:
    """The archive's own top folder: alone, and not a class of images itself."""
    children = [child for child in root.iterdir() if not child.name.startswith((".", "__MACOSX"))]
    if len(children) == 1 and children[0].is_dir() and not _images_in(children[0]):
        return children[0]
    return None


def _layout(root: Path) -> Layout:
    if (root / "train_X.bin").is_file() or (root / "test_X.bin").is_file():
        return "stl10"
    if (root / "fine_label_names.txt").is_file() or ((root / "meta").is_file() and (root / "train").is_file()):
        return "cifar100"
    folders = [child.name for child in root.iterdir() if child.is_dir()]
    if {"train", "val"} <= set(folders):
        return "imagenette"
    if folders and all(re.fullmatch(r"\d{3}\.[\w-]+", name) for name in folders):
        return "caltech256"
    return "imagefolder"


def _stl10(root: Path, split: Split) -> ImageSet:
    parts = [part for part in ("train", "test") if split in (part, "all")]
    pixels, labels, names = [], [], []
    for part in parts:
        # column-major images: (n, 3, width, height) on disk
        stored = np.memmap(_part(root, f"{part}_X.bin"), np.uint8, "r")
        if stored.size % (3 * 96 * 96):
            raise InputError(f"{part}_X.bin should hold images of 3x96x96 bytes, got {stored.size} bytes")
        pixels.append(stored.reshape(-1, 3, 96, 96))
        labels.append(np.fromfile(_part(root, f"{part}_y.bin"), np.uint8).astype(np.int64) - 1)
        names += [f"{part}/{i}" for i in range(len(pixels[-1]))]
    text = root / "class_names.txt"
    classes = text.read_text().split() if text.is_file() else [str(i + 1) for i in range(10)]
    return _stacked("stl10", names, labels, classes, pixels, lambda image: image.transpose(2, 1, 0), root)


def _cifar100(root: Path, split: Split) -> ImageSet:
    parts = [part for part in ("train", "test") if split in (part, "all")]
    pixels, labels, names = [], [], []
    binary = (root / "fine_label_names.txt").is_file()
    for part in parts:
        if binary:  # coarse label, fine label, 3x32x32 pixels
            stored = np.memmap(_part(root, f"{part}.bin"), np.uint8, "r").reshape(-1, 2 + 3072)
            labels.append(stored[:, 1].astype(np.int64))
            pixels.append(stored[:, 2:].reshape(-1, 3, 32, 32))
        else:
            content = _unpickle(_part(root, part))
            labels.append(np.asarray(content[b"fine_labels"], np.int64))
            pixels.append(np.asarray(content[b"data"], np.uint8).reshape(-1, 3, 32, 32))
        names += [f"{part}/{i}" for i in range(len(pixels[-1]))]
    if binary:
        classes = (root / "fine_label_names.txt").read_text().split()
    else:
        classes = [name.decode() for name in _unpickle(root / "meta")[b"fine_label_names"]]
    return _stacked("cifar100", names, labels, classes, pixels, lambda image: image.transpose(1, 2, 0), root)


def _imagenette(root: Path, split: Split) -> ImageSet:
    folders = [root / part for part, name in (("train", "train"), ("val", "test")) if split in (name, "all")]
    return _by_class("imagenette", root, folders, lambda name: IMAGENETTE.get(name, name))


def _caltech256(root: Path, split: Split) -> ImageSet:
    _no_split("caltech256", split)
    return _by_class("caltech256", root, [root], lambda name: name.split(".", 1)[1], skip=("257.clutter",))


def _folder(root: Path, split: Split) -> ImageSet:
    _no_split("a folder of images", split)
    if _classes_of(root):
        return _by_class("imagefolder", root, [root], lambda name: name)
    files = _images_in(root)
    if not files:
        raise InputError(f"no images ({', '.join(SUFFIXES)}) in {root}")
    return _files("imagefolder", root, files, None, [])


def _by_class(
    layout: Layout, root: Path, folders: list[Path], title: Callable[[str], str], skip: tuple[str, ...] = ()
) -> ImageSet:
    found = [
        (c.name, file) for folder in folders for c in _classes_of(folder) if c.name not in skip for file in _deep(c)
    ]
    if not found:
        raise InputError(f"no images ({', '.join(SUFFIXES)}) in {root}")
    keys = sorted({name for name, _ in found})
    labels = np.array([keys.index(name) for name, _ in found], np.int64)
    return _files(layout, root, [file for _, file in found], labels, [title(name) for name in keys])


def _files(
    layout: Layout, root: Path, files: list[Path], labels: NDArray[np.int64] | None, classes: list[str]
) -> ImageSet:
    names = [str(file.relative_to(root)) for file in files]
    sizes = [file.stat().st_size for file in files]
    return ImageSet(layout, names, labels, classes, lambda i: open_image(files[i]), _key(names, sizes))


def _stacked(
    layout: Layout,
    names: list[str],
    labels: list[NDArray[np.int64]],
    classes: list[str],
    pixels: list[NDArray[np.uint8]],
    arrange: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
    root: Path,
) -> ImageSet:
    """Images stored as arrays, one array a split."""
    from PIL import Image

    starts = np.concatenate([[0], np.cumsum([len(part) for part in pixels])])

    def read(index: int) -> Image.Image:
        part = int(np.searchsorted(starts, index, side="right")) - 1
        return Image.fromarray(np.ascontiguousarray(arrange(pixels[part][index - starts[part]])))

    joined = np.concatenate(labels)
    if len(joined) != len(names):
        raise InputError(f"{root} has {len(names)} images and {len(joined)} labels")
    return ImageSet(layout, names, joined, classes, read, _key(names, [part.size for part in pixels]))


def open_image(path: Path) -> Image:
    """One image in RGB; a file that is not one is named."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable image: {error}") from error


class _PlainUnpickler(pickle.Unpickler):
    """The python archive of CIFAR is a pickle: allow arrays and builtin containers, nothing that runs code."""

    ALLOWED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a data file")
        return super().find_class(module, name)


def _unpickle(path: Path) -> dict[bytes, Any]:
    try:
        with path.open("rb") as file:
            content: dict[bytes, Any] = _PlainUnpickler(file, encoding="bytes").load()
            return content
    except (pickle.UnpicklingError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a CIFAR-100 file: {error}") from error


def _part(root: Path, name: str) -> Path:
    if not (root / name).is_file():
        raise InputError(f"{root} lacks {name}")
    return root / name


def _no_split(what: str, split: Split) -> None:
    if split != "all":
        raise InputError(f"{what} has no official split, use split 'all', got {split!r}")


def _images_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in SUFFIXES)


def _deep(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix.lower() in SUFFIXES)


def _classes_of(folder: Path) -> list[Path]:
    """Sub-folders that hold images somewhere below."""
    below = sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    return [child for child in below if next(iter(_images_in(child)), None) is not None or _deep(child)]


def _key(names: list[str], sizes: list[int]) -> str:
    return hashlib.sha256("\n".join([*names, *map(str, sizes)]).encode()).hexdigest()[:16]
