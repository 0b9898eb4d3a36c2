"""Commands on tables of embeddings: ``embed`` one, and ``features`` to make one from a folder of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..files import atomic_path
from .session import Session

if TYPE_CHECKING:
    from ..estimators import OptimalApproximationEigenmaps


def embed(
    table: Path,
    *,
    k: int = 10,
    solver: Literal["direct", "network"] = "direct",
    labels: str | None = None,
    new: Path | None = None,
    metric: Literal["auto", "cosine", "euclidean"] = "auto",
    neighbors: int | None = None,
    report: bool = True,
    force: bool = False,
    session: Session,
) -> None:
    """Embed a table of features: one row per sample, spectral coordinates out, and a scatter to explore.

    Examples:
      eigenprobe embed features.npz --labels labels
      eigenprobe embed cells.csv --labels celltype -k 5 --metric euclidean
      eigenprobe embed train.npy --new test.npy --solver network

    Args:
        table: npy, npz, csv or parquet
        k: how many coordinates
        solver: direct is the closed form, network learns a function for new rows
        labels: the column (csv, parquet) or array (npz) that holds labels; used for colours only
        new: a second table, placed in the coordinates fitted on the first
        metric: distance between rows; auto is cosine from 64 columns on, Euclidean below
        neighbors: size of the neighbourhood graph
        report: write report.html
        force: overwrite what an earlier run has written
    """
    from ..estimators import OptimalApproximationEigenmaps
    from ..estimators.rows import read_table

    read = read_table(table, labels=labels)
    fresh = read_table(new) if new is not None else None
    folder = session.folder(table.stem)
    session.refuse_existing(folder / "embedding.npz", force)
    options: dict[str, Any] = {} if metric == "auto" else {"metric": metric}
    if neighbors is not None:
        options["n_neighbors"] = neighbors
    estimator = OptimalApproximationEigenmaps(
        n_components=k, solver=solver, random_state=session.seed, device=session.device(), **options
    )
    estimator.fit(read.features)
    placed = estimator.transform(fresh.features) if fresh is not None else None
    _write_embedding(folder, estimator, read.labels, placed, session)
    if report:
        from ..viz.scatter import write_scatter

        page, values = folder / "report.html", estimator.eigenvalues_
        write_scatter(page, estimator.embedding_, labels=read.labels, title=table.name, eigenvalues=values)
        session.wrote(page, "open in any browser")
    rows = len(estimator.embedding_)
    session.finish(f"embedded {table.name}: {rows} rows, {k} coordinates, {solver},")


def _write_embedding(
    folder: Path, estimator: OptimalApproximationEigenmaps, labels: Any, placed: Any, session: Session
) -> None:
    import numpy as np

    arrays = {"embedding": estimator.embedding_, "eigenvalues": estimator.eigenvalues_, "mass": estimator.mass_}
    if labels is not None:
        arrays["labels"] = np.asarray(labels).astype(str) if np.asarray(labels).dtype == object else np.asarray(labels)
    if placed is not None:
        arrays["new"] = placed
    path = folder / "embedding.npz"
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
    session.wrote(path, f"arrays {', '.join(arrays)}")
    facts = {"rows": len(arrays["embedding"]), "coordinates": arrays["embedding"].shape[1]}
    facts |= {"seconds": round(session.seconds, 3), "eigenvalues": arrays["eigenvalues"]}
    session.write_json(folder / "summary.json", facts, "eigenvalues and facts")


def features(
    images: Path,
    *,
    model: str = "dinov2-small",
    split: Literal["train", "test", "all"] = "all",
    batch: int = 64,
    limit: int | None = None,
    session: Session,
) -> None:
    """Turn images into a table of features with a vision model; an interrupted run goes on where it stopped.

    Examples:
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
    from ..paper.extract import run

    folder = session.folder(f"{images.stem}-features")
    path, device = folder / "features.npz", session.device()
    path = run(images, out=path, model=model, split=split, batch_size=batch, device=device, limit=limit)
    session.wrote(path, f"for 'eigenprobe embed {path}'")
    session.finish(f"features of {images.name} by {model}")
