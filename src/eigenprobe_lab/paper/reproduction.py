"""The paper's experiments by its own way, by ours, or by both, and its tables with three columns.

what (shape and level, function, score)   ->   published | the paper's way here | ours

The quick forms of the commands are so small that two cores need a minute: they show that a way runs, not what it
reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from eigenprobe.host.tables import Report, grouped, markdown
from eigenprobe.probes.probes import Probes
from eigenprobe.readers.tables import read_table
from eigenprobe.training.fit import FitSettings
from eigenprobe.training.runs import RunSettings

from ..evaluation import fitted, pretrained
from ..evaluation.clustering import METRICS
from ..evaluation.samples import Measured, Sample, measure_files
from ..evaluation.surface_report import Evaluation, levels
from ..evaluation.unseen import LEVELS, Generalisation
from . import images, overfit, toy1d
from .generalisation import GeneralisationRecipe, amortise, unseen
from .images_recipe import ImagesRecipe, feed_forward, learn_rows
from .protocol import Protocol
from .published import GENERALISATION, PAPER, published_scores, single_shape

Way = Literal["paper", "ours", "both"]
THEIRS, OURS = "the paper's way", "ours"
QUICK_PROBES = Probes(200, steps=20, k=10, sigma=(0.05, 0.3))  # a few hundred points are further apart than 4000


@dataclass(frozen=True)
class Reproduced:
    """What was measured, in the experiment's own form, and the three columns."""

    report: Report
    columns: list[dict[str, Any]]

    def markdown(self) -> str:
        """The three columns; a dash where the paper prints nothing, or where a way was not run."""
        return markdown(self.columns, ["what", "published", THEIRS, OURS])


def _line(what: str, published: float | None, theirs: float | None, ours: float | None) -> dict[str, Any]:
    return {"what": what, "published": published, THEIRS: theirs, OURS: ours}


def reproduce_toy1d(
    out: Path, way: Way = "both", *, seed: int = 0, steps: int = 1500, probes: int = 500_000
) -> Reproduced:
    """Five functions on the interval; the paper shows them in a figure, without numbers."""
    losses = {"paper": ("paper",), "ours": ("expected",), "both": ("paper", "expected")}[way]
    toy = toy1d.toy1d(seed=seed, steps=steps, probes=probes, losses=losses).write(out, "toy1d")
    rows = dict(zip(losses, toy.rows, strict=True))
    lines = [
        _line(f"|cosine| with {name}", None, rows.get("paper", {}).get(name), rows.get("expected", {}).get(name))
        for name in toy1d.FUNCTIONS
    ]
    return Reproduced(toy, lines)


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
) -> Reproduced:
    """One network for each shape. A file is a mesh, or a sample that `Sample.save` wrote."""
    history: dict[str, Any] = {}

    def measure(path: Path) -> Measured:
        sample = Sample.of_file(path, n, k, fitted.SAMPLE_SEED)
        rows: list[dict[str, Any]] = []
        if way != "ours":
            rows += overfit.learn_their_way(sample, k, their_settings, replace(overfit.RUN, device=device))
            history[sample.shape.name] = rows[0].pop("history")
        if way != "paper":
            run = replace(fitted.RUN, device=device)
            found, _, history[f"{sample.shape.name}, ours"] = fitted.learn_shape(sample, k, settings, run)
            rows += found
        return rows, {}

    rows, failed = measure_files(measure, sorted(files))
    facts = {"k": k, "n": n, "way": way, "settings": str(settings), "their settings": str(their_settings)}
    report = Evaluation(rows, failed, facts | {"history": history}, published=PAPER).beside_published()
    return Reproduced(report.write(out, "overfit"), overfit_columns(rows, levels(k)))


def overfit_columns(rows: Sequence[dict[str, Any]], ks: Sequence[int]) -> list[dict[str, Any]]:
    """|cosine| by level and eigenvalue discrepancy of every shape; ours is the network after its Ritz rotation."""
    keys = {f"cosine_{k}": f"|cosine| k <= {k}" for k in ks} | {"discrepancy": "eigenvalue discrepancy"}
    lines = []
    for (shape,), found in grouped(rows, "shape").items():
        printed, by = single_shape(shape), {row["method"]: row for row in found}
        theirs, ours = by.get(THEIRS, {}), by.get("ritz", {})
        lines += [
            _line(f"{shape}, {title}", printed.get(key), theirs.get(key), ours.get(key)) for key, title in keys.items()
        ]
    return lines


def reproduce_generalisation(
    files: Sequence[Path],
    out: Path,
    way: Way = "both",
    *,
    comparison: pretrained.Comparison | None = None,
    recipe: GeneralisationRecipe,
    device: str = "cpu",
    figures: bool = True,
) -> Reproduced:
    """One network for all shapes, on unseen ones; the paper's rows are those of MPZ14."""
    rows: list[dict[str, Any]] = []
    report = Generalisation(rows, {}, {"n": recipe.points, "k": recipe.k}, published=GENERALISATION)
    if comparison is not None and way != "paper":
        report = pretrained.run(files, comparison, figures=figures, published=GENERALISATION)
    if way != "ours":

        def taken(path: Path) -> Measured:
            return [{"sample": Sample.of_file(path, recipe.points, recipe.k, recipe.seed)}], {}

        found, failed = measure_files(taken, files)
        samples = [row["sample"] for row in found if len(row["sample"].points) == recipe.points]
        module, history = amortise(recipe, RunSettings(folder=out / "network", device=device), samples)
        facts = report.facts | {"recipe": str(recipe), "steps": module.optimisation.steps, "history": history}
        rows = [*report.rows, *unseen(module, samples, recipe.probes)]
        report = Generalisation(rows, failed | report.failed, facts, published=GENERALISATION)
    report = report.write(out, "generalisation")
    means = {(row["start"], row["stage"]): row for row in report.means()}
    theirs, ours = (means.get((start, "feed-forward"), {}) for start in (THEIRS, "network"))
    printed = dict(zip(LEVELS, GENERALISATION["MPZ14"], strict=True))
    keys = [level for level in LEVELS if level <= recipe.k]
    lines = [_line(f"|cosine| k <= {i}", printed[i], theirs.get(f"k<={i}"), ours.get(f"k<={i}")) for i in keys]
    return Reproduced(report, lines)


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
) -> Reproduced:
    """Clusters of embeddings; the paper's network is trained on ``train``, or on a random half of the table."""
    fitted = None
    methods = [name for name in protocol.methods if name != "paper"]
    if way != "ours":
        rows = np.asarray(read_table(train or table, labels).features, np.float32)
        if train is None:
            rows = rows[np.random.default_rng(recipe.seed).permutation(len(rows))[: len(rows) // 2]]
        basis = learn_rows(recipe, torch.from_numpy(rows), how or RunSettings())
        methods = ["paper", *(methods if way == "both" else [m for m in methods if m not in ("direct", "network")])]

        def fitted(x: Any) -> Any:
            return feed_forward(basis, x)

    chosen = replace(protocol, methods=methods)
    report = images.run(table, chosen, out, labels=labels, jobs=jobs, fitted=fitted)
    lines = []
    for k in protocol.ks:
        printed = published_scores(recipe.dataset, recipe.extractor, k) if published else {}
        by = {row["method"]: row for row in report.rows if row["k"] == k}
        theirs, ours = by.get("paper", {}), by.get("direct", {})
        lines += [
            _line(f"{title}, k = {k}", printed.get(key), theirs.get(key), ours.get(key))
            for key, title in METRICS.items()
        ]
    return Reproduced(report, lines)
