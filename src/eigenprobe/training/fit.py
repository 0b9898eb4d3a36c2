"""Learn the basis of one manifold with a network: the paper's overfitting setting.

    points -> pool of resamplings -> train network on the expected loss -> features at all points -> Q R -> Ritz ->
    Basis

The result is a continuous function: ``basis(new_points)`` costs one forward pass.  The network alone gives the nested
basis ``Q``; the final K x K Ritz rotation is exact algebra within its span and can be switched off.  The numbers
before the rotation are kept in ``info["feedforward"]`` beside the closed-form optimum.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from .. import networks
from ..basis import Basis, canonical_signs
from ..errors import InputError
from ..objective import Objective, nested_basis
from ..refine import ritz as rotate
from ..spectrum import quotients, rayleigh
from .data import Frame, ManifoldData, Pool, ProbeSettings, Sampling, prepare, resample
from .extension import NetworkExtension
from .module import Optimisation, SpectralModule
from .runs import RunSettings, train

POOL_SIZE = 4000  # points a sampling, the paper's number
LIMITS = {"cpu": 2000, "cuda": POOL_SIZE}  # larger clouds are resampled rather than taken whole


def defaults(preset: str) -> Optimisation:
    """The schedule that goes with a network preset."""
    if preset == "cpu":
        return Optimisation(steps=400, rate=3e-3, warmup=20)
    return Optimisation(steps=800, rate=1e-3, warmup=20)


def fit_network(
    points: Tensor,
    k: int = 50,
    *,
    smoother: str = "adaptive",
    loss: Literal["expected", "sampled"] = "expected",
    projection: Literal["euclidean", "hybrid"] | None = None,
    probes: ProbeSettings | None = None,
    preset: str | None = None,
    sizes: dict[str, Any] | None = None,
    optimisation: Optimisation | None = None,
    steps: int | None = None,
    resamplings: int | None = None,
    size: int | None = None,
    held_out: int = 0,
    ritz: bool = True,
    reference: bool = True,
    seed: int = 0,
    device: str | torch.device | None = None,
    folder: Path | None = None,
    settings: RunSettings | None = None,
    metric: str | None = None,
) -> Basis:
    """Train a network on one cloud ``(n, d)`` and return its basis of ``k`` vectors, defined at new points too.

    Parameters
    ----------
    smoother
        ``"adaptive"``, ``"symmetric"`` or ``"row"`` (the paper's; the mass is then learned).
    loss, projection
        ``"expected"`` or ``"sampled"``; ``"hybrid"`` is the default for ``row``, ``"euclidean"`` otherwise.
    preset, sizes
        A network of `networks.PRESETS` (default ``"cpu"`` on a processor, ``"overfit"`` on a GPU) and changes to it.
    resamplings, size
        Train on that many farthest-point subsets of ``size`` points; 1 (default for small clouds) takes the cloud
        itself.
    ritz
        Rotate the result within its span by the K x K Ritz problem of the smoother.
    reference
        Compute the closed-form optimum too, to report the gap (``info["feedforward"]``).
    folder
        Receives checkpoints and logs; a second call with it resumes.
    """
    if not 1 <= k < len(points):
        raise InputError(f"expected 1 <= k < n={len(points)}, got k={k}")
    where = torch.device(points.device if device in (None, "auto") else device)
    preset = preset or ("overfit" if where.type == "cuda" else "cpu")
    optimisation = optimisation or defaults(preset)
    optimisation = optimisation if steps is None else replace(optimisation, steps=steps)
    objective = Objective(loss, projection or ("hybrid" if smoother == "row" else "euclidean"), relative=True)
    probes = probes or ProbeSettings(smoother)
    if metric is not None:
        probes = replace(probes, smoother={**probes.smoother, "metric": metric})
    started = time.perf_counter()
    cloud = points.detach().to(where)
    cloud = cloud if cloud.is_floating_point() else cloud.float()
    frame = Frame.of(cloud)
    pool, held = samplings(cloud, frame, probes, objective, resamplings, size, held_out, seed)
    network = networks.build(preset, cloud.shape[1], k, torch.Generator().manual_seed(seed), **(sizes or {}))
    prepared = time.perf_counter()
    if reference and objective.kind == "expected":
        for sampling in (held or pool)[:4]:
            attach_optimum(sampling, k, objective, seed)
    module = SpectralModule(
        network,
        objective,
        optimisation,
        precision="bf16" if where.type == "cuda" else "32",
        accelerate="graph" if where.type == "cuda" else "none",
        seed=seed,
    )
    settings = settings or RunSettings()
    settings = replace(settings, folder=folder or settings.folder, device=str(where))
    began = time.perf_counter()
    trainer = train(module, ManifoldData(Pool(pool, seed), Pool(held) if held else None, optimisation.steps), settings)
    trained = time.perf_counter()
    module.to(where).eval()
    whole = pool[0] if len(pool[0].points) == len(cloud) else prepare(cloud, frame, probes, Objective("sampled"))
    extension, q, mass, values = finish(network, whole, pool[0].points, cloud, frame, k, ritz)
    info: dict[str, Any] = {
        "method": "network",
        "smoother": whole.smoother.kind,
        "dimension": float(whole.smoother.dimension),
        "network": preset,
        "steps": int(trainer.global_step),
        "samplings": len(pool),
        "ritz": bool(ritz and whole.smoother.symmetric),
        "seconds": {
            "prepare": round(prepared - started, 3),
            "train": round(trained - began, 3),
            "total": round(time.perf_counter() - started, 3),
        },
        "feedforward": gaps(module, (held or pool)[:4]),
    }
    dtype, home = (points.dtype if points.is_floating_point() else torch.float32), points.device
    arrays = (x.to(home, dtype) for x in (q, mass, values))
    return Basis(*arrays, points=points, info=info, extension=extension)


def samplings(
    cloud: Tensor,
    frame: Frame,
    probes: ProbeSettings,
    objective: Objective,
    resamplings: int | None,
    size: int | None,
    held_out: int,
    seed: int,
) -> tuple[list[Sampling], list[Sampling]]:
    """Training and held-out samplings of a cloud, prepared."""
    n = len(cloud)
    size = min(n, LIMITS.get(cloud.device.type, POOL_SIZE)) if size is None else size
    if not 1 < size <= n:
        raise InputError(f"expected a sampling size between 2 and n={n}, got {size}")
    if resamplings is None:
        resamplings = 1 if size == n else 16
    clouds = resample(cloud, size, resamplings + held_out, seed)
    generator = torch.Generator(cloud.device).manual_seed(seed)
    ready = [prepare(x, frame, probes, objective, generator) for x in clouds]
    return ready[: len(ready) - held_out] or ready, ready[len(ready) - held_out :] if len(ready) > held_out else []


def attach_optimum(sampling: Sampling, k: int, objective: Objective, seed: int = 0) -> Tensor:
    """The closed-form optimum of the expected loss on one sampling: the smallest value the loss can take there.

    For a symmetric smoother its basis is the leading eigenvectors of A.  For ``row`` it is the PCA of ``S^t
    (S^t)^T``, a lower bound for the hybrid loss, whose projection is not the best one in the 2-norm.
    """
    batch = sampling.batch
    if sampling.smoother.symmetric:
        from ..direct import solve

        generator = torch.Generator(sampling.smoother.device).manual_seed(seed)
        best, _ = solve(sampling.smoother, k, generator=generator)
    else:
        best = torch.linalg.eigh(batch.covariance.matrix.double()).eigenvectors.flip(-1)[:, :k]
    euclidean = replace(objective, projection="euclidean")
    errors = euclidean.errors(best.float().unsqueeze(0), covariance=batch.covariance.apply, trace=batch.trace)
    batch.optimum = euclidean.reduce(*errors)
    return batch.optimum


@torch.no_grad()
def gaps(module: SpectralModule, samples: list[Sampling]) -> dict[str, float]:
    """Mean feed-forward loss and, where the optimum is known, its relative distance to it."""
    if not samples or module.objective.kind != "expected":
        return {}
    losses = torch.stack([module.loss(s.batch).mean() for s in samples])
    facts = {"loss": float(losses.mean())}
    known = [s.batch.optimum for s in samples if s.batch.optimum is not None]
    if len(known) == len(samples):
        best = torch.stack([x.mean() for x in known])
        facts |= {"optimum": float(best.mean()), "gap": float((losses / best - 1).mean())}
    return facts


@torch.no_grad()
def finish(
    network: networks.Network, whole: Sampling, context: Tensor, cloud: Tensor, frame: Frame, k: int, ritz: bool
) -> tuple[NetworkExtension, Tensor, Tensor, Tensor]:
    """Features at all points -> extension, Q (n, K), mass (n,), eigenvalues (K,); all float64."""
    smoother = whole.smoother.to(dtype=torch.float64)
    learned = smoother.mass is None
    identity = torch.eye(k, dtype=torch.float64, device=cloud.device)
    extension = NetworkExtension(network, frame, context, identity, learned)
    features = extension.features(cloud)
    root = torch.ones_like(features[:, 0]) if learned else smoother.mass.double().sqrt()
    q, factor = nested_basis(features * root[:, None])
    if not bool(q.isfinite().all()):
        raise InputError(f"the network's {k} features are not independent: train longer or ask for fewer vectors")
    matrix = torch.linalg.solve_triangular(factor.mT, identity, upper=True)  # R^-1
    if learned:
        sign = torch.where(q[:, :1].sum(0, keepdim=True) < 0, -1.0, 1.0)
        q, matrix = q * sign, matrix * sign
        mass = q[:, 0].square()
        v = q / q[:, :1]
        # S v = mu v: the quotient in the learned mass.
        mu = quotients(v * mass[:, None], smoother.apply(v.to(smoother.dtype)))
    else:
        mass = root.square()
        if ritz:
            rotated, mu = rotate(q, smoother)
            q, matrix = rotated, matrix @ (q.mT @ rotated)
        else:
            mu = quotients(q, smoother.apply(q.to(smoother.dtype)))
        sign = canonical_signs(q / root[:, None], mass)
        sign[0] = torch.where(q[:, 0].sum() < 0, -1.0, 1.0)
        q, matrix = q * sign, matrix * sign
    values = rayleigh(mu, float(smoother.step_time))
    order = torch.cat([torch.zeros(1, dtype=torch.long, device=values.device), 1 + values[1:].argsort()])
    extension.matrix = matrix[:, order].contiguous()
    return extension, q[:, order], mass, values[order]
