"""Small stand-ins for the files a person would bring: meshes, clouds, tables, photographs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.meshing import creature


def stock(folder: Path) -> None:
    """``folder/work`` is where commands run; ``folder/shared/data`` stands for the real data beside
    a checkout.
    """
    work = folder / "work"
    rng = np.random.default_rng(0)
    vertices, faces = creature(16)
    stretched = vertices * [1.0, 1.3, 0.9]
    for path in (
        work / "bunny.obj",
        work / "solid.off",
        work / "scan.ply",
        work / "meshes" / "a.obj",
    ):
        write_mesh(path, vertices, faces)
    write_mesh(work / "meshes" / "b.obj", stretched, faces)
    write_mesh(folder / "shared" / "data" / "mpz14" / "armadillo.obj", vertices, faces)
    write_mesh(folder / "shared" / "data" / "mpz14" / "lion.obj", stretched, faces)
    np.savetxt(work / "cloud.xyz", vertices[::2])
    write_scan(work / "scan.ptx", vertices)
    write_tables(work, rng)
    write_photos(work / "photos", rng)
    root = Path(__file__).resolve().parent.parent
    for name in ("examples", "benchmarks"):
        if (root / name).is_dir():
            (work / name).symlink_to(root / name)


def write_mesh(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    from eigenprobe.io.shapes import Shape, save

    path.parent.mkdir(parents=True, exist_ok=True)
    save(Shape(vertices, faces), path)


def write_scan(path: Path, points: np.ndarray) -> None:
    """One column of pixels in the scanner's own frame; the last has no return."""
    frames = [*np.eye(4, 3), *np.eye(4)]
    pixels = [*np.column_stack([points, np.full(len(points), 0.5)]), np.zeros(4)]
    lines = (" ".join(f"{value:.9g}" for value in row) for row in [*frames, *pixels])
    path.write_text("\n".join(["1", str(len(pixels)), *lines]) + "\n")


def clusters(
    rng: np.random.Generator, rows: int = 240, columns: int = 16
) -> tuple[np.ndarray, np.ndarray]:
    """Four Gaussian clusters that overlap, and their labels."""
    labels = rng.integers(4, size=rows)
    centres = 1.2 * rng.normal(size=(4, columns))
    return (centres[labels] + rng.normal(size=(rows, columns))).astype(np.float32), labels


def write_tables(work: Path, rng: np.random.Generator) -> None:
    features, labels = clusters(rng)
    np.savez(work / "features.npz", features=features, labels=labels)
    embeddings = work.parent / "shared" / "data" / "embeddings"
    embeddings.mkdir(parents=True)
    for name in ("imagenette_efflite0", "cifar10_efflite0", "banking77_minilm"):
        np.savez(embeddings / f"{name}.npz", features=features.astype(np.float16), labels=labels)
    np.save(work / "train.npy", features[:160])
    np.savez(work / "train.npz", features=features[:160])
    np.save(work / "test.npy", features[160:])
    header = ",".join([*(f"f{i}" for i in range(features.shape[1])), "celltype"])
    rows = [
        ",".join([*(f"{value:.4f}" for value in row), f"type{label}"])
        for row, label in zip(features, labels)
    ]
    (work / "cells.csv").write_text("\n".join([header, *rows]) + "\n")


def write_photos(folder: Path, rng: np.random.Generator) -> None:
    from PIL import Image

    for index in range(6):
        path = folder / ("cats" if index % 2 else "dogs") / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, size=(40, 48, 3), dtype=np.uint8)).save(path)


def write_vision_model(folder: Path) -> None:
    """A DINOv2 of toy size with random weights."""
    import torch
    from transformers import Dinov2Config, Dinov2Model

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Dinov2Model(Dinov2Config(**sizes)).save_pretrained(folder)


class Upload(NamedTuple):
    """What the hub would have been sent."""

    token: str | None
    files: dict[str, bytes]
    options: dict[str, Any]


def without_network(monkeypatch: Any) -> list[Upload]:
    """Uploads to the hub end in this list; a bare name is that of ``me``."""
    from huggingface_hub import HfApi

    uploads: list[Upload] = []

    def create(api: HfApi, name: str, *, exist_ok: bool) -> Any:
        assert exist_ok
        return SimpleNamespace(repo_id=name if "/" in name else f"me/{name}")

    def upload(api: HfApi, *, folder_path: str, **options: Any) -> str:
        files = {path.name: path.read_bytes() for path in Path(folder_path).iterdir()}
        uploads.append(Upload(api.token, files, options))  # type: ignore[arg-type]
        return f"https://hub.invalid/{options['repo_id']}"

    monkeypatch.setattr(HfApi, "create_repo", create)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    return uploads


# changes that make a recipe end in seconds
TINY_PRETRAIN = (
    "steps=2 network.width=48 network.layers=1 network.heads=2 network.feedforward=32 "
    "network.shape=16 "
    "network.outputs=8 shapes.tokens=600 shapes.typical=200 shapes.sizes=[200,300] "
    "shapes.chunk=4 shapes.chunks=1 "
    "shapes.renew=1 validate_every=0"
)
TINY_IMAGES = "steps=2 width=16 heads=2 sample=100 probes=8 accumulate=1 neighbours=8"
