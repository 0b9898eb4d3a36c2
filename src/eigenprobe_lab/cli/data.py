"""Commands that prepare data: ``cache`` the oracles of meshes, ``features`` of images."""

from pathlib import Path
from typing import Literal

from eigenprobe.cli.session import SHARED, K, Session
from eigenprobe.errors import InputError


def cache(shapes: list[Path], *, k: K = 50, jobs: int = -1, session: Session = SHARED) -> None:
    """Prepare the cotangent oracles of whole folders, once; a second run only does what is missing.

    For example:

        eigenprobe cache meshes/
        eigenprobe cache meshes/ -k 100 --jobs 8 --out oracles

    Args:
        shapes: mesh files, or folders of them
        k: how many eigenvectors
        jobs: parallel workers, -1 for one per core
    """
    from eigenprobe_lab.evaluation.oracles import prepare_oracles

    summary = prepare_oracles(shapes, k=k, jobs=jobs, out=session.out)
    session.skipped(summary.failed)
    session.say(str(summary))
    if summary.failed:
        path, reason = next(iter(summary.failed.items()))
        raise InputError(
            f"{len(summary.failed)} shapes could not be prepared; the first: {path}: {reason}"
        )


def features(
    images: Path,
    *,
    model: str = "dinov2-small",
    split: Literal["train", "test", "all"] = "all",
    batch: int = 64,
    limit: int | None = None,
    session: Session = SHARED,
) -> None:
    """Turn images into a table of features with a vision model; an interrupted run goes on where it
    stopped.

    For example:

        eigenprobe features photos/ --model dinov2-small
        eigenprobe features imagenette2/ --model clip-vit-b32 --batch 256
        eigenprobe features photos/ --model path/to/weights

    Args:
        images: a folder of images, of one folder per class, or an official data-set archive
        model: dinov2-small, clip-vit-b32, a folder of weights or a hub id
        split: which part of a data set that comes in parts
        batch: images at a time
        limit: only this many images, evenly spread
    """
    from eigenprobe_lab.paper.extract import run

    folder = session.folder(f"{images.stem}-features")
    path, device = folder / "features.npz", session.device()
    path = run(
        images, out=path, model=model, split=split, batch_size=batch, device=device, limit=limit
    )
    session.wrote(path, f"for 'eigenprobe embed {path}'")
    session.finish(f"features of {images.name} by {model}")
