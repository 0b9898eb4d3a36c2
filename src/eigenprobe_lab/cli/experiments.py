"""Commands of the paper's experiments: ``reproduce toy1d|overfit|generalisation|images|all``."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eigenprobe.cli.session import SHARED, K, Samples, Session, Switch
from eigenprobe.errors import InputError
from eigenprobe.host.files import write_npz
from eigenprobe.host.tables import Record, write_csv

from .train import say_resumed

if TYPE_CHECKING:
    from eigenprobe.training import RunSettings

    from ..evaluation.reports import Report
    from ..evaluation.samples import Measured

Embedder = Literal[
    "direct", "network", "laplacian", "laplacian_sphere", "pca", "umap", "tsne", "isomap"
]
Way = Literal["paper", "ours", "both"]
Resume = Literal["auto", "never"]


def _begin(
    default: str, resume: Resume, session: Session, logs: bool = False
) -> tuple[Path, RunSettings]:
    """The output folder and how to train in it; checkpoints of an earlier run there are named with
    their step.
    """
    from eigenprobe.training import RunSettings

    folder = session.folder(default)
    say_resumed(session, folder, resume)
    return folder, RunSettings(folder / "checkpoints", resume, session.device(), logs=logs)


def _finish(report: Report, lines: list[dict[str, str]], session: Session, headline: str) -> None:
    """The experiment's own tables, then its lines of the paper's, which are written to
    ``paper.csv`` too.
    """
    from ..evaluation.reports import markdown

    report.tell(session)
    session.say(markdown(lines))
    write_csv(path := report.written[0].parent / "paper.csv", lines)
    session.wrote(path, "the table above")
    if (kept := path.parent / "checkpoints").is_dir():
        session.wrote(kept, "trained networks, from which the same command goes on")
    session.finish(headline)


def toy1d(
    *,
    way: Way = "both",
    steps: int = 1500,
    probes: int = 500_000,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session = SHARED,
) -> None:
    """The interval: five learned vectors against the cosines, by the paper's loss and by the
    expected one.

    For example:

        eigenprobe reproduce toy1d --out toy
        eigenprobe reproduce toy1d --way paper --quick

    Args:
        way: the paper's sampled loss, ours, which is its exact expectation, or both
        steps: training steps for each loss
        probes: probe functions in a batch of the paper's loss
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    from ..paper import toy1d as interval
    from ..paper.reproduction import toy_lines

    folder, run = _begin("toy1d", resume, session)
    if quick:
        steps, probes = min(steps, 400), min(probes, 5_000)
    losses = {"paper": ("paper",), "ours": ("expected",), "both": ("paper", "expected")}[way]
    toy = interval.toy1d(interval.ToyRecipe(session.seed, steps, probes), losses, run).write(
        folder, "toy1d"
    )
    _finish(toy, toy_lines(toy.rows), session, "learned the interval")


