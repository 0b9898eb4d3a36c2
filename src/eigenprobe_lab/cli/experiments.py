"""Commands that run the paper's experiments: ``reproduce toy1d|overfit|generalisation|images|all``."""

from __future__ import annotations

import csv
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eigenprobe.cli.session import Session
from eigenprobe.host.files import write_npz
from eigenprobe.host.tables import markdown, write_csv

if TYPE_CHECKING:
    from ..paper.reproduction import Reproduced

Embedder = Literal["direct", "network", "laplacian", "laplacian_sphere", "pca", "umap", "tsne", "isomap"]
Way = Literal["paper", "ours", "both"]
Resume = Literal["auto", "never"]


def _folder(default: str, resume: Resume, session: Session) -> Path:
    """The output folder; checkpoints of an earlier run there are named with their step."""
    folder = session.folder(default)
    session.resumes(folder, resume)
    return folder


def _finish(found: Reproduced, session: Session, headline: str) -> None:
    """The experiment's own tables, then its lines of the paper's, which are written to ``paper.csv`` too."""
    session.tell(found.report)
    command = shlex.join(["eigenprobe", *sys.argv[1:]])
    lines = [each | {"command": f"`{command}`"} for each in found.lines]
    session.say(markdown(lines))
    write_csv(path := found.report.written[0].parent / "paper.csv", lines)
    session.wrote(path, "the table above")
    if (kept := path.parent / "checkpoints").is_dir():
        session.wrote(kept, "trained networks, from which the same command goes on")
    session.finish(headline)


def toy1d(
    *,
    way: Way = "paper",
    steps: int = 1500,
    probes: int = 500_000,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session,
) -> None:
    """The interval: five learned vectors against the cosines, by the paper's loss and by the expected one.

    Examples:
      eigenprobe reproduce toy1d --out toy
      eigenprobe reproduce toy1d --way paper --quick

    Args:
        way: the paper's sampled loss, ours, which is its exact expectation, or both
        steps: training steps for each loss
        probes: probe functions in a batch of the paper's loss
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    from ..paper.reproduction import reproduce_toy1d

    folder = _folder("toy1d", resume, session)
    if quick:
        steps, probes = min(steps, 400), min(probes, 5_000)
    found = reproduce_toy1d(folder, way, seed=session.seed, steps=steps, probes=probes, resume=resume)
    _finish(found, session, "learned the interval")


def overfit(
    shapes: list[Path],
    *,
    way: Way = "paper",
    k: int = 50,
    n: int = 4000,
    steps: int | None = None,
    resamplings: int = 16,
    size: int | None = None,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session,
) -> None:
    """One network per shape: the paper's single-shape table, by its own way and by ours, with controls.

    The paper's way is the recipe paper_overfit; its full schedule asks for a GPU.

    Examples:
      eigenprobe reproduce overfit meshes/ --way ours
      eigenprobe reproduce overfit bunny.obj --device cuda
      eigenprobe reproduce overfit bunny.obj --steps 3000 --device cuda
      eigenprobe reproduce overfit bunny.obj --quick

    Args:
        shapes: mesh files, or folders of them
        way: the paper's network, probes, loss and schedule, ours, or both
        k: basis size
        n: points at which bases are compared
        steps: training steps; 12000 the paper's way (with fewer than 5000 the rate falls over all of them), chosen by
          the network's preset ours
        resamplings: farthest-point subsets to train on, our way
        size: points in each; 4000 on a GPU and fewer on a processor unless given
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    from eigenprobe.readers.shapes import find_shapes

    from ..evaluation.fitted import SETTINGS as OURS
    from ..paper.overfit import SETTINGS as PAPER
    from ..paper.overfit import shortened
    from ..paper.reproduction import QUICK_PROBES, reproduce_overfit

    settings = replace(OURS, steps=steps, resamplings=resamplings, size=size, seed=session.seed)
    theirs = shortened(replace(PAPER, size=size or PAPER.size, seed=session.seed), steps)
    if quick:
        k, n, size = min(k, 20), min(n, 500), min(size or 400, 400)
        settings = replace(settings, resamplings=2, held_out=1, size=size, steps=steps or 100)
        probes = replace(theirs.probes, paper=QUICK_PROBES)
        theirs = shortened(replace(theirs, preset="tiny", probes=probes, size=size), steps or 100)
    files, folder = find_shapes(shapes), _folder("overfit", resume, session)
    options: dict[str, Any] = {"settings": settings, "their_settings": theirs, "device": session.device()}
    found = reproduce_overfit(files, folder, way, k=k, n=n, quick=quick, resume=resume, **options)
    _finish(found, session, f"fitted {len({row['shape'] for row in found.report.rows})} shapes")


