"""Clusters of embeddings by the paper's protocol, at rows that no default was chosen on, with all
its peers.

    python -m benchmarks.clusters TABLES... [--runs 32] [--jobs 2]
    python -m benchmarks.clusters TABLES... --methods tsne       (quick on a GPU, hours without)

Seven scores of k-means, means over random class-weighted subsets of 1500; rows of length one for
every method. The estimator's defaults were chosen on even rows, so that the subsets are of the odd
ones. Seconds are warm: every method has run once before. The paper's own network is measured by
`benchmarks.paper images`.

A file is written whole after each method: rows of a confirmed file (`catalogue`) stay, rows of
peers in any case, and are not measured again. Without --methods those that are missing or out of
date are measured, but for t-SNE, which may have fewer runs: every row says its own.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

from benchmarks.catalogue import state
from benchmarks.record import best_device, existing, facts, results_file, write
from eigenprobe.host.files import plain
from eigenprobe.io.tables import read_table
from eigenprobe_lab.paper.images import FITTED, METHODS, Images, Protocol, embed, summarise

OURS = ("direct", "network")
SLOW = ("tsne",)
KNOWN = [name for name in METHODS if name not in FITTED]


def measure(
    x: np.ndarray, y: np.ndarray, method: str, o: argparse.Namespace
) -> list[dict[str, Any]]:
    """Rows of a method on the odd rows."""
    odd = x[1::2]
    embed(
        method, np.asarray(odd[:200], np.float32), (2,), 0
    )  # warm: compilation is not the method's time
    return summarise(Protocol(o.runs, methods=[method]).records(odd, y[1::2], o.jobs))


def kept(name: str, runs: int) -> list[dict[str, Any]]:
    """The rows of a file that are as measured today: all of a confirmed one, else those that are
    not of our code.
    """
    content = (
        json.loads(results_file(name).read_text()) if results_file(name).is_file() else {"rows": []}
    )
    ours = () if state(name, content) == "confirmed" else OURS
    enough = [row for row in content["rows"] if row["runs"] >= runs or row["method"] in SLOW]
    return [row for row in enough if row["method"] not in (*ours, *FITTED)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("features", type=existing, nargs="+")
    parser.add_argument("--methods", nargs="*", choices=KNOWN, default=[])
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default=best_device())
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    for path in o.features:
        name, table = f"images_{path.stem}.json", read_table(path)
        known = {row["method"] for row in kept(name, o.runs)}
        for method in o.methods or [m for m in KNOWN if m not in (*SLOW, *known)]:
            made = facts("clusters", o.device, o, peers=("umap-learn",))
            found = measure(np.asarray(table.features), np.asarray(table.labels), method, o)
            origin = {"commit": made["commit"], "device": made["device"]}
            rows = [row for row in kept(name, o.runs) if row["method"] != method]
            rows += [row | origin for row in plain(found)]
            rows.sort(key=lambda row: (row["k"], list(METHODS).index(row["method"])))
            about = {
                "table": path.stem,
                "rows": "odd",
                "count": len(table.features) // 2,
                "runs": o.runs,
            }
            write(name, made | {"facts": about, "rows": rows})
        print(Images(kept(name, o.runs)).markdown(), flush=True)


if __name__ == "__main__":
    main()
