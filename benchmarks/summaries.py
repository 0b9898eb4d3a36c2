"""Tables made of several files of results: the README's claims, and the paper's experiments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.paper_tables import PAPER, Summary
from benchmarks.shown import COSINES, LEVELS, Document, evaluation
from eigenprobe_lab.evaluation.reports import markdown
from eigenprobe_lab.evaluation.unseen import Generalisation
from eigenprobe_lab.paper.published import PAPER as SINGLE
from eigenprobe_lab.paper.published import published_collections


def headlines(results: Path) -> str:
    """The README's table: one line per claim, ours beside the paper and beside the nearest other
    method.
    """

    def read(name: str) -> Document:
        return json.loads((results / name).read_text())

    def joined(values: Iterable[float]) -> str:
        return " / ".join(f"{value:.3f}" for value in values)

    means = {(row["over"], row["method"]): row for row in evaluation(read("surfaces.json")).means()}
    ours, robust = means[SINGLE.group, "direct"], means[SINGLE.group, "robust"]
    whole, theirs = means["all", "direct"], means["all", "robust"]
    rows = read("generalisation_mpz14.json")["rows"]
    unseen = Generalisation(rows, published=published_collections(row["shape"] for row in rows))
    count = len({row["shape"] for row in unseen.rows if row["domain"] == "surface"})
    alone = {
        row["start"]: [row[f"k<={k}"] for k in LEVELS]
        for row in unseen.means()
        if row["stage"] == "feed-forward"
    }
    tables = [read(path.name) for path in sorted(results.glob("images*.json"))]
    nmi: dict[str, list[float]] = {row["method"]: [] for table in tables for row in table["rows"]}
    for row in (row for table in tables for row in table["rows"] if row["k"] == 10):
        nmi[row["method"]].append(row["nmi"])
    names = ", ".join(table["facts"]["table"].split("_")[0] for table in tables)
    samplings: dict[str, dict[str, list[float]]] = {"uniform": {}, "class-weighted": {}}
    for row in read("maps.json")["parts"]["coordinates"]:
        if row["table"].split("_")[0] in names:
            found = samplings["uniform" if row["rows"] == "uniform" else "class-weighted"]
            found.setdefault(row["method"], []).append(row["k-means ARI"])
    cpu, gpu = (
        next(
            table["rows"]
            for table in read(f"direct_{kind}.json")["tables"]
            if table["n"] == 100_000
        )
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
            f"the same, all {whole['shapes']} shapes of the collection (see below)",
            joined(whole[key] for key in COSINES),
            joined(whole[f"paper_{key}"] for key in COSINES),
            "robust_laplacian " + joined(theirs[key] for key in COSINES),
        ),
        (
            f"relative error of the eigenvalues, nine shapes; all {whole['shapes']}",
            joined([ours["discrepancy"], whole["discrepancy"]]),
            joined([ours["paper_discrepancy"], whole["paper_discrepancy"]]),
            "robust_laplacian " + joined([robust["discrepancy"], theirs["discrepancy"]]),
        ),
        (
            f"|cosine|, pretrained, {count} unseen shapes of the paper's 105, feed-forward only",
            joined(alone["network"]),
            joined(alone["the paper, MPZ14"]) + ", all 105",
            "its inputs alone " + joined(alone["its inputs alone"]),
        ),
        (
            f"NMI of k-means in 10 coordinates, class-weighted rows; {names}",
            joined(nmi["direct"]),
            None,
            "UMAP " + joined(nmi["umap"]),
        ),
        *(
            (
                f"ARI of k-means in 10 coordinates, {rows} rows; {names}",
                joined(ari["10 coordinates"]),
                None,
                "UMAP " + joined(ari["UMAP in 10"]),
            )
            for rows, ari in samplings.items()
        ),
        (
            "seconds for 50 vectors of 100 000 points, two cores (H200)",
            f"{cpu['direct']['seconds']:.1f} ({gpu['direct']['seconds']:.1f})",
            None,
            f"robust_laplacian {cpu['robust_laplacian']['seconds']:.1f}",
        ),
    ]
    return markdown(
        [dict(zip(("", "eigenprobe", "the paper", "other"), line, strict=True)) for line in lines]
    )


# By name: the files whose numbers are taken, and the table of them.
SUMMARIES: dict[str, Summary] = {
    "headlines": (
        (
            "surfaces.json",
            "generalisation_mpz14.json",
            "images_*.json",
            "maps.json",
            "direct_*.json",
        ),
        headlines,
    ),
    **PAPER,
}
