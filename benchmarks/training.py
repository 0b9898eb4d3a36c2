"""Cost and quality of learning one manifold; every comparison is made in one run on one machine.

    python -m benchmarks.training [loss] [step] [quality] [shapes] [--data carry] [--device auto] [--steps 600] ...

    loss      textbook reconstruction loss, one-Cholesky form, expected loss: value, forward + backward time, memory
    step      one training step of the paper's network: eager float32, eager bf16, CUDA graphs, torch.compile
    quality   seconds until the loss on held-out resamplings of one shape is within 1 % of the closed form
    shapes    every shape of the data folder with one recipe: cosines and eigenvalues against the mesh oracle

Shapes come from npz files (benchmarks/prepare_shapes.py); without any, a procedural one is made.  The table is printed
last; the JSON goes to $OUT, or benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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

from eigenprobe.decomposition import decompose
from eigenprobe.paper.overfit import Reference, learn_shape
from eigenprobe.probes.covariance import Covariance
from eigenprobe.probes.objective import expected_errors, first_mass, prefix_errors
from eigenprobe.smoothers.smoother import build_smoother
from eigenprobe.training import FitSettings, ProbeSettings, RunSettings, fit_manifold

SECTIONS = ("loss", "step", "quality", "shapes")
SURFACE = ProbeSettings(smoother={"dimension": 2})


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measure(call: Callable[[], Any], device: torch.device, repeats: int) -> dict[str, float]:
    """Best and median milliseconds, and the peak of memory above what was held before (CUDA)."""
    call()
    held = 0
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
    times = []
    for _ in range(repeats):
        start = clock(device)
        call()
        times.append(1000 * (clock(device) - start))
    peak = torch.cuda.max_memory_allocated(device) - held if device.type == "cuda" else 0
    return {"best_ms": min(times), "median_ms": float(np.median(times)), "peak_gib": peak / 2**30}


def textbook(q: torch.Tensor, f: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """The paper's algorithm as written: K masked systems solved at once, and the (K, n, m) tensor of projections."""
    k = q.shape[1]
    weighted = q * mass[:, None]
    gram, right = q.T @ weighted, weighted.T @ f
    keep = torch.ones(k, k, dtype=q.dtype, device=q.device).tril()  # row k-1: the first k columns
    systems = gram * keep[:, :, None] * keep[:, None, :] + torch.diag_embed(1 - keep)
    coefficients = torch.linalg.solve(systems, right * keep[:, :, None])  # (K, K, m)
    return (f - q @ coefficients).square().sum(-2)  # (K, m)


