"""Clusters of embeddings by the paper's protocol, at rows that no default was chosen on, with peers at their best.

    python -m benchmarks.clusters ../shared/data/embeddings/imagenette_efflite0.npz [--runs 16]

NMI and ARI of k-means, means over random class-weighted subsets of 1500. The estimator's defaults were chosen on even
rows, so that the subsets are of the odd ones. Every peer runs twice on each subset, on the rows as they are and on rows
of length one, and the better of the two (mean NMI over all k) is its row: a choice by the very labels that are
reported, which ours does not have. Seconds are warm: every method has run once before.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from benchmarks.record import facts, write
from eigenprobe.estimators.tables import read_table
from eigenprobe.evaluation import tables
from eigenprobe.paper.images import Images
from eigenprobe.paper.peers import embed
from eigenprobe.paper.protocol import Protocol, summarise

OURS = ("direct", "network")
PEERS = ("laplacian", "laplacian_sphere", "pca", "umap", "isomap")


def compare(x: np.ndarray, y: np.ndarray, runs: int, jobs: int) -> list[dict[str, object]]:
    """Rows of the table, the peers' with how their rows were scaled."""
    for name in (*OURS, *PEERS):
        embed(name, np.asarray(x[:200], np.float32), (2,), 0)  # warm: compilation is not the method's time
    rows = summarise(Protocol(runs, methods=OURS).records(x, y, jobs))
    both = {unit: summarise(Protocol(runs, methods=PEERS, unit=unit).records(x, y, jobs)) for unit in (True, False)}
    for name in PEERS:
        own = {unit: [row for row in found if row["method"] == name] for unit, found in both.items()}
        unit = max(own, key=lambda u: np.mean([row["nmi"] for row in own[u]]))
        rows += [row | {"unit rows": unit} for row in own[unit]]
    return sorted(rows, key=lambda row: row["k"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    table = read_table(options.features)
    x, y = np.asarray(table.features)[1::2], np.asarray(table.labels)[1::2]
    rows = compare(x, y, options.runs, options.jobs)
    print(Images(rows).markdown())
    about = {"table": options.features.stem, "rows": "odd", "count": len(y), "runs": options.runs}
    made = facts("clusters", "cpu", peers=("umap-learn",))
    write(f"images_{options.features.stem}.json", made | {"facts": about, "rows": tables.plain(rows)})


if __name__ == "__main__":
    main()
