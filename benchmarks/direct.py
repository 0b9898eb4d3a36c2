"""Time and peak memory of `direct` beside its peers, and of the loss beside the textbook form. One run, one table each.

    python -m benchmarks.direct                                   4k, 20k and 100k points in R^3, 20k in R^384, the loss
    python -m benchmarks.direct --device cuda --sizes 100000 1000000
    python -m benchmarks.direct --sizes 4000 --mesh shape.obj     on independent random samples of a mesh

Every cell is a process of its own (so that peak memory is its own), warmed up on a small cloud, then the least of
`--repeats` runs; methods take turns, so that what else the machine does hits all of them. Peers that are not installed
are left out. The result goes to $OUT or benchmarks/results as JSON, with the command, the date and the device.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from benchmarks.record import clock, facts, write

K = 50
ROOT = Path(__file__).resolve().parent.parent
METHODS = {"direct": "eigenprobe", "robust_laplacian": "robust_laplacian", "spectral_embedding": "sklearn"}


def surface(n: int, seed: int, mesh: str | None = None) -> np.ndarray:
    """Independent area-uniform random points on a mesh, by default a bumpy sphere."""
    rng = np.random.default_rng(seed)
    if mesh is not None:
        shape = ep.geometry.load(mesh)
        return np.asarray(ep.geometry.sample_surface(shape, n, seed=seed))
    u, v = np.meshgrid(np.linspace(0, np.pi, 301), np.linspace(0, 2 * np.pi, 601), indexing="ij")
    radius = 1 + 0.25 * np.sin(5 * u) * np.cos(4 * v) * np.sin(u) ** 2 + 0.3 * np.cos(2 * u)
    grid = np.stack([np.sin(u) * np.cos(v), np.sin(u) * np.sin(v), np.cos(u)], -1) * radius[..., None]
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[:-1, 1:], grid[1:, 1:]
    triangles = np.concatenate([np.stack(t, 2).reshape(-1, 3, 3) for t in ((a, b, c), (d, c, b))])
    sides = triangles[:, 1:] - triangles[:, :1]
    area = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
    chosen = rng.choice(len(area), n, p=area / area.sum())
    s, t = np.sqrt(rng.random((n, 1))), rng.random((n, 1))
    p, q, r = triangles[chosen].transpose(1, 0, 2)
    return (1 - s) * p + s * (1 - t) * q + s * t * r


def embeddings(n: int, d: int, seed: int) -> np.ndarray:
    """Twenty clusters, each a noisy five-dimensional sheet in R^d."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 20, n)
    sheets = rng.normal(size=(20, 5, d)) / np.sqrt(d)
    centres = 2.0 * rng.normal(size=(20, d)) / np.sqrt(d)
    flat = np.einsum("nj,njd->nd", rng.normal(size=(n, 5)), sheets[label])
    return (centres[label] + flat + 0.3 * rng.normal(size=(n, d)) / np.sqrt(d)).astype(np.float32)


def direct(points: torch.Tensor, stages: dict[str, float]) -> None:
    """The whole of ``decompose(points, k=50, method="direct")``."""
    start = clock(points.device)
    basis = ep.decompose(points, k=K, method="direct")
    stages["total"] = clock(points.device) - start
    assert basis.eigenvalues.shape == (K,)


def staged(points: torch.Tensor, stages: dict[str, float]) -> None:
    """The same in three steps, for the profile."""
    from eigenprobe.eigen import solve
    from eigenprobe.graph.arranged import arrange
    from eigenprobe.smoothers import NEIGHBOURS, build_smoother

    t0 = clock(points.device)
    graph = arrange(points.double(), NEIGHBOURS["adaptive"], K, "euclidean").graph
    t1 = clock(points.device)
    smoother = build_smoother(graph)
    t2 = clock(points.device)
    solve(smoother, K)
    t3 = clock(points.device)
    stages.update(graph=t1 - t0, smoother=t2 - t1, solve=t3 - t2)


