"""Images -> features: one npz with ``features (n, d)``, ``labels (n,)``, ``classes`` and ``names``.

Work is cut into chunks of ``CHUNK`` images. Each finished chunk is a safetensors file in ``<out>.parts``, written
whole or not at all, so an interrupted run goes on where it stopped; the folder disappears when the npz is complete.
A run whose npz exists and has the same key (model, preprocessing, images) does nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..files import atomic_path
from ..progress import Progress
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
    resume: bool = True,
) -> Path:
    """Extract features of ``images`` (a folder or official archive) into the npz ``out``; returns ``out``.

    ``limit`` keeps an evenly spread part of the images; ``resume=False`` starts again from nothing.
    """
    out = Path(out)
    if out.suffix != ".npz":
        raise InputError(f"features are written to an .npz file, got {out.name}")
    if batch_size < 1 or (limit is not None and limit < 1):
        raise InputError(f"batch_size and limit must be positive, got {batch_size} and {limit}")
    found = open_images(images, split)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = load_encoder(model, device)
    rows = np.arange(len(found))
    if limit is not None and limit < len(found):
        rows = np.unique(np.linspace(0, len(found) - 1, limit).round().astype(np.int64))
    key = _key(found, encoder, rows)
    if resume and _finished(out, key):
        return out
    parts = out.with_suffix(".parts")
    if not resume or not (parts / f"{key}.json").is_file():
        shutil.rmtree(parts, ignore_errors=True)  # parts of another model or of other images
        with atomic_path(parts / f"{key}.json") as temporary:
            temporary.write_text(json.dumps({"model": encoder.name, "images": len(rows)}))
    features = _encode(found, encoder, rows, parts, batch_size, workers)
    with atomic_path(out) as temporary, temporary.open("wb") as file:
        arrays: dict[str, Any] = {
            "features": features,
            "names": np.array([found.names[i] for i in rows]),
            "key": np.array(key),
        }
        if found.labels is not None:
            arrays |= {"labels": found.labels[rows], "classes": np.array(found.classes)}
        np.savez(file, **arrays)
    shutil.rmtree(parts, ignore_errors=True)
    return out


def _encode(
    found: ImageSet, encoder: Encoder, rows: np.ndarray, parts: Path, batch_size: int, workers: int
) -> np.ndarray:
    from safetensors.torch import load_file, save_file

    chunks = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
    features = np.empty((len(rows), encoder.width), np.float32)
    with Progress("features", total=len(rows)) as bar, ThreadPoolExecutor(workers) as pool:
        for number, chunk in enumerate(chunks):
            part = parts / f"{number:06d}.safetensors"
            if part.is_file():
                values = load_file(part)["features"]
                bar.advance(len(chunk))
            else:
                batches = []
                for pixels in _batches(found, encoder, chunk, batch_size, pool):
                    batches.append(encoder(pixels))
                    bar.advance(len(pixels))
                values = torch.cat(batches)
                with atomic_path(part) as temporary:
                    save_file({"features": values.contiguous()}, temporary)
            features[number * CHUNK : number * CHUNK + len(chunk)] = values.numpy()
    return features


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
    if not out.is_file():
        return False
    try:
        with np.load(out, allow_pickle=False) as stored:
            return "key" in stored and str(stored["key"]) == key
    except (ValueError, OSError, EOFError):
        return False


def _key(found: ImageSet, encoder: Encoder, rows: np.ndarray) -> str:
    """Changes with the images, the weights or the preprocessing."""
    weights = next(iter(encoder.model.state_dict().values())).detach().float().cpu().numpy()
    text = f"{found.key} {encoder.name} {encoder.preprocess} {len(rows)}"
    return hashlib.sha256(text.encode() + weights.tobytes()).hexdigest()[:16]
