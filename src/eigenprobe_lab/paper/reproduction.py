"""The paper's experiments by its own way, by ours, or by both, and one table of all of them.

    setting | data | published | the paper's way here | control | ours | reason for the gap | command

The control is the closed form of the paper's own probes, the best that its loss can ask for; with eigenvalues it is the
paper's estimator on the oracle's own vectors. A published number stands beside the same data only; otherwise the reason
says why there is none. The quick forms of the commands are so small that two cores need a minute: they show that a way
runs, not what it reaches.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from eigenprobe.host.tables import Report, grouped, mean_row
from eigenprobe.probes.probes import Probes
from eigenprobe.readers.tables import read_table
from eigenprobe.training.fit import FitSettings
from eigenprobe.training.runs import RunSettings

from ..evaluation import fitted, pretrained
from ..evaluation.samples import Measured, Sample, measure_files
from ..evaluation.surface_report import Evaluation, levels
from ..evaluation.unseen import LEVELS, Generalisation
from . import images, overfit, toy1d
from .generalisation import GeneralisationRecipe, amortise, unseen
from .images_recipe import ImagesRecipe, closed_form, feed_forward, learn_rows, tune
from .peers import FITTED, Function
from .protocol import Protocol
from .published import COLLECTIONS, DIFFERENT, GENERALISATION, PAPER, collection, published_scores, single_shape

Way = Literal["paper", "ours", "both"]
Resume = Literal["auto", "never"]
CHECKPOINTS = "checkpoints"  # folder of the trainings of an experiment, below its output
COLUMNS = ("setting", "data", "published", "the paper's way here", "control", "ours", "reason for the gap", "command")
THEIRS, CONTROL, ORACLE = "the paper's way", "closed form of its probes", "the oracle's vectors"
QUICK_PROBES = Probes(200, steps=20, k=10, sigma=(0.05, 0.3))  # a few hundred points are further apart than 4000
REASONS = {
    "quick": "small sizes: it runs, no more",
    "toy": "the paper shows a figure",
    "shape": "probes follow the density of the vertices (control), one sampling of which is noisier than the many "
    "that a network sees",
    "eigenvalues": "the estimator: the control has the exact vectors",
    "unknown": "not a shape of the paper",
    "unseen": "procedural shapes for {steps} steps in place of 200 000 scans and models for 100 epochs",
    "collection": "not a collection of the paper",
    "images": "{steps} steps; the paper does not say how many",
    "features": "not features of the paper, probes tuned on development rows",
}


@dataclass(frozen=True)
class Reproduced:
    """What was measured, in the experiment's own form, and its lines of the table (without the command)."""

    report: Report
    lines: list[dict[str, str]]


def line(*cells: str) -> dict[str, str]:
    """One line of the table, a text for each of `COLUMNS`."""
    return dict(zip(COLUMNS, cells, strict=False))


def cell(rows: Sequence[Mapping[str, Any]], keys: Iterable[str], missing: str = "not measured", **match: Any) -> str:
    """Means of some columns over the rows that match, as ``a / b / c``."""
    means = mean_row([row for row in rows if match.items() <= row.items()], list(keys)).values()
    return " / ".join("-" if value is None else f"{value:.3f}" for value in means) if any(means) else missing


def reproduce_toy1d(
    out: Path, way: Way = "both", *, seed: int = 0, steps: int = 1500, probes: int = 500_000, resume: Resume = "auto"
) -> Reproduced:
    """Five functions on the interval; the paper shows them in a figure, without numbers."""
    losses = {"paper": ("paper",), "ours": ("expected",), "both": ("paper", "expected")}[way]
    run = RunSettings(folder=out / CHECKPOINTS, resume=resume)
    toy = toy1d.toy1d(seed=seed, steps=steps, probes=probes, losses=losses, run=run).write(out, "toy1d")
    found = [cell(toy.rows, toy1d.FUNCTIONS[1:], loss=toy1d.LOSSES[name]) for name in toy1d.LOSSES]
    about = ("|cosine| with cos pi x, 2 pi x, 3 pi x, 4 pi x", "100 points of the interval", "none")
    return Reproduced(toy, [line(*about, found[0], "the same loss, expected: ours", found[1], REASONS["toy"])])