def generalisation(
    shapes: list[Path],
    *,
    way: Way = "paper",
    model: str = "surface",
    n: int = 1500,
    k: int = 50,
    steps: int = 2000,
    volumes: int = 6,
    figures: bool = True,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session,
) -> None:
    """One model on unseen shapes: the paper's network trained its own way, and ours with its inputs as controls.

    The paper's way is the recipe paper_generalisation, on procedural shapes; it asks for a GPU.

    Examples:
      eigenprobe reproduce generalisation meshes/ --way ours
      eigenprobe reproduce generalisation meshes/ --way paper --device cuda
      eigenprobe reproduce generalisation meshes/ --model runs/pretrain/model --way ours --volumes 0

    Args:
        shapes: mesh files, or folders of them
        way: the paper's network trained here, our pretrained model, or both
        model: ours: a name in the package, a folder or a hub id
        n: points of each shape
        k: basis size
        steps: training steps of the paper's way
        volumes: how many closed shapes to measure on points inside them too
        figures: draw the figures
        quick: small sizes: does it run?
        resume: auto goes on from the checkpoints in the output folder, never trains again
    """
    from eigenprobe.pretrained.model import SpectralModel
    from eigenprobe.readers.shapes import find_shapes
    from eigenprobe.training.runs import RunSettings

    from ..evaluation.pretrained import Comparison
    from ..paper.generalisation import GeneralisationRecipe
    from ..paper.reproduction import reproduce_generalisation

    folder, device = _folder("generalisation", resume, session), session.device()
    recipe = GeneralisationRecipe(steps=steps, points=n, k=k, seed=session.seed)
    if quick:
        n, k, volumes, figures = min(n, 300), min(k, 20), 0, False
        small: dict[str, Any] = {"preset": "tiny", "clouds": 4, "chunk": 16, "accumulate": 1, "validate_every": 20}
        recipe = replace(recipe, steps=min(steps, 40), points=n, k=k, **small)
    ours = None
    if way != "paper":
        ours = Comparison(SpectralModel.from_pretrained(model), n, k, session.seed, device, volumes)
    options: dict[str, Any] = {"comparison": ours, "recipe": recipe, "figures": figures, "quick": quick}
    how = RunSettings(device=device, resume=resume)
    found = reproduce_generalisation(find_shapes(shapes), folder, way, how=how, **options)
    _finish(found, session, f"measured {len({row['shape'] for row in found.report.rows})} shapes")