def loss(data: dict[str, Any], o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    points = data["points"].to(device)
    smoother = build_smoother(points.double(), "adaptive", dimension=2).to(dtype=torch.float32)
    g = torch.Generator(device).manual_seed(0)
    probes = smoother.power(2 * torch.rand(len(points), o.m, generator=g, device=device) - 1, o.smoothing)
    covariance = Covariance(smoother, steps=o.smoothing, variance=1 / 3)
    dense = covariance.dense()
    start = torch.linalg.qr(torch.randn(len(points), o.k, generator=g, device=device)).Q
    start[:, 0] = start[:, 0].abs() + 0.01

    def run(kind: str) -> float:
        q = start.clone().requires_grad_()
        mass = first_mass(q).float()
        if kind == "textbook":
            value = textbook(q, probes, mass).mean()
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
            facts = {"loss": kind, "value": run(kind), **measure(lambda kind=kind: run(kind), device, o.repeats)}
        except torch.OutOfMemoryError:
            facts = {"loss": kind, "error": "out of memory"}
        rows.append(facts)
    probing = measure(lambda: smoother.power(probes, o.smoothing), device, o.repeats)
    rows.append({"loss": f"drawing {o.m} probes, {o.smoothing} steps", **probing})
    return rows


def step(data: dict[str, Any], o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    points = data["vertices"].to(device)
    base = settings(o, held_out=0, reference=False, resamplings=2)
    modes = [("32", "none"), ("bf16", "none")]
    if device.type == "cuda":
        modes += [("bf16", "graph")] + ([("bf16", "compile")] if o.compile else [])
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
            fit_manifold(points, o.k, chosen, run)
            facts = {"step": name, "median_ms": timer.median(), "total_s": clock(device) - start}
            if device.type == "cuda":
                facts["peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        except Exception as error:  # one mode that a machine cannot run must not hide the others
            facts = {"step": name, "error": f"{type(error).__name__}: {error}"[:200]}
        rows.append(facts)
    return rows


class Steps(pl.Callback):
    """Milliseconds a step, as the mean of blocks, so that the clock's own synchronisation does not count."""

    def __init__(self, device: torch.device, block: int = 10) -> None:
        self.device, self.block, self.marks = device, block, []

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step % self.block == 0:
            self.marks.append(clock(self.device))

    def median(self) -> float:
        blocks = np.diff(self.marks)
        return float(1000 * np.median(blocks[len(blocks) // 3 :]) / self.block) if len(blocks) else float("nan")


def settings(o: argparse.Namespace, **changes: Any) -> FitSettings:
    base = FitSettings(
        preset=o.preset,
        probes=SURFACE,
        steps=o.steps,
        rate=o.rate,
        clip=o.clip,
        resamplings=o.resamplings,
        size=o.n,
        held_out=o.held_out,
        seed=o.seed,
    )
    return replace(base, **changes)


def quality(data: dict[str, Any], o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    return [learn(data, o, device)[0]]


def learn(data: dict[str, Any], o: argparse.Namespace, device: torch.device) -> tuple[dict[str, Any], Any]:
    run = RunSettings(average=o.average)
    row, fit = learn_shape(data["shape"], o.k, settings(o), device=device, run=run, validate_every=o.validate_every)
    if device.type == "cuda":
        row["peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return row, fit


def shapes(clouds: list[dict[str, Any]], o: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    rows = []
    for data in clouds:
        shape = data["shape"]
        try:
            row, fit = learn(data, o, device)
            row.pop("history")
            if o.whole:
                whole = fit.basis(data["vertices"].to(device), ritz=True)
                row["all vertices"] = shape.agreement(whole.vectors[data["indices"].to(device)], whole.eigenvalues)
        except Exception as error:
            traceback.print_exc()
            row = {"shape": shape.name, "error": f"{type(error).__name__}: {error}"[:200]}
        rows.append(row)
        print(f"  {json.dumps(rounded(row))}", flush=True)
    return rows


def load(folder: Path, names: list[str], n: int, k: int) -> list[dict[str, Any]]:
    files = [folder / f"{name}.npz" for name in names] if names else sorted(folder.glob("*.npz"))
    shapes = []
    for path in files:
        with np.load(path) as z:
            shapes.append(Reference(path.stem, z["vertices"], z["indices"][:n], z["vectors"][:n], z["eigenvalues"]))
    if not shapes:
        shapes.append(procedural(2 * n, n, k))
    clouds = []
    for shape in shapes:
        vertices, indices = torch.from_numpy(shape.vertices), torch.from_numpy(shape.indices)
        clouds.append({"shape": shape, "vertices": vertices, "indices": indices, "points": vertices[indices]})
    return clouds


def procedural(count: int, n: int, k: int) -> Reference:
    """A sphere with six smooth bumps; its oracle is the closed form on all points."""
    i = torch.arange(count) + 0.5
    height, angle = 1 - 2 * i / count, np.pi * (1 + 5**0.5) * i
    ring = (1 - height.square()).sqrt()
    x = torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)
    directions = torch.nn.functional.normalize(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    bumps = (torch.exp(6 * (x @ directions.T - 1)) * torch.tensor([0.9, -0.4, 0.7, 0.5, -0.3, 1.0])).sum(1)
    points = x * (1 + bumps)[:, None] * torch.tensor([1.0, 0.8, 0.6])
    indices = torch.randperm(count, generator=torch.Generator().manual_seed(1))[:n].numpy()
    best = decompose(points.numpy(), k, dimension=2)
    return Reference("procedural", points.numpy(), indices, best.vectors[indices], best.eigenvalues)


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def table(results: dict[str, Any]) -> str:
    lines = []
    for row in results.get("loss", []) + results.get("step", []):
        name = row.get("loss") or row.get("step")
        if "error" in row:
            lines.append(f"{name:34s} {row['error']}")
        else:
            value = f"value {row['value']:.6g}" if "value" in row else ""
            lines.append(f"{name:34s} {row['median_ms']:9.2f} ms {row.get('peak_gib', 0):8.3f} GiB  {value}")
    for row in results.get("quality", []):
        spent, seconds = row["seconds"], row["seconds_to_1_percent"]
        lines.append(
            f"within 1 % of the closed form on held-out samples ({row['shape']}): {rounded(seconds)} s, "
            f"{row['steps_to_1_percent']} steps; {row['steps']} steps {spent['train']:.2f} s, "
            f"gap {row.get('gap', float('nan')):.4f}, preparation {spent['prepare']:.2f} s"
        )
    good = [row for row in results.get("shapes", []) if "error" not in row]
    for kind in ("feedforward", "ritz", "all vertices", "closed form", "paper"):
        kept = [row[kind] for row in good if row.get(kind)]
        if kept:
            means = {key: float(np.mean([row[key] for row in kept])) for key in kept[0]}
            lines.append(f"{kind:14s} over {len(kept)} shapes: " + ", ".join(f"{k} {v:.4f}" for k, v in means.items()))
    if good:
        seconds = [row["seconds_to_1_percent"] for row in good if row["seconds_to_1_percent"] is not None]
        lines.append(
            f"shapes within 1 %: {len(seconds)} of {len(good)}, at most {max(seconds, default=float('nan')):.2f} s; "
            f"training {np.mean([row['seconds']['train'] for row in good]):.2f} s, "
            f"preparation {np.mean([row['seconds']['prepare'] for row in good]):.2f} s a shape"
        )
    lines += [f"{row['shape']}: {row['error']}" for row in results.get("shapes", []) if "error" in row]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--data", type=Path, default=Path("carry"))
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", default="overfit")
    for name, value in {
        "n": 4000,
        "k": 50,
        "m": 1500,
        "smoothing": 40,
        "resamplings": 24,
        "held_out": 2,
        "steps": 600,
    }.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    for name, value in {"repeats": 20, "timed": 150, "validate_every": 25, "seed": 0}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=0.01)
    parser.add_argument("--average", type=float, default=0.0)
    parser.add_argument("--whole", action="store_true", help="evaluate at all vertices too")
    parser.add_argument("--compile", action="store_true", help="time torch.compile too")
    o = parser.parse_args()
    if unknown := set(o.sections) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support.*")
    device = torch.device(o.device)
    clouds = load(o.data, o.names, o.n, o.k)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "torch": torch.__version__,
        "options": {key: str(value) if isinstance(value, Path) else value for key, value in vars(o).items()},
    }
    folder = Path(os.environ.get("OUT") or "benchmarks/results")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / ("training.json" if device.type == "cuda" else "training_cpu.json")
    for section in o.sections or SECTIONS:
        start = time.perf_counter()
        try:
            if section == "shapes":
                results[section] = shapes(clouds, o, device)
            else:
                results[section] = globals()[section](clouds[0], o, device)
        except Exception as error:
            traceback.print_exc()
            results[f"{section}_error"] = f"{type(error).__name__}: {error}"
        print(f"{section}: {time.perf_counter() - start:.1f} s", flush=True)
        target.write_text(
            json.dumps(rounded(results), indent=1)
        )  # after every section: a killed run leaves what it has
    print(table(results))


if __name__ == "__main__":
    main()