def robust_laplacian(points: torch.Tensor, stages: dict[str, float]) -> None:
    """The tufted Laplacian of the cloud and shift-invert Lanczos, as its documentation does."""
    import robust_laplacian as peer
    from scipy.sparse.linalg import eigsh

    start = time.perf_counter()
    laplacian, mass = peer.point_cloud_laplacian(points.numpy())
    eigsh(laplacian, K, mass, sigma=-1e-8)
    stages["total"] = time.perf_counter() - start


def spectral_embedding(points: torch.Tensor, stages: dict[str, float]) -> None:
    """scikit-learn with its defaults for a nearest-neighbour graph."""
    from sklearn.manifold import SpectralEmbedding

    start = time.perf_counter()
    SpectralEmbedding(K, affinity="nearest_neighbors", n_neighbors=15, n_jobs=-1).fit(points.numpy())
    stages["total"] = time.perf_counter() - start


def resident() -> float:
    """Peak resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(job: dict[str, Any]) -> dict[str, Any]:
    """One cell of a table, in a process of its own."""
    warnings.simplefilter("ignore")

    points = torch.from_numpy(np.load(job["file"])).to(job["device"])
    method: Callable[[torch.Tensor, dict[str, float]], None] = globals()[job["method"]]
    few = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:1000].to(points.device)]
    for _ in range(2):
        method(few, {})
    if job["device"] != "cpu":
        torch.cuda.reset_peak_memory_stats()
    before, runs, busy, profile = resident(), [], [], {}
    for _ in range(job["repeats"]):
        stages: dict[str, float] = {}
        start = time.process_time()
        method(points, stages)
        runs.append(stages["total"])
        busy.append(time.process_time() - start)
    host = resident() - before
    if job["method"] == "direct":
        staged(points, profile)
    memory = torch.cuda.max_memory_allocated() / 2**20 if job["device"] != "cpu" else host
    return {
        "seconds": min(runs),
        "all": runs,
        "cpu": min(busy),
        "MiB": memory,
        **({"stages": profile} if profile else {}),
    }


def textbook_errors(q: torch.Tensor, f: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """The paper's algorithm as written: K masked systems solved at once, and the (K, n, m) tensor of projections."""
    weighted = q * mass[:, None]
    gram, right = q.T @ weighted, weighted.T @ f
    keep = torch.ones_like(gram).tril()  # row k-1: the first k columns
    systems = gram * keep[:, :, None] * keep[:, None, :] + torch.diag_embed(1 - keep)
    coefficients = torch.linalg.solve(systems, right * keep[:, :, None])  # (K, K, m)
    return (f - q @ coefficients).square().sum(-2)  # (K, m)