def images(
    features: Path,
    *,
    way: Way = "paper",
    train: Path | None = None,
    dataset: str | None = None,
    extractor: Literal["dinov2", "clip"] = "dinov2",
    labels: str | None = None,
    methods: list[Embedder] = ["direct", "network", "laplacian", "laplacian_sphere", "pca", "umap", "tsne", "isomap"],  # noqa: B006
    unit: bool = True,
    runs: int = 32,
    n: int = 1500,
    ks: list[int] = [2, 5, 10],  # noqa: B006 (a default for the parser; never changed)
    steps: int = 2000,
    jobs: int = 1,
    quick: bool = False,
    resume: Resume = "auto",
    session: Session,
) -> None:
    """Clusters in the embedding against PCA, Isomap, Laplacian Eigenmaps, t-SNE and UMAP, by the paper's protocol.

    The paper's way trains the recipe paper_images on the train split and embeds in one pass; it asks for a GPU. The
    closed form of its probes is a row of its own.

    Examples:
      eigenprobe reproduce images features.npz --out images
      eigenprobe reproduce images features.npz --runs 4 --methods direct pca umap
      eigenprobe reproduce images test.npz --way both --train train.npz --dataset stl10 --extractor clip

    Args:
        features: a table with labels (npz, csv, parquet, HDF5)
        way: ours, the paper's network, trained first, or both; peers are measured in any case
        train: the table that the paper's network is trained on; half of the rows of the first one unless given
        dataset: whose hyper-parameters and published scores: stl10, imagenette, cifar100 or caltech256; without it
          neighbours, sigma and steps of the probes are tuned on the train rows, and nothing published is shown
        extractor: of the features, for the same
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
    from eigenprobe.training.runs import RunSettings

    from ..paper.images_recipe import ImagesRecipe
    from ..paper.protocol import Protocol
    from ..paper.reproduction import reproduce_images

    recipe = ImagesRecipe(dataset or "imagenette", extractor, steps=steps, vectors=max(*ks, 10) + 1, seed=session.seed)
    if quick:
        runs, n, methods = min(runs, 2), min(n, 300), [m for m in methods if m not in ("umap", "tsne", "network")]
        recipe = replace(recipe, steps=min(steps, 20), width=32, heads=4, sample=200, probes=60, accumulate=1)
    protocol = Protocol(runs, n, ks, methods, session.seed, unit)
    folder = _folder(f"images-{features.stem}", resume, session)
    how = RunSettings(device=session.device(), resume=resume, logs=False)
    options: dict[str, Any] = {"protocol": protocol, "recipe": recipe, "train": train, "labels": labels, "jobs": jobs}
    found = reproduce_images(features, folder, way, published=dataset is not None, how=how, quick=quick, **options)
    count = len({row["method"] for row in found.report.rows})
    _finish(found, session, f"compared {count} methods on {features.name}")


def everything(
    shapes: list[Path] = [],  # noqa: B006
    *,
    features: Path | None = None,
    way: Way = "paper",
    quick: bool = False,
    session: Session,
) -> None:
    """All four experiments, one after the other; without data on a built-in shape and on scikit-learn's digits.

    Examples:
      eigenprobe reproduce all --quick
      eigenprobe reproduce all meshes/ --features features.npz --device cuda

    Args:
        shapes: mesh files, or folders of them
        features: a table with labels
        way: the paper's, ours, or both
        quick: small sizes: does it run? A few minutes on two cores
    """
    root = session.folder("reproduced")
    if not shapes:
        from eigenprobe.readers.shapes import Shape, save

        from ..shapes.meshing import creature

        shapes = [root / "creature.obj"]
        save(Shape(*creature(16 if quick else 32)), shapes[0])
    if features is None:
        from sklearn.datasets import load_digits

        features = root / "digits.npz"
        x, y = load_digits(return_X_y=True)
        write_npz(features, {"features": x.astype("float32"), "labels": y})
    experiments = {
        "toy1d": lambda part: toy1d(way=way, quick=quick, session=part),
        "overfit": lambda part: overfit(shapes, way=way, quick=quick, session=part),
        "generalisation": lambda part: generalisation(shapes, way=way, quick=quick, session=part),
        "images": lambda part: images(features, way=way, quick=quick, session=part),
    }
    lines: list[dict[str, str]] = []
    for name, experiment in experiments.items():
        session.say(f"\n== {name} ==")
        experiment(replace(session, out=root / name, written=[], started=time.monotonic()))
        with (root / name / "paper.csv").open(newline="") as file:
            lines += csv.DictReader(file)
    session.say(f"\n{markdown(lines)}")
    write_csv(root / "paper.csv", lines)
    session.wrote(root / "paper.csv", "the table above")
    session.finish("ran the paper's four experiments")
