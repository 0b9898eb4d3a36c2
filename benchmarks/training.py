"""Cost and quality of learning one manifold; every comparison is made in one run on one machine.

    python -m benchmarks.training --prepare MESHES --data carry    first, where mesh libraries are
    python -m benchmarks.training [loss] [step] [shapes] [--data carry] [--steps 600]

    loss      textbook reconstruction loss, one-Cholesky form, expected loss: value, time, memory
    step      one training step of the paper's network: eager, bf16, CUDA graphs
    shapes    every shape of the data folder with one recipe, against the mesh oracle

`loss` and `step` time a built-in surface. `shapes` takes the npz files that `--prepare` writes, so
that the machine with the GPU needs no mesh library, and fails without them.
The table is printed last; the JSON goes to $OUT, or benchmarks/results.
"""

from __future__ import annotations

import argparse
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch

from benchmarks.direct import surface, textbook_errors
from benchmarks.record import best_device, clock, facts, peak, turns, write
from eigenprobe import geometry
from eigenprobe.probes.covariance import Covariance
from eigenprobe.probes.objective import expected_errors, first_mass, prefix_errors
from eigenprobe.smoothers import build_smoother
from eigenprobe.training import FitSettings, ProbeSettings, RunSettings, fit_network
from eigenprobe_lab.evaluation.fitted import SAMPLE_SEED, learn_shape
from eigenprobe_lab.evaluation.reports import grouped, markdown, mean_row
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.paper.published import NINE

SECTIONS = ("loss", "step", "shapes")
SURFACE = ProbeSettings(smoother={"dimension": 2})
COSTS = ("value", "best_ms", "median_ms", "peak_gib", "total_s")
TIMES = ("prepare", "seconds")


def measure(call: Callable[[], Any], device: torch.device, repeats: int) -> dict[str, Any]:
    """Median, least and most milliseconds, and the peak of memory above what was held before."""
    held = peak(call, device) / 1024
    row = turns({"call": call}, repeats, device)["call"]
    low, high = (1000 * seconds for seconds in row["range"])
    return {
        "best_ms": low,
        "median_ms": 1000 * row["seconds"],
        "range_ms": [low, high],
        "peak_gib": held,
    }