def reproduce_overfit(
    files: Sequence[Path],
    out: Path,
    way: Way = "both",
    *,
    k: int = 50,
    n: int = 4000,
    settings: FitSettings = fitted.SETTINGS,
    their_settings: FitSettings = overfit.SETTINGS,
    device: str = "cpu",
    quick: bool = False,
    resume: Resume = "auto",
) -> Reproduced:
    """One network for each shape. A file is a mesh, or a sample that `Sample.save` wrote."""
    history: dict[str, Any] = {}
    names = Counter(path.stem for path in files)

    def measure(path: Path) -> Measured:
        name = path.stem if names[path.stem] == 1 else f"{path.parent.name}-{path.stem}"
        kept: dict[str, Any] = {"device": device, "resume": resume, "logs": False}
        folder = out / CHECKPOINTS / name
        sample = Sample.of_file(path, n, k, fitted.SAMPLE_SEED)
        rows: list[dict[str, Any]] = []
        if way != "ours":
            run = replace(overfit.RUN, folder=folder / "paper", **kept)
            rows += overfit.learn_their_way(sample, k, their_settings, run)
            history[sample.shape.name] = rows[0].pop("history")
        if way != "paper":
            run = replace(fitted.RUN, folder=folder / "ours", **kept)
            found, _, history[f"{sample.shape.name}, ours"] = fitted.learn_shape(sample, k, settings, run)
            rows += found
        return rows, {}

    rows, failed = measure_files(measure, sorted(files))
    facts = {"k": k, "n": n, "way": way, "settings": str(settings), "their settings": str(their_settings)}
    report = Evaluation(rows, failed, facts | {"history": history}, published=PAPER).beside_published()
    lines = [each for (_,), found in grouped(rows, "shape").items() for each in shape_lines(found, levels(k), quick)]
    return Reproduced(report.write(out, "overfit"), lines)


def shape_lines(rows: Sequence[Mapping[str, Any]], ks: Sequence[int], quick: bool = False) -> list[dict[str, str]]:
    """|cosine| by level and eigenvalues of one shape; ours is the closed form."""
    shape, cosines = rows[0]["shape"], [f"cosine_{k}" for k in ks]
    printed = single_shape(shape)
    why = REASONS["quick"] if quick else "" if printed else REASONS["unknown"]
    lines = []
    for setting, keys, control in (
        (f"one shape, |cosine| k <= {' / '.join(map(str, ks))}", cosines, CONTROL),
        ("one shape, relative error of eigenvalues", ["discrepancy"], ORACLE),
    ):
        found = [cell(rows, keys, method=method) for method in (THEIRS, control, "closed form")]
        reason = why or DIFFERENT.get(shape, ("", REASONS["shape" if control == CONTROL else "eigenvalues"]))[1]
        lines.append(line(setting, shape, cell([printed], keys, "none"), *found, reason))
    return lines


def reproduce_generalisation(
    files: Sequence[Path],
    out: Path,
    way: Way = "both",
    *,
    comparison: pretrained.Comparison | None = None,
    recipe: GeneralisationRecipe,
    how: RunSettings | None = None,
    figures: bool = True,
    quick: bool = False,
) -> Reproduced:
    """One network for all shapes, on unseen ones; published numbers stand beside shapes of the same collection."""
    rows: list[dict[str, Any]] = []
    report = Generalisation(rows, {}, {"n": recipe.points, "k": recipe.k}, published=GENERALISATION)
    if comparison is not None and way != "paper":
        report = pretrained.run(files, comparison, figures=figures, published=GENERALISATION)
    if way != "ours":

        def taken(path: Path) -> Measured:
            return [{"sample": Sample.of_file(path, recipe.points, recipe.k, recipe.seed)}], {}

        found, failed = measure_files(taken, files)
        samples = [row["sample"] for row in found if len(row["sample"].points) == recipe.points]
        run = replace(how or RunSettings(device="cpu"), folder=out / CHECKPOINTS)
        module, history = amortise(recipe, run, samples)
        facts = report.facts | {"recipe": str(recipe), "steps": module.optimisation.steps, "history": history}
        rows = [*report.rows, *unseen(module, samples, recipe.probes)]
        report = Generalisation(rows, failed | report.failed, facts, published=GENERALISATION)
    report = report.write(out, "generalisation")
    surfaces = [
        dict(row) | {"collection": collection(row["shape"])} for row in report.rows if row["domain"] == "surface"
    ]
    lines = []
    for (name,), group in grouped(surfaces, "collection").items():
        lines += unseen_lines(group, name, recipe.steps, recipe.k, quick)
    return Reproduced(report, lines)


