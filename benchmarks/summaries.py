"""Tables made of several files of results: the README's claims, and the paper's experiments by three columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.shown import COSINES, LEVELS, Document, evaluation
from eigenprobe.host.tables import markdown, mean_row
from eigenprobe_lab.evaluation.unseen import Generalisation
from eigenprobe_lab.paper.published import GENERALISATION, IMAGE_SCORES, NINE, PAPER, single_shape
from eigenprobe_lab.paper.toy1d import LOSSES


def headlines(results: Path) -> str:
    """The README's table: one line per claim, ours beside the paper and beside the nearest other method."""

    def read(name: str) -> Document:
        return json.loads((results / name).read_text())

    def joined(values: Iterable[float]) -> str:
        return " / ".join(f"{value:.3f}" for value in values)

    nine = {row["method"]: row for row in evaluation(read("surfaces.json")).means() if row["over"] == PAPER.group}
    ours, robust = nine["direct"], nine["robust"]
    unseen = Generalisation(read("generalisation_mpz14.json")["rows"], published=GENERALISATION)
    count = len({row["shape"] for row in unseen.rows if row["domain"] == "surface"})
    alone = {row["start"]: [row[f"k<={k}"] for k in LEVELS] for row in unseen.means() if row["stage"] == "feed-forward"}
    tables = [read(path.name) for path in sorted(results.glob("images*.json"))]
    nmi: dict[str, list[float]] = {row["method"]: [] for table in tables for row in table["rows"]}
    for row in (row for table in tables for row in table["rows"] if row["k"] == 10):
        nmi[row["method"]].append(row["nmi"])
    names = ", ".join(table["facts"]["table"].split("_")[0] for table in tables)
    cpu, gpu = (
        next(table["rows"] for table in read(f"direct_{kind}.json")["tables"] if table["n"] == 100_000)
        for kind in ("cpu", "cuda")
    )
    lines = [
        (
            "|cosine| with the mesh oracle, `direct`, nine shapes; k ≤ 10 / 20 / 50",
            joined(ours[key] for key in COSINES),
            joined(ours[f"paper_{key}"] for key in COSINES),
            "robust_laplacian " + joined(robust[key] for key in COSINES),
        ),
        (
            "relative error of the eigenvalues, the same",
            joined([ours["discrepancy"]]),
            joined([ours["paper_discrepancy"]]),
            "robust_laplacian " + joined([robust["discrepancy"]]),
        ),
        (
            f"|cosine|, pretrained, {count} unseen shapes, feed-forward only; k ≤ 10 / 20 / 50",
            joined(alone["network"]),
            joined(alone["the paper, MPZ14"]),
            "its inputs alone " + joined(alone["its inputs alone"]),
        ),
        (f"NMI of k-means in 10 coordinates; {names}", joined(nmi["direct"]), None, "UMAP " + joined(nmi["umap"])),
        (
            "seconds for 50 vectors of 100 000 points, two cores (H200)",
            f"{cpu['direct']['seconds']:.1f} ({gpu['direct']['seconds']:.1f})",
            None,
            f"robust_laplacian {cpu['robust_laplacian']['seconds']:.1f}",
        ),
    ]
    return markdown([dict(zip(("", "eigenprobe", "the paper", "other"), line, strict=True)) for line in lines])


def experiments(results: Path) -> str:
    """Each experiment of the paper: as published, its own way here, ours; words where there is no number."""

    def rows(name: str) -> list[Document]:
        return json.loads((results / name).read_text())["rows"] if (results / name).is_file() else []

    def cell(found: Iterable[Document], keys: Iterable[str], missing: str = "not measured yet", **match: Any) -> str:
        chosen = [row for row in found if match.items() <= row.items()]
        return " / ".join(f"{mean_row(chosen, [key])[key]:.3f}" for key in keys) if chosen else missing

    def line(what: str, published: str, theirs: str, ours: str) -> Document:
        return {"experiment": what, "published": published, "the paper's way here": theirs, "ours": ours}

    toy, functions = rows("toy1d.json"), ("cos pi x", "cos 2 pi x", "cos 3 pi x", "cos 4 pi x")
    nine = [single_shape(name) for name in NINE]
    single = [row for row in rows("paper_overfit.json") if row["shape"] in NINE]
    direct = [row for row in rows("surfaces.json") if row["shape"] in NINE]
    levels = [f"k<={k}" for k in LEVELS]
    unseen = Generalisation(rows("generalisation_mpz14.json"), published=GENERALISATION)
    amortised = [row for row in rows("paper_generalisation.json") if "__" not in row["shape"]]
    means = unseen.means() if unseen.rows else []
    table = [
        line(
            "toy: |cosine| with cos πx, 2πx, 3πx, 4πx",
            "a figure, no numbers",
            *(cell(toy, functions, loss=name) for name in LOSSES.values()),
        ),
        line(
            "nine shapes, one network each: |cosine| k ≤ 10 / 20 / 50; ours: closed form",
            cell(nine, COSINES),
            cell(single, COSINES, method="the paper's way"),
            cell(direct, COSINES, method="direct"),
        ),
        line(
            "the same: relative error of the eigenvalues",
            cell(nine, ["discrepancy"]),
            cell(single, ["discrepancy"], method="the paper's way"),
            cell(direct, ["discrepancy"], method="direct"),
        ),
        line(
            "MPZ14, one network for all: |cosine| k ≤ 10 / 20 / 50, feed-forward",
            cell(means, levels, start="the paper, MPZ14"),
            cell(amortised, levels, start="the paper's way"),
            cell(means, levels, start="network", stage="feed-forward"),
        ),
    ]
    for path in sorted(results.glob("images_*.json")):
        found, name = rows(path.name), path.stem.removeprefix("images_")
        scores = IMAGE_SCORES.get(("imagenette", "dinov2", 10)) if name.startswith("imagenette") else None
        printed = f"{scores[0]:.3f} / {scores[1]:.3f} (DINOv2 features)" if scores else "none: not a set of the paper"
        by = (cell(found, ("nmi", "ari"), method=method, k=10) for method in ("paper", "direct"))
        table.append(line(f"clusters of {name}, ten coordinates: NMI / ARI", printed, *by))
    return markdown(table)


# By name: the files whose numbers are taken, and the table of them.
SUMMARIES: dict[str, tuple[tuple[str, ...], Callable[[Path], str]]] = {
    "headlines": (("surfaces.json", "generalisation_mpz14.json", "images_*.json", "direct_*.json"), headlines),
    "experiments": (
        ("toy1d.json", "paper_*.json", "surfaces.json", "generalisation_mpz14.json", "images_*.json"),
        experiments,
    ),
}
