"""Time and peak memory of `direct` beside its peers, and of the loss beside the textbook form. One
run, one table each.

    python -m benchmarks.direct     4k, 20k and 100k points in R^3, 20k in R^384, the loss
    python -m benchmarks.direct --device cuda --sizes 100000 1000000
    python -m benchmarks.direct --sizes 4000 --mesh shape.obj     on random samples of a mesh

Times are taken in one process, the methods in turns, after a round that warms up: median, range,
and ratios turn by turn. Memory is measured in a process of its own for each method, as the kernel's
high-water mark above what was held before the call (on a device by its own count, without peers).
Peers that are not installed are left out; one that takes longer than ``--limit`` is not timed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from benchmarks.record import clock, facts, peak, ratios, spread, turns, write

K = 50
BLOCK = 1 << 14  # rows that are made at once
ROUNDS = 60.0  # seconds that the rounds of a table may take, two rounds at least
ROOT = Path(__file__).resolve().parent.parent
METHODS = {
    "direct": "eigenprobe",
    "robust_laplacian": "robust_laplacian",
    "spectral_embedding": "sklearn",
}


def surface(n: int, seed: int, mesh: str | None = None) -> np.ndarray:
    """Independent area-uniform random points on a mesh, by default a bumpy sphere."""
    rng = np.random.default_rng(seed)
    if mesh is not None:
        shape = ep.geometry.load(mesh)
        return np.asarray(ep.geometry.sample_surface(shape, n, seed=seed))
    u, v = np.meshgrid(np.linspace(0, np.pi, 301), np.linspace(0, 2 * np.pi, 601), indexing="ij")
    radius = 1 + 0.25 * np.sin(5 * u) * np.cos(4 * v) * np.sin(u) ** 2 + 0.3 * np.cos(2 * u)
    grid = (
        np.stack([np.sin(u) * np.cos(v), np.sin(u) * np.sin(v), np.cos(u)], -1) * radius[..., None]
    )
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
    sheets, centres = (
        rng.standard_normal((20, count, d), dtype=np.float32) / d**0.5 for count in (5, 1)
    )
    within = rng.standard_normal((n, 5), dtype=np.float32)
    made = rng.standard_normal((n, d), dtype=np.float32)
    for start in range(0, n, BLOCK):
        part, block = label[start : start + BLOCK], made[start : start + BLOCK]
        block *= 0.3 / d**0.5
        for number in range(20):
            rows = np.flatnonzero(part == number)
            block[rows] += (
                2 * centres[number] + within[start : start + BLOCK][rows] @ sheets[number]
            )
    return made


def direct(points: torch.Tensor) -> None:
    """The whole of ``decompose(points, k=50, method="direct")``."""
    assert ep.decompose(points, k=K, method="direct").eigenvalues.shape == (K,)


def staged(points: torch.Tensor) -> dict[str, float]:
    """Seconds of the same in three steps, for the profile."""
    from eigenprobe.cloud.cloud import arrange
    from eigenprobe.eigen import solve
    from eigenprobe.host.threads import limited_threads
    from eigenprobe.smoothers import NEIGHBOURS, build_smoother

    with limited_threads(points.device, len(points)):
        t0 = clock(points.device)
        graph = arrange(points.double(), NEIGHBOURS["adaptive"], K, "euclidean").graph
        t1 = clock(points.device)
        smoother = build_smoother(graph)
        t2 = clock(points.device)
        solve(smoother, K)
        t3 = clock(points.device)
    return {"graph": t1 - t0, "smoother": t2 - t1, "solve": t3 - t2}


def robust_laplacian(points: torch.Tensor) -> None:
    """The tufted Laplacian of the cloud and shift-invert Lanczos, as its documentation does."""
    import robust_laplacian as peer
    from scipy.sparse.linalg import eigsh

    laplacian, mass = peer.point_cloud_laplacian(points.numpy())
    eigsh(laplacian, K, mass, sigma=-1e-8)


def spectral_embedding(points: torch.Tensor) -> None:
    """scikit-learn with its defaults for a nearest-neighbour graph."""
    from sklearn.manifold import SpectralEmbedding

    SpectralEmbedding(K, affinity="nearest_neighbors", n_neighbors=15, n_jobs=-1).fit(
        points.numpy()
    )


def load(file: str, method: str, device: str) -> torch.Tensor:
    """The cloud where the method wants it; peers run on the host."""
    return torch.from_numpy(np.load(file)).to(device if method == "direct" else "cpu")


def memory(job: dict[str, Any]) -> dict[str, float]:
    """Peak memory of one method, in a process of its own; also how long the call took, for the
    limit.
    """
    method, points = globals()[job["method"]], load(job["file"], job["method"], job["device"])
    few = points[
        torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:1000].to(
            points.device
        )
    ]
    method(few)
    start = clock(points.device)
    used = peak(lambda: method(points), points.device)
    return {"MiB": used, "once": clock(points.device) - start}


def textbook_errors(q: torch.Tensor, f: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """The paper's algorithm as written: K masked systems solved at once, and the (K, n, m) tensor
    of projections.
    """
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
    """Peak memory of forward, and of forward with gradient, of the hybrid loss at n=4000, K=50,
    m=1500.
    """
    return {
        name: {"MiB": peak(call, job["device"])}
        for name, call in passes(globals()[job["method"]], job["device"], job["seed"]).items()
    }


def passes(
    errors: Callable[..., torch.Tensor], device: str, seed: int
) -> dict[str, Callable[[], Any]]:
    """Forward, and forward with gradient, ready to be called."""
    n, m = 4000, 1500
    generator = torch.Generator().manual_seed(seed)
    f = torch.randn((n, m), generator=generator).to(device)
    q = torch.linalg.qr(torch.randn((n, K), generator=generator))[0].to(device)
    learned = q.clone().requires_grad_()
    mass = torch.full((n,), 1 / n, device=device) * torch.linspace(0.5, 1.5, n, device=device)
    return {
        "forward": lambda: errors(q, f, mass).mean(),
        "gradient": lambda: torch.autograd.grad(errors(learned, f, mass).mean(), learned),
    }


def spawn(kind: str, job: dict[str, Any], limit: float) -> dict[str, Any]:
    """Run one cell, on a processor in a process of its own; what went wrong is part of the
    table.
    """
    if job["device"] != "cpu":
        return JOBS[kind](job)
    command = [
        sys.executable,
        "-m",
        "benchmarks.direct",
        "--job",
        json.dumps({"kind": kind, **job}),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {limit:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


JOBS = {"memory": memory, "loss": loss}


def table(n: int, d: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory of every method on one cloud."""
    left = {*options.skip, *([] if d == 3 else ["robust_laplacian"])}
    left |= (
        set() if options.device == "cpu" else set(METHODS) - {"direct"}
    )  # peers run on the host: in its own table
    present = [
        name
        for name, module in METHODS.items()
        if find_spec(module) is not None and name not in left
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/cloud.npy"
        np.save(
            file,
            surface(n, options.seed, options.mesh) if d == 3 else embeddings(n, d, options.seed),
        )
        jobs = {name: {"method": name, "file": file, "device": options.device} for name in present}
        rows: dict[str, Any] = {
            name: spawn("memory", job, options.limit) for name, job in jobs.items()
        }
        kept = [name for name in present if "failed" not in rows[name]]
        clouds = {name: load(file, name, options.device) for name in kept}
        calls = {name: partial(globals()[name], clouds[name]) for name in kept}
        rounds = int(ROUNDS / sum(rows[name]["once"] for name in kept)) if kept else 0
        for name, row in turns(calls, max(2, min(options.repeats, rounds)), options.device).items():
            rows[name] |= row
        if "direct" in kept:
            rows["direct"]["stages"] = staged(clouds["direct"])
    print(f"\nn = {n}, R^{d}, K = {K}, {options.device}")
    for name, row in rows.items():
        text = (
            row.get("failed")
            or f"{spread(row, 3)} s, {row['cpu']:.3f} s of CPU, {row['MiB']:.0f} MiB"
        )
        stages = "  ".join(
            f"{stage} {seconds:.3f}" for stage, seconds in row.get("stages", {}).items()
        )
        print(f"  {name:20} {text}   {stages}", flush=True)
    result: dict[str, Any] = {"n": n, "d": d, "rows": rows}
    if {"direct", "robust_laplacian"} <= set(kept):
        result["ratio"] = ratios(rows, "direct", "robust_laplacian")
        result["CPU ratio"] = ratios(rows, "direct", "robust_laplacian", "busy")
        for key in ("ratio", "CPU ratio"):
            print(f"  {key}, direct / robust_laplacian: {spread(result[key], 2, 'median')}")
    return result


def loss_table(options: argparse.Namespace) -> dict[str, Any]:
    """The loss beside its textbook form: both ways and both passes take turns."""
    names = ("textbook_errors", "one_cholesky_errors")
    job = {"device": options.device, "seed": options.seed}
    rows = {name: spawn("loss", {"method": name, **job}, options.limit) for name in names}
    calls = {
        (name, part): call
        for name in names
        for part, call in passes(globals()[name], **job).items()
    }
    repeats = 10 if options.device != "cpu" else 3
    print(f"\nloss at n = 4000, K = {K}, m = 1500, {options.device}")
    for (name, part), row in turns(calls, repeats, options.device).items():
        if "failed" not in rows[name]:
            rows[name][part] |= row
            print(
                f"  {name:20} {part:9} {spread(row, 4)} s {rows[name][part]['MiB']:9.0f} MiB",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[4000, 20_000, 100_000], help="clouds in R^3"
    )
    parser.add_argument(
        "--embeddings", type=int, nargs="*", default=[20_000], help="clouds in R^384"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mesh", help="a mesh to sample instead of the built-in surface")
    parser.add_argument("--skip", nargs="*", default=[], help="methods to leave out")
    parser.add_argument("--repeats", type=int, default=5, help="rounds at most")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a process may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        warnings.simplefilter("ignore")
        job = json.loads(options.job)
        print(json.dumps(JOBS[job.pop("kind")](job)))
        return
    warnings.simplefilter("ignore")
    result: dict[str, Any] = facts(
        "direct", options.device, options, seed=options.seed, peers=("robust_laplacian",)
    )
    result |= {"tables": [], "loss": {}}
    for n, d in [*((n, 3) for n in options.sizes), *((n, 384) for n in options.embeddings)]:
        result["tables"].append(table(n, d, options))
        write(f"direct_{options.device}.json", result)  # whole after every table
    write(f"direct_{options.device}.json", result | {"loss": loss_table(options)})


if __name__ == "__main__":
    main()