def unseen_lines(
    rows: Sequence[Mapping[str, Any]], name: str, steps: int, k: int = 50, quick: bool = False
) -> list[dict[str, str]]:
    """|cosine| of unseen shapes of one collection, feed-forward."""
    keys = [f"k<={i}" for i in (10, 20, 50) if i <= k] or [f"k<={LEVELS[0]}"]
    printed = dict(zip((f"k<={i}" for i in LEVELS), COLLECTIONS.get(name, ()), strict=False))
    kind = "quick" if quick else "unseen" if printed else "collection"
    found = [cell(rows, keys, start=start, stage="feed-forward") for start in (THEIRS, CONTROL, "network")]
    data = f"{len({row['shape'] for row in rows})} shapes{f' of {name}' if name else ''}"
    setting = f"unseen shapes, |cosine| {' / '.join(keys)}"
    return [line(setting, data, cell([printed], keys, "none"), *found, REASONS[kind].format(steps=steps))]


def reproduce_images(
    table: Path,
    out: Path,
    way: Way = "both",
    *,
    protocol: Protocol,
    recipe: ImagesRecipe,
    train: Path | None = None,
    labels: str | None = None,
    how: RunSettings | None = None,
    jobs: int = 1,
    published: bool = True,
    quick: bool = False,
) -> Reproduced:
    """Clusters of embeddings; the paper's network is trained on ``train``, or on a random half of the table."""
    given: dict[str, Function] = {}
    methods = [name for name in protocol.methods if name not in FITTED]
    if way != "ours":
        read = read_table(train or table, labels)
        rows = protocol.rows(np.asarray(read.features), np.arange(len(read.features)))
        chosen = np.random.default_rng(recipe.seed).permutation(len(rows))[: len(rows) if train else len(rows) // 2]
        if not published and read.labels is not None:  # of features that the paper has no triple for
            recipe, _ = tune(recipe, rows[chosen], np.asarray(read.labels)[chosen])
        how = replace(how or RunSettings(), folder=out / CHECKPOINTS)
        basis = learn_rows(recipe, torch.from_numpy(rows[chosen]), how)
        given = {"paper": partial(feed_forward, basis), "probes": partial(closed_form, recipe)}
        methods = [*given, *(methods if way == "both" else [m for m in methods if m not in ("direct", "network")])]
    report = images.run(table, replace(protocol, methods=methods), out, labels=labels, jobs=jobs, fitted=given)
    return Reproduced(report, image_lines(report.rows, table.stem, recipe, published, quick))


def image_lines(
    rows: Sequence[Mapping[str, Any]], data: str, recipe: ImagesRecipe, published: bool, quick: bool = False
) -> list[dict[str, str]]:
    """NMI and ARI of k-means at each number of coordinates."""
    lines, kind = [], "quick" if quick else "images" if published else "features"
    for k in dict.fromkeys(row["k"] for row in rows):
        printed = published_scores(recipe.dataset, recipe.extractor, k) if published else {}
        found = [cell(rows, ("nmi", "ari"), k=k, method=method) for method in ("paper", "probes", "direct")]
        about = (f"clusters in {k} coordinates, NMI / ARI", data, cell([printed], ("nmi", "ari"), "none"))
        lines.append(line(*about, *found, REASONS[kind].format(steps=recipe.steps)))
    return lines
