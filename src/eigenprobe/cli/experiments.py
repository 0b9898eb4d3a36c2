"""Commands that measure: ``evaluate surfaces|volumes`` and ``reproduce toy1d|overfit|generalisation|images``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .context import Context

Embedder = Literal["direct", "network", "laplacian", "pca", "umap", "tsne", "isomap"]
Measured = Literal["direct", "network", "pretrained", "robust", "oracle"]


def surfaces(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct", "robust"],  # noqa: B006 (a default for the parser; never changed)
    n: int = 4000,
    k: int = 50,
    figures: bool = True,
    jobs: int = 1,
    context: Context,
) -> None:
    """Alignment with the cotangent oracle on meshes, with the paper's columns and figures.

    Examples:
      eigenprobe evaluate surfaces meshes/
      eigenprobe evaluate surfaces bunny.obj --methods direct pretrained --n 1500

    Args:
        shapes: mesh files, or folders of them
        methods: what to measure; robust is the robust_laplacian package, oracle the mesh Laplacian itself
        n: points of each shape (farthest points of its vertices)
        k: basis size
        figures: draw the figures
        jobs: shapes in parallel, -1 for one a core
    """
    _evaluate(shapes, methods, n, k, figures, jobs, False, context)


def volumes(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct"],  # noqa: B006 (a default for the parser; never changed)
    n: int = 4000,
    k: int = 50,
    figures: bool = True,
    jobs: int = 1,
    context: Context,
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
        jobs: shapes in parallel, -1 for one a core
    """
    _evaluate(shapes, methods, n, k, figures, jobs, True, context)


def _evaluate(
    shapes: list[Path],
    methods: list[Measured],
    n: int,
    k: int,
    figures: bool,
    jobs: int,
    volume: bool,
    context: Context,
) -> None:
    from ..evaluation.surfaces import run

    out = context.folder("volumes" if volume else "surfaces")
    device = context.device()
    options = {} if device == "cpu" else {"device": device}
    result = run(
        shapes,
        methods=methods,
        n=n,
        k=k,
        seed=context.seed,
        out=out,
        figures=figures,
        volume=volume,
        jobs=jobs,
        options=options,
    )
    context.say(result.markdown())
    for name, reason in result.failed.items():
        context.say(f"skipped {name}: {reason}")
    context.wrote_all(result.written)
    context.finish(f"measured {len(result.shapes)} shapes, {', '.join(result.methods)},")


def toy1d(*, steps: int = 1500, probes: int = 500_000, context: Context) -> None:
    """The interval: five learned vectors against the cosines, by the paper's loss and by the expected one.

    Examples:
      eigenprobe reproduce toy1d --out toy

    Args:
        steps: training steps for each loss
        probes: probe functions in a batch of the paper's loss
    """
    from ..paper import toy1d as experiment

    folder = context.folder("toy1d")
    toy = experiment.toy1d(seed=context.seed, steps=steps, probes=probes)
    context.say(toy.markdown())
    context.wrote(experiment.figure(toy, folder / "toy1d.png"), "learned vectors over the cosines")
    facts = {"cosines": toy.cosines, "seconds": toy.seconds, "steps": steps, "probes": probes, "seed": context.seed}
    context.write_json(folder / "toy1d.json", facts, "for a program")
    context.finish("learned the interval")


def overfit(
    shapes: list[Path],
    *,
    k: int = 50,
    n: int = 4000,
    steps: int | None = None,
    resamplings: int = 16,
    size: int | None = None,
    context: Context,
) -> None:
    """One network a shape: the paper's single-shape table, with the closed form and the paper beside.

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
    from dataclasses import replace

    from ..geometry import find_shapes
    from ..paper.overfit import SETTINGS, overfit

    files = find_shapes(shapes)
    folder = context.folder("overfit")
    settings = replace(SETTINGS, steps=steps, resamplings=resamplings, size=size)
    result = overfit(files, k=k, n=n, settings=settings, device=context.device(), seed=context.seed)
    context.say(result.markdown())
    for name, reason in result.failed.items():
        context.say(f"skipped {name}: {reason}")
    facts = {"k": k, "n": n, "steps": steps, "resamplings": resamplings, "size": size, "failed": result.failed}
    context.write_json(folder / "overfit.json", {"facts": facts, "rows": result.rows}, "for a program")
    context.write_text(folder / "overfit.md", result.markdown() + "\n", "for a reader")
    context.finish(f"fitted {len(result.rows)} shapes")


def generalisation(
    shapes: list[Path],
    *,
    model: str = "surface",
    n: int = 1500,
    k: int = 50,
    volumes: int = 6,
    figures: bool = True,
    context: Context,
) -> None:
    """The pretrained model on unseen shapes, with the controls that keep it honest.

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
    from ..geometry import find_shapes
    from ..paper.generalisation import run

    files = find_shapes(shapes)
    folder = context.folder("generalisation")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    result = run(
        files,
        folder,
        model=model,
        n=n,
        k=k,
        seed=context.seed,
        device=context.device(),
        volumes=volumes,
        figures=figures,
    )
    context.say(result.markdown())
    for name, reason in result.failed.items():
        context.say(f"skipped {name}: {reason}")
    context.wrote_all(path for path in sorted(folder.iterdir()) if before.get(path) != path.stat().st_mtime_ns)
    context.finish(f"measured {len({row['shape'] for row in result.rows})} shapes")


def images(
    features: Path,
    *,
    labels: str | None = None,
    methods: list[Embedder] = ["direct", "network", "laplacian", "pca", "umap", "tsne", "isomap"],  # noqa: B006
    runs: int = 32,
    n: int = 1500,
    ks: list[int] = [2, 5, 10],  # noqa: B006 (a default for the parser; never changed)
    jobs: int = 1,
    context: Context,
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
        jobs: subsets in parallel, -1 for one a core
    """
    from ..paper.images import run

    result = run(
        features,
        out=context.folder(f"images-{features.stem}"),
        runs=runs,
        n=n,
        ks=ks,
        methods=methods,
        labels=labels,
        seed=context.seed,
        jobs=jobs,
        progress=context.say,
    )
    context.say(result.markdown())
    context.wrote_all(result.files)
    context.finish(f"compared {len({row['method'] for row in result.rows})} methods on {features.name}")
