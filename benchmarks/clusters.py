"""Clusters of embeddings by the paper's protocol, at rows that no default was chosen on, with all its peers.

    python -m benchmarks.clusters ../shared/data/embeddings/imagenette_efflite0.npz [--runs 32] [--jobs 2]
    python -m benchmarks.clusters TABLES... --methods tsne paper --steps 300      (quick on a GPU, hours without)

Seven scores of k-means, means over random class-weighted subsets of 1500; rows of length one for every method. The
estimator's defaults were chosen on even rows, so that the subsets are of the odd ones; the paper's network is trained
on even rows and sees the subsets in one pass. Seconds are warm: every method has run once before.

A file is filled method by method: rows of peers stay valid while their own sources (`PEERS`) do, whatever changes in
ours, and are not measured again. Without --methods those that are missing or out of date are measured, but for t-SNE
and the paper's network.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.catalogue import digest, made_by
from benchmarks.record import best_device, facts, results_file, write
from eigenprobe.estimators.tables import read_table
from eigenprobe.evaluation import tables
from eigenprobe.paper.images import Images
from eigenprobe.paper.images_recipe import ImagesRecipe, feed_forward, learn_rows
from eigenprobe.paper.peers import METHODS, embed
from eigenprobe.paper.protocol import Protocol, summarise
from eigenprobe.training import RunSettings

OURS = ("direct", "network", "paper")
SLOW = ("tsne", "paper")
PEERS = ("paper/peers.py", "paper/protocol.py", "evaluation/clustering.py")
NETWORK = (*PEERS, "paper/images_recipe.py", "probes", "training", "networks/transformer.py")


def sources(name: str, method: str) -> str:
    """The hash of what the rows of a method in a file measure."""
    return digest(name, NETWORK if method == "paper" else made_by(name).sources if method in OURS else PEERS)


def measure(x: np.ndarray, y: np.ndarray, methods: list[str], o: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of some methods on the odd rows."""
    fitted, even, odd = None, np.asarray(x[0::2], np.float32), x[1::2]
    if "paper" in methods:
        recipe = ImagesRecipe(o.dataset, steps=o.steps, sample=min(5000, len(even)))
        unit = Protocol().rows(even, np.arange(len(even)))
        basis = learn_rows(recipe, torch.from_numpy(unit).to(o.device), RunSettings(device=o.device))
        fitted = partial(feed_forward, basis)
    for name in methods:
        embed(name, np.asarray(odd[:200], np.float32), (2,), 0, fitted)  # warm: compilation is not the method's time
    jobs = 1 if set(methods) & set(SLOW) else o.jobs
    return summarise(Protocol(o.runs, methods=methods).records(odd, y[1::2], jobs, fitted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=[])
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300, help="of the paper's network")
    parser.add_argument("--dataset", default="imagenette", help="whose settings the paper's network takes")
    parser.add_argument("--device", default=best_device())
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    for path in o.features:
        name, kept = f"images_{path.stem}.json", []
        if results_file(name).is_file():
            kept = json.loads(results_file(name).read_text())["rows"]
        kept = [row for row in kept if row.get("sources") == sources(name, row["method"]) and row["runs"] >= o.runs]
        missing = [m for m in METHODS if m not in (*SLOW, *(row["method"] for row in kept))]
        methods = o.methods or missing
        table = read_table(path)
        made = facts("clusters", o.device, peers=("umap-learn",))
        found = measure(np.asarray(table.features), np.asarray(table.labels), methods, o) if methods else []
        origin = {"commit": made["commit"], "device": made["device"]}
        found = [row | origin | {"sources": sources(name, row["method"])} for row in tables.plain(found)]
        rows = [row for row in kept if row["method"] not in methods] + found
        rows.sort(key=lambda row: (row["k"], list(METHODS).index(row["method"])))
        print(Images(rows).markdown(), flush=True)
        about = {"table": path.stem, "rows": "odd", "count": len(table.features) // 2, "runs": o.runs}
        write(name, made | {"facts": about, "rows": rows})


if __name__ == "__main__":
    main()
