"""Clusters of embeddings by the paper's protocol, at rows that no default was chosen on, with all its peers.

    python -m benchmarks.clusters ../shared/data/embeddings/imagenette_efflite0.npz [--runs 32] [--jobs 2]
    python -m benchmarks.clusters TABLES... --methods tsne paper --steps 300      (quick on a GPU, hours without)

Seven scores of k-means, means over random class-weighted subsets of 1500; rows of length one for every method. The
estimator's defaults were chosen on even rows, so that the subsets are of the odd ones; the paper's network is trained
on even rows and sees the subsets in one pass. Seconds are warm: every method has run once before.

A file is written whole after each method: rows of a confirmed file (`catalogue`) stay, rows of peers in any case, and
are not measured again. Without --methods those that are missing or out of date are measured, but for t-SNE and the
paper's network, which may have fewer runs: every row says its own.
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
from joblib import parallel_config

from benchmarks.catalogue import state
from benchmarks.record import best_device, facts, results_file, write
from eigenprobe.host.files import plain
from eigenprobe.readers.tables import read_table
from eigenprobe.training import RunSettings
from eigenprobe_lab.paper.images import Images
from eigenprobe_lab.paper.images_recipe import ImagesRecipe, feed_forward, learn_rows
from eigenprobe_lab.paper.peers import FITTED, METHODS, embed
from eigenprobe_lab.paper.protocol import Protocol, summarise

OURS = ("direct", "network")
SLOW = ("tsne", "paper")


def measure(x: np.ndarray, y: np.ndarray, method: str, o: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of a method on the odd rows."""
    fitted, even, odd = None, np.asarray(x[0::2], np.float32), x[1::2]
    steps = o.steps if method == "paper" else 0
    if method in FITTED:
        recipe = ImagesRecipe(o.dataset, steps=steps, sample=min(5000, len(even)))
        unit = Protocol().rows(even, np.arange(len(even)))
        basis = learn_rows(recipe, torch.from_numpy(unit).to(o.device), RunSettings(device=o.device))
        fitted = partial(feed_forward, basis)
    embed(method, np.asarray(odd[:200], np.float32), (2,), 0, fitted)  # warm: compilation is not the method's time
    # A network that lies on a device is not sent to other processes; most of its time is that of the scores.
    with parallel_config("threading" if fitted else "loky"):
        found = summarise(Protocol(o.runs, methods=[method]).records(odd, y[1::2], o.jobs, fitted))
    return [row | ({"steps": steps} if fitted else {}) for row in found]


def kept(name: str, runs: int) -> list[dict[str, Any]]:
    """The rows of a file that are as measured today: all of a confirmed one, else those that are not of our code."""
    content = json.loads(results_file(name).read_text()) if results_file(name).is_file() else {"rows": []}
    ours = () if state(content) == "confirmed" else (*OURS, *FITTED)
    enough = [row for row in content["rows"] if row["runs"] >= runs or row["method"] in SLOW]
    return [row for row in enough if row["method"] not in ours]


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
        name, table = f"images_{path.stem}.json", read_table(path)
        known = {row["method"] for row in kept(name, o.runs)}
        for method in o.methods or [m for m in METHODS if m not in (*SLOW, *known)]:
            made = facts("clusters", o.device, o, peers=("umap-learn",))
            found = measure(np.asarray(table.features), np.asarray(table.labels), method, o)
            origin = {"commit": made["commit"], "device": made["device"]}
            rows = [row for row in kept(name, o.runs) if row["method"] != method]
            rows += [row | origin for row in plain(found)]
            rows.sort(key=lambda row: (row["k"], list(METHODS).index(row["method"])))
            about = {"table": path.stem, "rows": "odd", "count": len(table.features) // 2, "runs": o.runs}
            write(name, made | {"facts": about, "rows": rows})
        print(Images(kept(name, o.runs)).markdown(), flush=True)


if __name__ == "__main__":
    main()
