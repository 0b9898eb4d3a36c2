"""Images -> features: one npz with ``features (n, d)``, ``labels (n,)``, ``classes`` and ``names``.

Work is cut into chunks of ``CHUNK`` images. Each finished chunk is a safetensors file in ``<out>.parts``, written
whole or not at all, so an interrupted run goes on where it stopped; the folder disappears when the npz is complete.
A run whose npz exists and has the same key (model, preprocessing, images) does nothing.
"""

import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..host.files import atomic_path, write_npz
from ..host.progress import Progress
from .datasets import ImageSet, Split, open_images
from .vision import Encoder, load_encoder

CHUNK = 1024


def run(
    images: Path,
    *,
    out: Path,
    model: str = "dinov2-small",
    split: Split = "all",
    batch_size: int = 64,
    device: str = "auto",
    workers: int = 4,
    limit: int | None = None,
) -> Path:
    """Extract features of ``images`` (a folder or official archive) into the npz ``out``; returns ``out``.

    ``limit`` keeps an evenly spread part of the images; ``workers`` threads decode them.
    """
    if out.suffix != ".npz":
        raise InputError(f"features are written to an .npz file, got {out.name}")
    if batch_size < 1 or (limit is not None and limit < 1):
        raise InputError(f"batch_size and limit must be positive, got {batch_size} and {limit}")
    found = open_images(images, split)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = load_encoder(model, device)
    count = min(limit or len(found), len(found))
    rows = np.linspace(0, len(found) - 1, count).round().astype(np.int64)
    key = _key(found, encoder, count)
    if _finished(out, key):
        return out
    parts = out.with_suffix(".parts")
    if not (parts / key).is_dir():
        shutil.rmtree(parts, ignore_errors=True)  # of another model or of other images
    arrays: dict[str, Any] = {"features": _encode(found, encoder, rows, parts / key, batch_size, workers)}
    arrays |= {"names": np.array([found.names[i] for i in rows]), "key": np.array(key)}
    if found.labels is not None:
        arrays |= {"labels": found.labels[rows], "classes": np.array(found.classes)}
    write_npz(out, arrays)
    shutil.rmtree(parts, ignore_errors=True)
    return out


def _encode(
    found: ImageSet, encoder: Encoder, rows: np.ndarray, parts: Path, batch_size: int, workers: int
) -> np.ndarray:
    """Features (n, d), chunk by chunk; a chunk that is on disk already is read."""
    from safetensors.torch import load_file, save_file

    features = []
    with Progress("features", total=len(rows)) as bar, ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(rows), CHUNK):
            chunk, part = rows[start : start + CHUNK], parts / f"{start // CHUNK:06d}.safetensors"
            if not part.is_file():
                batches = []
                for pixels in _batches(found, encoder, chunk, batch_size, pool):
                    batches.append(encoder(pixels))
                    bar.advance(len(pixels))
                with atomic_path(part) as temporary:
                    save_file({"features": torch.cat(batches)}, temporary)
            else:
                bar.advance(len(chunk))
            features.append(load_file(part)["features"].numpy())
    return np.concatenate(features)


def _batches(
    found: ImageSet, encoder: Encoder, rows: np.ndarray, batch_size: int, pool: ThreadPoolExecutor
) -> Iterator[Tensor]:
    """Batches of preprocessed images; the next one is decoded while the model works on this one."""

    def load(row: int) -> Tensor:
        return encoder.preprocess(found.read(row))

    groups = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    waiting = [pool.submit(load, int(row)) for row in groups[0]]
    for following in [*groups[1:], rows[:0]]:
        ready, waiting = waiting, [pool.submit(load, int(row)) for row in following]
        yield torch.stack([future.result() for future in ready])


def _finished(out: Path, key: str) -> bool:
    try:
        with np.load(out, allow_pickle=False) as stored:
            return "key" in stored and str(stored["key"]) == key
    except (ValueError, OSError, EOFError):  # not there, or not readable
        return False


def _key(found: ImageSet, encoder: Encoder, count: int) -> str:
    """Changes with the images, the weights or the preprocessing."""
    weights = next(iter(encoder.model.state_dict().values())).detach().float().cpu().numpy()
    text = f"{found.key} {encoder.name} {encoder.processor} {count}"
    return hashlib.sha256(text.encode() + weights.tobytes()).hexdigest()[:16]