def overfit(
    shapes: list[Path],
    *,
    way: Way = "paper",
    k: K = 50,
    n: Samples = 4000,
    steps: int | None = None,
    resamplings: int = 16,
    size: int | None = None,
    released: bool = False,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session = SHARED,
) -> None:
    """One network per shape: the paper's single-shape table, by its own way and by ours, with
    controls.

    The paper's way is the recipe paper_overfit; its full schedule asks for a GPU.

    For example:

        eigenprobe reproduce overfit meshes/ --way ours
        eigenprobe reproduce overfit bunny.obj --device cuda
        eigenprobe reproduce overfit bunny.obj --steps 3000 --device cuda
        eigenprobe reproduce overfit bunny.obj --quick

    Args:
        shapes: mesh files, or folders of them
        way: the paper's network, probes, loss and schedule, ours, or both
        k: basis size
        n: points at which bases are compared
        steps: training steps; 12000 the paper's way (with fewer than 5000 the rate falls over all
            of them), chosen by the network's preset ours
        resamplings: farthest-point subsets to train on, our way
        size: points in each; 4000 on a GPU and fewer on a processor unless given
        released: the paper's way as its authors' released configuration has it, not as its text
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    from eigenprobe.geometry import find_shapes

    from ..evaluation import fitted, samples, surfaces
    from ..evaluation.reports import grouped
    from ..paper import overfit as theirs
    from ..paper import published, reproduction
    from ..paper import released as as_released

    settings = replace(
        fitted.SETTINGS, steps=steps, resamplings=resamplings, size=size, seed=session.seed
    )
    paper = replace(theirs.SETTINGS, size=size or theirs.SETTINGS.size, seed=session.seed)
    if quick:
        k, n, size, steps = min(k, 20), min(n, 500), min(size or 400, 400), steps or 100
        settings = replace(settings, resamplings=2, size=size, steps=steps)
        paper = replace(
            paper,
            preset="tiny",
            probes=replace(paper.probes, paper=reproduction.QUICK_PROBES),
            size=size,
        )
    paper, usual = theirs.shortened(paper, steps), as_released.SCHEDULE
    asked: dict[str, Any] = {
        "schedule": replace(usual, steps=steps or usual.steps),
        "points": size or as_released.POINTS,
        "seed": session.seed,
    }
    if quick:
        asked["probes"] = replace(as_released.PROBES, count=60)
        asked |= {"width": 64, "layers": 2, "heads": 4}
    files, (folder, run) = find_shapes(shapes), _begin("overfit", resume, session)
    history: dict[str, Any] = {}
    names = Counter(path.stem for path in files)

    def measure(path: Path) -> Measured:
        name = path.stem if names[path.stem] == 1 else f"{path.parent.name}-{path.stem}"
        sample, rows = samples.Sample.of_file(path, n, k, fitted.SAMPLE_SEED), list[Record]()
        kept = folder / "checkpoints" / name
        if way != "ours":
            own = replace(run, folder=kept / "paper", validate_every=theirs.VALIDATE_EVERY)
            if released:
                rows += as_released.learn_released(sample, k, own, **asked)
            else:
                rows += theirs.learn_their_way(sample, k, paper, own)
            history[sample.shape.name] = rows[0].pop("history")
        if way != "paper":
            own = replace(run, folder=kept / "ours")
            rows += fitted.learn_shape(sample, k, settings, own)[0]
        return rows, {}

    rows, failed = samples.measure_files(measure, files)
    facts = {
        "k": k,
        "n": n,
        "way": way,
        "settings": str(settings),
        "their settings": as_released.__doc__ if released else str(paper),
        "history": history,
    }
    report = surfaces.Evaluation(rows, failed, facts, published=published.PAPER)
    report, by_shape = report.beside_published().write(folder, "overfit"), grouped(rows, "shape")
    lines = [
        line
        for own in by_shape.values()
        for line in reproduction.shape_lines(own, report.levels, quick)
    ]
    _finish(report, lines, session, f"fitted {len(by_shape)} shape{'s' * (len(by_shape) > 1)}")


def generalisation(
    shapes: list[Path],
    *,
    way: Way = "paper",
    model: str = "surface",
    n: Samples = 1500,
    k: K = 50,
    steps: int = 2000,
    training: Path | None = None,
    volumes: int = 6,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session = SHARED,
) -> None:
    """One model on unseen shapes: the paper's network trained its own way, and ours with its inputs
    as controls.

    The paper's way is the recipe paper_generalisation; it asks for a GPU.

    For example:

        eigenprobe reproduce generalisation meshes/ --way ours
        eigenprobe reproduce generalisation meshes/ --way paper --device cuda
        eigenprobe reproduce generalisation meshes/ --model runs/a/model --way ours --volumes 0

    Args:
        shapes: mesh files, or folders of them
        way: the paper's network trained here, our pretrained model, or both
        model: ours: a name in the package, a folder or a hub id
        n: points of each shape
        k: basis size
        steps: training steps of the paper's way
        training: meshes that the paper's way is trained on (npz, NAME/v and NAME/f); procedural
            shapes unless given
        volumes: how many closed shapes to measure on points inside them too
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    from eigenprobe.geometry import find_shapes
    from eigenprobe.pretrained.model import SpectralModel

    from ..evaluation import pretrained, samples, unseen
    from ..evaluation.reports import grouped
    from ..paper import generalisation as theirs
    from ..paper.published import collection, published_collections
    from ..paper.reproduction import unseen_lines

    folder, run = _begin("generalisation", resume, session, logs=True)
    if quick:
        n, k, volumes, steps = min(n, 300), min(k, 20), 0, min(steps, 40)
    recipe, files = (
        theirs.GeneralisationRecipe(steps, points=n, k=k, seed=session.seed, training=training),
        find_shapes(shapes),
    )
    if quick:
        recipe = replace(recipe, preset="tiny", clouds=4, chunk=16, accumulate=1, validate_every=20)
    printed = {} if quick else published_collections(path.stem for path in files)
    report = unseen.Generalisation([], {}, {"n": n, "k": k}, published=printed)
    if way != "paper":
        network = SpectralModel.from_pretrained(model)
        comparison = pretrained.Comparison(network, n, k, session.seed, run.device, volumes)
        report = pretrained.run(files, comparison, published=printed)
    if way != "ours":
        read = samples.Sample.of_file
        found, failed = samples.measure_files(
            lambda path: ([{"sample": read(path, n, k, session.seed)}], {}), files
        )
        whole = [row["sample"] for row in found if len(row["sample"].points) == n]
        module, history = theirs.amortise(recipe, run, whole)
        facts = report.facts | {
            "recipe": str(recipe),
            "steps": module.optimisation.steps,
            "history": history,
        }
        rows = [*report.rows, *theirs.unseen(module, whole, recipe)]
        report = replace(report, rows=rows, failed=failed | report.failed, facts=facts)
    report = report.write(folder, "generalisation")
    surfaces = [
        row | {"collection": collection(row["shape"])}
        for row in report.rows
        if row["domain"] == "surface"
    ]
    groups = grouped(surfaces, "collection")
    lines = [
        line for (name,), own in groups.items() for line in unseen_lines(own, name, steps, k, quick)
    ]
    _finish(report, lines, session, f"measured {len(grouped(report.rows, 'shape'))} shapes")