def loss(o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    points = torch.as_tensor(surface(o.n, o.seed), dtype=torch.float32, device=device)
    smoother = build_smoother(points.double(), "adaptive", dimension=2).to(dtype=torch.float32)
    g = torch.Generator(device).manual_seed(0)
    probes = smoother.power(
        12**0.5 * (torch.rand(len(points), o.m, generator=g, device=device) - 0.5), o.smoothing
    )  # of variance one, as the covariance takes them
    covariance = Covariance(smoother, {2 * o.smoothing: 1.0})
    dense = covariance.dense()
    start = torch.linalg.qr(torch.randn(len(points), o.k, generator=g, device=device)).Q
    start[:, 0] = start[:, 0].abs() + 0.01

    def run(kind: str) -> float:
        q = start.clone().requires_grad_()
        mass = first_mass(q).float()
        if kind == "textbook":
            value = textbook_errors(q, probes, mass).mean()
        elif kind == "one-Cholesky":
            value = prefix_errors(q, probes, mass).mean()
        else:
            apply = dense.apply if kind == "expected, dense" else covariance.apply
            value = expected_errors(q, apply, dense.trace(), mass).mean()
        value.backward()
        return float(value.detach())

    rows = []
    for kind in ("textbook", "one-Cholesky", "expected, sparse", "expected, dense"):
        try:
            facts = {
                "loss": kind,
                "value": run(kind),
                **measure(lambda kind=kind: run(kind), device, o.repeats),
            }
        except torch.OutOfMemoryError:
            facts = {"loss": kind, "error": "out of memory"}
        rows.append(facts)
    probing = measure(lambda: smoother.power(probes, o.smoothing), device, o.repeats)
    rows.append({"loss": f"drawing {o.m} probes, {o.smoothing} steps", **probing})
    return rows


def step(o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    points = torch.as_tensor(surface(2 * o.n, o.seed), dtype=torch.float32, device=device)
    base = settings(o, resamplings=2)
    modes = [("32", "none")]
    if device.type == "cuda":
        modes += [("bf16", "none"), ("bf16", "graph")]
    rows = []
    for precision, accelerate in modes:
        name = f"{accelerate if accelerate != 'none' else 'eager'}, {precision}"
        try:
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            timer = Steps(device)
            run = RunSettings(flags={"callbacks": [timer]})
            chosen = replace(base, precision=precision, accelerate=accelerate, steps=o.timed)
            start = clock(device)
            fit_network(points, o.k, settings=chosen, run=run)
            facts = {"step": name, "median_ms": timer.median(), "total_s": clock(device) - start}
            if device.type == "cuda":
                facts["peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        except Exception as error:  # one mode that a machine cannot run must not hide the others
            facts = {"step": name, "error": f"{type(error).__name__}: {error}"[:200]}
        rows.append(facts)
    return rows


class Steps(pl.Callback):
    """Milliseconds per step, as the mean of blocks, so that the clock's own synchronisation does
    not count.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.block, self.marks = device, 2 if device.type == "cpu" else 10, []

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step % self.block == 0:
            self.marks.append(clock(self.device))

    def median(self) -> float:
        blocks = np.diff(self.marks)
        return (
            float(1000 * np.median(blocks[len(blocks) // 3 :]) / self.block)
            if len(blocks)
            else float("nan")
        )


def settings(o: argparse.Namespace, **changes: Any) -> FitSettings:
    base = FitSettings(
        preset=o.preset,
        probes=SURFACE,
        steps=o.steps,
        resamplings=o.resamplings,
        size=o.n,
        seed=o.seed,
    )
    return replace(base, **changes)


def learn(sample: Sample, o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    run = RunSettings(device=str(device))
    rows, _ = learn_shape(sample, o.k, settings(o), run)
    if device.type == "cuda":
        rows[0]["peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return rows


def shapes(o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    rows = []
    for sample in load(o.data, o.names, o.k):
        try:
            rows += learn(sample, o, device)
        except Exception as error:
            traceback.print_exc()
            rows.append(
                {
                    "shape": sample.shape.name,
                    "method": "error",
                    "error": f"{type(error).__name__}: {error}",
                }
            )
        print(f"  {sample.shape.name} done", flush=True)
    return rows


def prepare(meshes: Path, folder: Path, names: list[str], n: int, k: int) -> None:
    """One npz per shape, as `Sample.save` writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in geometry.find_shapes([meshes]):
        if path.stem in (names or NINE):
            Sample.of_file(path, n, k, SAMPLE_SEED).save(folder / f"{path.stem}.npz")


def load(folder: Path, names: list[str], k: int) -> list[Sample]:
    """The samples of a folder; a measurement without its data fails."""
    files = [folder / f"{name}.npz" for name in names] if names else sorted(folder.glob("*.npz"))
    if not files or not all(path.is_file() for path in files):
        raise SystemExit(
            f"benchmarks.training: no samples in {folder}: "
            f"run it with --prepare MESHES --data {folder}"
        )
    return [Sample.load(path, k) for path in files]


def table(results: dict[str, Any]) -> str:
    timings = [
        {
            "what": row.get("loss") or row.get("step"),
            **{key: row.get(key) for key in (*COSTS, "error")},
        }
        for row in results.get("loss", []) + results.get("step", [])
    ]
    learned = results.get("shapes", [])
    good = [row for row in learned if "error" not in row]
    means = [
        mean_row(rows, method=method, shapes=len(rows))
        for (method,), rows in grouped(good, "method").items()
    ]
    columns = [
        "method",
        "shapes",
        "cosine_10",
        "cosine_20",
        "cosine_50",
        "discrepancy",
        "gap",
        *TIMES,
    ]
    failed = [f"{row['shape']}: {row['error']}" for row in learned if "error" in row]
    parts = [
        markdown(timings) if timings else "",
        markdown(means, columns) if means else "",
        *failed,
    ]
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--data", type=Path, default=Path("carry"))
    parser.add_argument(
        "--prepare", type=Path, metavar="MESHES", help="write the npz files of --data and stop"
    )
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--preset", default="overfit")
    counts = {"n": 4000, "k": 50, "m": 1500, "smoothing": 40, "resamplings": 24, "steps": 600}
    for name, value in (counts | {"seed": 0}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--repeats", type=int, help="of a loss (20; on a processor 1)")
    parser.add_argument("--timed", type=int, help="steps (150; on a processor 8)")
    o = parser.parse_args()
    if unknown := set(o.sections) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}")
    if o.prepare:
        return prepare(o.prepare, o.data, o.names, o.n, o.k)
    warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support.*")
    device = torch.device(o.device)
    o.repeats = o.repeats or (1 if device.type == "cpu" else 20)
    o.timed = o.timed or (8 if device.type == "cpu" else 150)
    sections = o.sections or list(SECTIONS)
    if "shapes" in sections:
        load(o.data, o.names, o.k)  # before anything is timed
    results = facts("training", device, o, seed=o.seed)
    for section in sections:
        start = time.perf_counter()
        try:
            results[section] = globals()[section](o, device)
        except Exception as error:
            traceback.print_exc()
            results[f"{section}_error"] = f"{type(error).__name__}: {error}"
        print(f"{section}: {time.perf_counter() - start:.1f} s", flush=True)
        name = "training_shapes" if o.sections == ["shapes"] else "training"
        write(f"{name}_{device.type}.json", results)  # a killed run leaves some
    print(table(results))


if __name__ == "__main__":
    main()
