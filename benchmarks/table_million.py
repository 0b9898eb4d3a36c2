"""Seconds and memory of a map of a million rows on a GPU.

    python -m benchmarks.table_million [--rows 1000000] [--columns 128] [--device cuda]

Two hundred Gaussian groups; a fit with vectors and a map in the plane, after one of 20,000 rows
that warms up. Prints seconds, the peak memory of the device and the share of rows whose nearest row
on the map is of their group.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from eigenprobe import Eigenmaps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = rng.integers(200, size=options.rows)
    centres = rng.standard_normal((200, options.columns), np.float32)
    x = rng.standard_normal((options.rows, options.columns), np.float32) + centres[labels]
    Eigenmaps(2, random_state=0, device=options.device).fit(x[:20_000])
    if cuda := options.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    model = Eigenmaps(2, random_state=0, device=options.device, verbose=True).fit(x)
    print(f"{options.rows} rows: {time.perf_counter() - start:.1f} s")
    if cuda:
        print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    from scipy.spatial import cKDTree

    some = rng.permutation(options.rows)[:2000]
    near = cKDTree(model.embedding_).query(model.embedding_[some], 2)[1][:, 1]
    print(f"nearest on the map of the same group: {(labels[near] == labels[some]).mean():.3f}")


if __name__ == "__main__":
    main()