def images(
    features: Path,
    *,
    way: Way = "paper",
    train: Path | None = None,
    dataset: str | None = None,
    extractor: Literal["dinov2", "clip"] | None = None,
    labels: str | None = None,
    methods: list[Embedder] = [  # noqa: B006
        "direct",
        "network",
        "laplacian",
        "laplacian_sphere",
        "pca",
        "umap",
        "tsne",
        "isomap",
    ],
    unit: Switch = True,
    runs: int = 32,
    n: Samples = 1500,
    ks: list[int] = [2, 5, 10],  # noqa: B006 (a default for the parser; never changed)
    steps: int = 2000,
    jobs: int = 1,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session = SHARED,
) -> None:
    """Clusters in the embedding against PCA, Isomap, Laplacian Eigenmaps, t-SNE and UMAP, by the
    paper's protocol.

    The paper's way trains the recipe paper_images on the train split and embeds in one pass; it
    asks for a GPU. The closed form of its probes is a row of its own.

    For example:

        eigenprobe reproduce images features.npz --out images
        eigenprobe reproduce images features.npz --runs 4 --methods direct pca umap
        eigenprobe reproduce images test.npz --way both --train train.npz --dataset stl10

    Args:
        features: a table with labels (npz, csv, parquet, HDF5)
        way: ours, the paper's network, trained first, or both; peers are measured in any case
        train: the table that the paper's network is trained on; unless given, half of the rows of
            the first one, and the other half is scored
        dataset: whose hyper-parameters and published scores: stl10, imagenette, cifar100 or
            caltech256; without it neighbours, sigma and steps of the probes are tuned on the train
            rows, and nothing published is shown
        extractor: of the features, dinov2 or clip; with dataset
        labels: the column or array that holds them; found by itself in an npz
        methods: what to compare
        unit: scale rows of 64 columns or more to length one, for every method
        runs: random class-weighted subsets
        n: rows in each
        ks: embedding sizes
        steps: training steps of the paper's way
        jobs: subsets in parallel, -1 for one per core
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    import numpy as np
    import torch

    from eigenprobe.io.tables import read_table

    from ..evaluation.reports import grouped
    from ..paper import images as experiment
    from ..paper.images_recipe import ImagesRecipe, closed_form, feed_forward, learn_rows, tune
    from ..paper.published import COLUMNS_OF
    from ..paper.reproduction import image_lines

    if (dataset is None) != (extractor is None):
        raise InputError(
            "--dataset and --extractor go together: the published scores are of images *and* of "
            "the features of dinov2 or clip; leave both out for features of anything else"
        )
    recipe = ImagesRecipe(
        dataset or "imagenette",
        extractor or "dinov2",
        steps=steps,
        vectors=max(*ks, 10) + 1,
        seed=session.seed,
    )
    chosen: list[str] = list(methods)
    if quick:
        runs, n, chosen = (
            min(runs, 2),
            min(n, 300),
            [m for m in chosen if m not in ("umap", "tsne", "network")],
        )
        recipe = replace(
            recipe, steps=min(steps, 20), width=32, heads=4, sample=200, probes=60, accumulate=1
        )
    protocol, fitted = experiment.Protocol(runs, n, ks, chosen, session.seed, unit), {}
    folder, run = _begin(f"images-{features.stem}", resume, session)
    scored = read_table(features, labels)
    read = scored if train is None else read_table(train, labels)
    if scored.labels is None:
        raise InputError(f"the protocol compares clusters with labels, {features.name} has none")
    x, y = np.asarray(scored.features), np.asarray(scored.labels)
    if extractor and read.features.shape[1] not in COLUMNS_OF[extractor]:
        expected = " or ".join(map(str, COLUMNS_OF[extractor]))
        raise InputError(
            f"features of {extractor} have {expected} columns, {(train or features).name} has "
            f"{read.features.shape[1]}: leave --dataset and --extractor out"
        )
    if way != "ours":
        rows = protocol.rows(np.asarray(read.features))
        some = np.random.default_rng(recipe.seed).permutation(len(rows))
        if train is None:  # what is trained and tuned on is not scored
            some, others = np.split(some, [len(some) // 2])
            x, y = x[others], y[others]
        if dataset is None and read.labels is not None:
            recipe, _ = tune(recipe, rows[some], np.asarray(read.labels)[some])
        basis = learn_rows(recipe, torch.from_numpy(rows[some]), run)
        fitted = {"paper": partial(feed_forward, basis), "probes": partial(closed_form, recipe)}
        chosen = [
            *fitted,
            *(chosen if way == "both" else [m for m in chosen if m not in ("direct", "network")]),
        ]
    protocol = replace(protocol, methods=chosen)
    report = experiment.run(features.stem, x, y, protocol, folder, jobs, fitted)
    lines = image_lines(report.rows, features.stem, recipe, dataset is not None, quick)
    _finish(
        report,
        lines,
        session,
        f"compared {len(grouped(report.rows, 'method'))} methods on {features.name}",
    )


def everything(
    shapes: list[Path] = [],  # noqa: B006
    *,
    features: Path | None = None,
    way: Way = "paper",
    quick: bool = False,
    session: Session = SHARED,
) -> None:
    """All four experiments, one after the other; without data on a built-in shape and on
    scikit-learn's digits.

    For example:

        eigenprobe reproduce all --quick
        eigenprobe reproduce all meshes/ --features features.npz --device cuda

    Args:
        shapes: mesh files, or folders of them
        features: a table with labels
        way: the paper's, ours, or both
        quick: small sizes: does it run? A few minutes on two cores
    """
    from ..evaluation.reports import markdown

    root = session.folder("reproduced")
    if not shapes:
        from eigenprobe.datasets import CREATURE

        shapes = [CREATURE]
    if features is None:
        from sklearn.datasets import load_digits

        features = root / "digits.npz"
        x, y = load_digits(return_X_y=True)
        write_npz(features, {"features": x.astype("float32"), "labels": y})
    lines: list[dict[str, str]] = []
    run: Callable[..., None]
    for run, data in (
        (toy1d, ()),
        (overfit, (shapes,)),
        (generalisation, (shapes,)),
        (images, (features,)),
    ):
        session.say(f"\n== {run.__name__} ==")
        part = replace(session, out=root / run.__name__)
        run(*data, way=way, quick=quick, session=part)
        with (root / run.__name__ / "paper.csv").open(newline="") as file:
            lines += csv.DictReader(file)
    session.say(f"\n{markdown(lines)}")
    write_csv(root / "paper.csv", lines)
    session.wrote(root / "paper.csv", "the table above")
    session.finish("ran the paper's four experiments")