def one_cholesky_errors(q: torch.Tensor, f: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    from eigenprobe.probes.objective import prefix_errors

    return prefix_errors(q, f, mass)


def loss(job: dict[str, Any]) -> dict[str, Any]:
    """Forward, and forward with gradient, of the hybrid loss at n=4000, K=50, m=1500."""
    n, m, device = 4000, 1500, job["device"]
    generator = torch.Generator().manual_seed(job["seed"])
    errors = globals()[job["method"]]
    f = torch.randn((n, m), generator=generator).to(device)
    raw = torch.linalg.qr(torch.randn((n, K), generator=generator))[0].to(device)
    mass = torch.full((n,), 1 / n, device=device) * torch.linspace(0.5, 1.5, n, device=device)
    out: dict[str, Any] = {}
    for name, gradient in (("forward", False), ("gradient", True)):
        q = raw.clone().requires_grad_(gradient)
        if device != "cpu":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        base, runs = (torch.cuda.memory_allocated() / 2**20 if device != "cpu" else resident()), []
        for _ in range(10 if device != "cpu" else 3):
            start = clock(device)
            value = errors(q, f, mass).mean()
            if gradient:
                torch.autograd.grad(value, q)
            runs.append(clock(device) - start)
        peak = torch.cuda.max_memory_allocated() / 2**20 if device != "cpu" else resident()
        out[name] = {"seconds": min(runs), "MiB": peak - base, "value": float(value.detach())}
    return out


def spawn(kind: str, job: dict[str, Any], limit: float) -> dict[str, Any]:
    """Run one cell; what went wrong is part of the table."""
    command = [sys.executable, "-m", "benchmarks.direct", "--job", json.dumps({"kind": kind, **job})]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {limit:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def table(n: int, d: int, options: argparse.Namespace) -> dict[str, Any]:
    present = [name for name, module in METHODS.items() if find_spec(module) is not None]
    if options.device != "cpu" or d != 3:
        present = [name for name in present if name != "robust_laplacian"]
    skipped = [name for name in options.skip if name in present]
    rows: dict[str, Any] = {}
    file = Path(tempfile.mkdtemp(), "cloud.npy")
    np.save(file, surface(n, options.seed, options.mesh) if d == 3 else embeddings(n, d, options.seed))
    for turn in range(options.turns):
        for name in present:
            if name in skipped or "failed" in rows.get(name, {}):
                continue
            device = options.device if name == "direct" else "cpu"
            job = {"method": name, "file": str(file), "device": device, "repeats": options.repeats}
            row = spawn("work", job, options.limit)
            if turn and "failed" not in row:
                best = min(rows[name], row, key=lambda r: r["seconds"])
                least, most = min(rows[name]["cpu"], row["cpu"]), max(rows[name]["MiB"], row["MiB"])
                row = {**best, "all": rows[name]["all"] + row["all"], "cpu": least, "MiB": most}
            rows[name] = row
    shutil.rmtree(file.parent)
    ours, peer = rows.get("direct", {}), rows.get("robust_laplacian", {})
    print(f"\nn = {n}, R^{d}, K = {K}, {options.device}")
    for name, row in rows.items():
        text = row.get("failed") or f"{row['seconds']:9.3f} s {row['cpu']:9.3f} s of CPU {row['MiB']:9.0f} MiB"
        stages = "  ".join(f"{stage} {seconds:.3f}" for stage, seconds in row.get("stages", {}).items())
        print(f"  {name:20} {text}   {stages}", flush=True)
    result: dict[str, Any] = {"n": n, "d": d, "rows": rows}
    if "seconds" in ours and "seconds" in peer:
        result["ratio"] = {key: ours[key] / max(peer[key], 1e-9) for key in ("seconds", "cpu", "MiB")}
        print(
            "  direct / robust_laplacian: " + ", ".join(f"{key} {value:.2f}" for key, value in result["ratio"].items())
        )
    return result


def loss_table(options: argparse.Namespace) -> dict[str, Any]:
    rows = {}
    for name in ("textbook_errors", "one_cholesky_errors"):
        rows[name] = spawn("loss", {"method": name, "device": options.device, "seed": options.seed}, options.limit)
    print(f"\nloss at n = 4000, K = {K}, m = 1500, {options.device}")
    for name, row in rows.items():
        for part in ("forward", "gradient"):
            cell = row.get(part)
            text = row.get("failed") if cell is None else f"{cell['seconds'] * 1e3:9.2f} ms {cell['MiB']:9.0f} MiB"
            print(f"  {name:20} {part:9} {text}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[4000, 20_000, 100_000], help="clouds in R^3")
    parser.add_argument("--embeddings", type=int, nargs="*", default=[20_000], help="clouds in R^384")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mesh", help="a mesh to sample instead of the built-in surface")
    parser.add_argument("--skip", nargs="*", default=[], help="methods to leave out")
    parser.add_argument("--repeats", type=int, default=2, help="runs in a process")
    parser.add_argument("--turns", type=int, default=2, help="processes per method")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a process may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job = json.loads(options.job)
        print(json.dumps({"work": work, "loss": loss}[job.pop("kind")](job)))
        return
    result = facts("direct", options.device) | {
        "threads": {name: os.environ[name] for name in sorted(os.environ) if name.endswith("_NUM_THREADS")},
        "tables": [table(n, 3, options) for n in options.sizes] + [table(n, 384, options) for n in options.embeddings],
        "loss": loss_table(options),
    }
    write(f"direct_{options.device}.json", result)


if __name__ == "__main__":
    main()
