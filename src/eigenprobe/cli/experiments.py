"""Commands that measure: ``evaluate surfaces|volumes`` and ``reproduce toy1d|overfit|generalisation|images``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .session import Session

if TYPE_CHECKING:
    from ..evaluation.tables import Report

Embedder = Literal["direct", "network", "laplacian", "pca", "umap", "tsne", "isomap"]
Measured = Literal["direct", "network", "pretrained", "robust", "oracle"]


def surfaces(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct", "robust"],  # noqa: B006 (a default for the parser; never changed)
    n: int = 4000,
    k: int = 50,
    points: list[int] = [],  # noqa: B006
    noise: list[float] = [0.0],  # noqa: B006
    figures: bool = True,
    jobs: int = 1,
    session: Session,
) -> None:
    """Alignment with the cotangent oracle on meshes, with the paper's columns and figures.

    With --points, which neighbours are real is measured instead: plain, learned, cut by an oracle, robust_laplacian.

    Examples:
      eigenprobe evaluate surfaces meshes/
      eigenprobe evaluate surfaces meshes/ --points 500 1500 4000 --noise 0 0.01
      eigenprobe evaluate surfaces bunny.obj --methods direct pretrained --n 1500

    Args:
        shapes: mesh files, or folders of them
        methods: what to measure; robust is the robust_laplacian package, oracle the mesh Laplacian itself
        n: points of each shape (farthest points of its vertices)
        k: basis size
        points: sizes of the clouds on which ways to choose neighbours are compared
        noise: standard deviations of noise to add, of the radius (with --points)
        figures: draw the figures
        jobs: shapes in parallel, -1 for one per core
    """
    if points:
        from ..evaluation.neighbours import NeighbourMeasure, compare_neighbours

        measure = NeighbourMeasure(tuple(points), tuple(noise), seed=session.seed)
        report = compare_neighbours(shapes, measure, out=session.folder("neighbours"), jobs=jobs)
        _tell(report, session)
        session.finish(f"measured neighbours at {', '.join(map(str, points))} points")
        return
    _evaluate(shapes, session, jobs, figures, methods=methods, n=n, k=k)


def volumes(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct"],  # noqa: B006 (a default for the parser; never changed)
    n: int = 4000,
    k: int = 50,
    figures: bool = True,
    jobs: int = 1,
    session: Session,
) -> None:
    """The same on points inside closed meshes, against a Laplacian on a grid that fills them.

    Examples:
      eigenprobe evaluate volumes solid.off --n 3000

    Args:
        shapes: closed mesh files, or folders of them
        methods: what to measure
        n: interior points of each shape
        k: basis size
        figures: draw the figures
        jobs: shapes in parallel, -1 for one per core
    """
    _evaluate(shapes, session, jobs, figures, methods=methods, n=n, k=k, volume=True)


def _evaluate(shapes: list[Path], session: Session, jobs: int, figures: bool, **settings: Any) -> None:
    from ..evaluation.surfaces import Measure, run
    from ..paper.published import PAPER

    folder = session.folder("volumes" if settings.get("volume") else "surfaces")
    device = session.device()
    options = {} if device == "cpu" else {"device": device}
    drawn = folder / "figures" if figures else None
    measure = Measure(seed=session.seed, figures=drawn, options=options, **settings)
    result = run(shapes, measure, out=folder, jobs=jobs, published=PAPER)
    _tell(result, session)
    session.finish(f"measured {len(result.shapes)} shapes, {', '.join(result.methods)},")


def _tell(result: Report, session: Session) -> None:
    """The tables, what was skipped, and the files for the closing summary."""
    session.say(result.markdown())
    session.skipped(result.failed)
    session.wrote_all(result.written)


def toy1d(*, steps: int = 1500, probes: int = 500_000, session: Session) -> None:
    """The interval: five learned vectors against the cosines, by the paper's loss and by the expected one.

    Examples:
      eigenprobe reproduce toy1d --out toy

    Args:
        steps: training steps for each loss
        probes: probe functions in a batch of the paper's loss
    """
    from ..paper.toy1d import toy1d

    folder = session.folder("toy1d")
    _tell(toy1d(seed=session.seed, steps=steps, probes=probes).write(folder, "toy1d"), session)
    session.finish("learned the interval")


def overfit(
    shapes: list[Path],
    *,
    k: int = 50,
    n: int = 4000,
    steps: int | None = None,
    resamplings: int = 16,
    size: int | None = None,
    session: Session,
) -> None:
    """One network per shape: the paper's single-shape table, with the closed form and the paper beside.

    Examples:
      eigenprobe reproduce overfit meshes/ --device cuda
      eigenprobe reproduce overfit bunny.obj --n 1500 -k 20

    Args:
        shapes: mesh files, or folders of them
        k: basis size
        n: points at which bases are compared
        steps: training steps; chosen by the network's preset unless given
        resamplings: farthest-point subsets to train on
        size: points in each; 4000 on a GPU and fewer on a processor unless given
    """
    from ..geometry import find_shapes
    from ..paper.overfit import SETTINGS, overfit

    files = find_shapes(shapes)
    folder = session.folder("overfit")
    settings = replace(SETTINGS, steps=steps, resamplings=resamplings, size=size, seed=session.seed)
    result = overfit(files, folder, k=k, n=n, settings=settings, device=session.device())
    _tell(result, session)
    session.finish(f"fitted {len(result.shapes)} shapes")


def generalisation(
    shapes: list[Path],
    *,
    model: str = "surface",
    n: int = 1500,
    k: int = 50,
    volumes: int = 6,
    figures: bool = True,
    session: Session,
) -> None:
    """The pretrained model on unseen shapes, with its inputs alone and wider spans as controls.

    Examples:
      eigenprobe reproduce generalisation meshes/
      eigenprobe reproduce generalisation meshes/ --model runs/pretrain/model --volumes 0

    Args:
        shapes: mesh files, or folders of them
        model: a name in the package, a folder or a hub id
        n: points of each shape
        k: basis size
        volumes: how many closed shapes to measure on points inside them too
        figures: draw the figures
    """
    from ..paper.generalisation import Comparison, run
    from ..pretrained import SpectralModel

    folder = session.folder("generalisation")
    network = SpectralModel.from_pretrained(model)
    comparison = Comparison(network, n, k, session.seed, session.device(), volumes)
    result = run(shapes, comparison, folder, figures=figures)
    _tell(result, session)
    session.finish(f"measured {len({row['shape'] for row in result.rows})} shapes")


def images(
    features: Path,
    *,
    labels: str | None = None,
    methods: list[Embedder] = ["direct", "network", "laplacian", "pca", "umap", "tsne", "isomap"],  # noqa: B006
    runs: int = 32,
    n: int = 1500,
    ks: list[int] = [2, 5, 10],  # noqa: B006 (a default for the parser; never changed)
    jobs: int = 1,
    session: Session,
) -> None:
    """Clusters in the embedding against PCA, Isomap, Laplacian Eigenmaps, t-SNE and UMAP, by the paper's protocol.

    Examples:
      eigenprobe reproduce images features.npz --out images
      eigenprobe reproduce images features.npz --runs 4 --methods direct pca umap

    Args:
        features: a table with labels (npz, csv, parquet, HDF5)
        labels: the column or array that holds them; found by itself in an npz
        methods: what to compare
        runs: random class-weighted subsets
        n: rows in each
        ks: embedding sizes
        jobs: subsets in parallel, -1 for one per core
    """
    from ..paper.images import run
    from ..paper.protocol import Protocol

    protocol = Protocol(runs, n, ks, methods, session.seed)
    folder = session.folder(f"images-{features.stem}")
    result = run(features, protocol, folder, labels=labels, jobs=jobs, say=session.say)
    _tell(result, session)
    session.finish(f"compared {len({row['method'] for row in result.rows})} methods on {features.name}")
