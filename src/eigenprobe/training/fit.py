"""Learn the basis of one manifold with a network: the paper's overfitting setting.

    points -> pool of resamplings -> network trained on the expected loss -> features at all points -> QR -> Ritz

The result is a continuous function: ``basis(new_points)`` costs one forward pass.  The network alone gives the nested
basis ``Q``; the final K x K Ritz rotation is exact algebra within its span and can be switched off.  The numbers before
the rotation are kept in ``info["feedforward"]`` beside the closed-form optimum.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from .. import networks
from ..basis import Basis
from ..cloud import Frame
from ..eigen import Rotation, Span, basis_from_span, solve
from ..errors import InputError, RankError
from ..graph.arranged import Arranged
from ..networks.extension import NetworkExtension
from ..probes.covariance import visible_scales
from ..probes.objective import Objective
from ..smoothers import KINDS, Kind, Smoother
from .data import ManifoldData, Pool, ProbeSettings, Sampling, prepare, resample
from .module import Optimisation, SpectralModule
from .runs import RunSettings, train

WHOLE = {"cpu": 2000, "cuda": 4000}  # clouds of up to so many points are taken whole
SUBSETS = {"cpu": (4, 1500), "cuda": (16, 4000)}  # larger ones: how many resamplings of how many points (paper: 4000)
RITZ_POWER = 512  # most smoothing steps of the final rotation
REFERENCES = 4  # samplings whose closed-form optimum is computed for the report


@dataclass(frozen=True)
class FitSettings:
    """Everything about a single-manifold fit but the points and the number of vectors.

    Parameters
    ----------
    smoother
        ``"adaptive"``, ``"symmetric"`` or ``"row"`` (the paper's; the mass is then learned).
    loss, projection
        ``"expected"`` or ``"sampled"``; ``"hybrid"`` is the default for ``row``, ``"euclidean"`` otherwise.
    probes
        What is reconstructed; its ``kind`` is overridden by ``smoother``.
    preset, sizes
        A network of `networks.PRESETS` (default ``"cpu"`` on a processor, ``"overfit"`` on a GPU) and changes to it.
    steps, rate, clip
        Override the schedule that goes with the preset.
    resamplings, size, held_out
        Train on that many farthest-point subsets of ``size`` points, validate on ``held_out`` more.  By default a cloud
        of up to 2000 points (4000 on a GPU) is taken whole and a larger one gives 4 subsets of 1500 (16 of 4000).
    ritz
        Rotate the result within its span by the K x K Ritz problem of the smoother.
    reference
        Compute the closed-form optimum too, to report the gap.
    """

    smoother: Kind = "adaptive"
    loss: Literal["expected", "sampled"] = "expected"
    projection: Literal["euclidean", "hybrid"] | None = None
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    preset: str | None = None
    sizes: dict[str, Any] | None = None
    optimisation: Optimisation | None = None
    steps: int | None = None
    rate: float | None = None
    clip: float | None = None
    resamplings: int | None = None
    size: int | None = None
    held_out: int = 0
    ritz: bool = True
    reference: bool = True
    precision: Literal["auto", "32", "bf16"] = "auto"
    accelerate: Literal["auto", "none", "graph", "compile"] = "auto"
    seed: int = 0

    def schedule(self, preset: str) -> Optimisation:
        """The schedule of the preset with the overrides."""
        base = self.optimisation
        if base is None:
            pointwise = isinstance(networks.config(preset), networks.MLPConfig)
            base = Optimisation(steps=300, rate=3e-3) if pointwise else Optimisation(steps=800, rate=1e-3, clip=0.01)
        return replace(
            base,
            steps=base.steps if self.steps is None else self.steps,
            rate=base.rate if self.rate is None else self.rate,
            clip=base.clip if self.clip is None else self.clip,
        )

    def objective(self) -> Objective:
        """The training loss, relative to the probes' energy so that samplings and shapes are comparable."""
        hybrid = "hybrid" if self.smoother == "row" else "euclidean"
        return Objective(self.loss, self.projection or hybrid, relative=True)  # type: ignore[arg-type]


@dataclass
class Fit:
    """A trained network with the samplings it was trained on."""

    module: SpectralModule
    network: networks.Network
    frame: Frame
    pool: list[Sampling]
    held: list[Sampling]
    probes: ProbeSettings
    steps: int
    seconds: dict[str, float]

    @torch.no_grad()
    def gaps(self) -> dict[str, float]:
        """Mean feed-forward loss on held-out samplings (else training ones) and its distance to the closed form."""
        samples = (self.held or self.pool)[:REFERENCES]
        if self.module.objective.kind != "expected":
            return {}
        losses = torch.stack([self.module.loss(s.batch).mean() for s in samples])
        facts = {"loss": float(losses.mean())}
        known = [s.batch.optimum for s in samples if s.batch.optimum is not None]
        if len(known) == len(samples):
            best = torch.stack([x.mean() for x in known])
            facts |= {"optimum": float(best.mean()), "gap": float((losses / best - 1).mean())}
        return facts

    def basis(self, cloud: Tensor, *, ritz: bool = True, info: dict[str, Any] | None = None) -> Basis:
        """The basis at the points of ``cloud``, with the function behind it as extension."""
        first = self.pool[0]
        same = len(first.points) == len(cloud) and torch.equal(first.points, self.frame(cloud, torch.float32))
        whole = first if same else prepare(cloud, self.frame, self.probes, Objective("sampled"), 1)
        basis = assemble(self.network, whole, first.points, cloud, self.frame, ritz)
        return replace(basis, points=cloud, info={**basis.info, **(info or {})})


def fit_manifold(points: Tensor, k: int, settings: FitSettings, run: RunSettings | None = None) -> Fit:
    """Prepare the samplings of a cloud ``(n, d)`` and train a network on them, on the device of the points."""
    if not 1 <= k < len(points):
        raise InputError(f"expected 1 <= k < n={len(points)}, got k={k}")
    device = points.device
    gpu = device.type == "cuda"
    preset = settings.preset or ("overfit" if gpu else "cpu")
    schedule, objective = settings.schedule(preset), settings.objective()
    probes = replace(settings.probes, kind=settings.smoother)
    started = time.perf_counter()
    frame = Frame.of(points, str(probes.smoother.get("metric", "euclidean")))
    pool, held = draw_samplings(points, k, frame, probes, objective, settings)
    _wait(device)
    prepared = time.perf_counter()
    if settings.reference and objective.kind == "expected":
        for sampling in (held or pool)[:REFERENCES]:
            attach_optimum(sampling, k, objective, settings.seed)
        _wait(device)
    generator = torch.Generator().manual_seed(settings.seed)
    network = networks.build(preset, points.shape[1], k, generator, **(settings.sizes or {}))
    automatic = settings.accelerate == "auto"
    module = SpectralModule(
        network,
        objective,
        schedule,
        precision=("bf16" if gpu else "32") if settings.precision == "auto" else settings.precision,
        accelerate=("graph" if gpu else "none") if automatic else settings.accelerate,  # type: ignore[arg-type]
        seed=settings.seed,
    )
    run = replace(run or RunSettings(), device=str(device))
    data = ManifoldData(Pool(pool, settings.seed), Pool(held) if held else None, schedule.steps)
    began = time.perf_counter()
    trainer = train(module, data, run)
    _wait(device)
    seconds = {"prepare": prepared - started, "reference": began - prepared, "train": time.perf_counter() - began}
    module.to(device).eval()
    return Fit(module, network, frame, pool, held, probes, int(trainer.global_step), seconds)


def fit_network(
    points: Tensor,
    k: int = 50,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    folder: Path | None = None,
    run: RunSettings | None = None,
    settings: FitSettings | None = None,
    metric: Literal["euclidean", "cosine"] | None = None,
    neighbours: int | None = None,
    bandwidth: float | None = None,
    dimension: float | None = None,
    **options: Any,
) -> Basis:
    """Train a network on one cloud ``(n, d)`` and return its basis of ``k`` vectors, defined at new points too.

    ``options`` are fields of `FitSettings`; ``metric``, ``neighbours``, ``bandwidth`` and ``dimension`` are those of
    `build_smoother`, chosen from the data by default.  ``folder`` receives checkpoints and logs; a second call with
    it resumes.

    >>> from eigenprobe.training import fit_network
    >>> circle = torch.linspace(0, 6.2832, 200)[:-1, None]
    >>> basis = fit_network(torch.cat([circle.cos(), circle.sin()], 1), k=5, steps=60)
    >>> basis.eigenvalues.round().tolist()
    [0.0, 1.0, 1.0, 4.0, 4.0]
    """
    if unknown := set(options) - {f.name for f in fields(FitSettings)}:
        raise InputError(f"method 'network' does not know the option {sorted(unknown)[0]!r}")
    settings = replace(settings or FitSettings(), seed=seed, **options)
    if settings.smoother not in KINDS:
        raise InputError(f"a network fit builds its own smoothers: expected one of {KINDS}, got {settings.smoother!r}")
    chosen = {"metric": metric, "k": neighbours, "bandwidth": bandwidth, "dimension": dimension}
    graph = {**settings.probes.smoother, **{key: value for key, value in chosen.items() if value is not None}}
    settings = replace(settings, probes=replace(settings.probes, smoother=graph))
    where = torch.device(points.device if device in (None, "auto") else device)  # type: ignore[arg-type]
    dtype = points.dtype if points.is_floating_point() else torch.float32
    run = run or RunSettings()
    started = time.perf_counter()
    cloud = points.detach().to(where, dtype)
    fit = fit_manifold(cloud, k, settings, replace(run, folder=folder or run.folder))
    facts: dict[str, Any] = {
        "network": settings.preset or ("overfit" if where.type == "cuda" else "cpu"),
        "steps": fit.steps,
        "samplings": len(fit.pool),
        "feedforward": fit.gaps(),
    }
    basis = fit.basis(cloud, ritz=settings.ritz, info=facts)
    seconds = {**fit.seconds, "total": time.perf_counter() - started}
    basis.info["seconds"] = {key: round(value, 3) for key, value in seconds.items()}
    home = points.device
    return replace(
        basis,
        normalized=basis.normalized.to(home, dtype),
        mass=basis.mass.to(home, dtype),
        eigenvalues=basis.eigenvalues.to(home, dtype),
        points=points,
    )


def draw_samplings(
    cloud: Tensor, k: int, frame: Frame, probes: ProbeSettings, objective: Objective, settings: FitSettings
) -> tuple[list[Sampling], list[Sampling]]:
    """Training and held-out samplings of a cloud, prepared."""
    n, held_out = len(cloud), settings.held_out
    place = "cuda" if cloud.device.type == "cuda" else "cpu"
    count, size = (1, n) if n <= WHOLE[place] else SUBSETS[place]
    size = size if settings.size is None else settings.size
    count = count if settings.resamplings is None else settings.resamplings
    if not 1 < size <= n:
        raise InputError(f"expected a sampling size between 2 and n={n}, got {size}")
    if size == n and held_out:
        raise InputError(f"held-out samplings of {n} points need a sampling size below {n}")
    clouds = resample(cloud, size, count + held_out, settings.seed)
    generator = torch.Generator(cloud.device).manual_seed(settings.seed)
    ready = [prepare(x, frame, probes, objective, k, generator) for x in clouds]
    return ready[: len(ready) - held_out], ready[len(ready) - held_out :]


@torch.no_grad()
def attach_optimum(sampling: Sampling, k: int, objective: Objective, seed: int = 0) -> Tensor:
    """The closed-form optimum of the expected loss on one sampling: the smallest value the loss can take there.

    For a symmetric smoother its basis is the leading eigenvectors of A.  For ``row`` it is the PCA of ``S^t (S^t)^T``,
    a lower bound for the hybrid loss, whose projection is not the best one in the 2-norm.
    """
    batch = sampling.batch
    if sampling.smoother.symmetric:
        generator = torch.Generator(sampling.smoother.device).manual_seed(seed)
        best = solve(sampling.smoother, k, generator=generator).vectors
    else:
        best = torch.linalg.eigh(batch.covariance.matrix.double()).eigenvectors.flip(-1)[:, :k]
    euclidean = replace(objective, projection="euclidean")
    errors = euclidean.errors(best.float().unsqueeze(0), covariance=batch.covariance.apply, trace=batch.trace)
    batch.optimum = euclidean.reduce(*errors)
    return batch.optimum


@torch.no_grad()
def assemble(
    network: networks.Network, whole: Sampling, context: Tensor, cloud: Tensor, frame: Frame, ritz: bool
) -> Basis:
    """The basis of the network's features at all points, with the function behind it as extension."""
    smoother = whole.smoother.to(dtype=torch.float64)
    k = network.config.outputs
    identity = torch.eye(k, dtype=torch.float64, device=cloud.device)
    extension = NetworkExtension(network, frame, context, identity, learned_mass=smoother.mass is None)
    features = extension.features(cloud)
    if smoother.mass is not None:
        features = features * smoother.mass.sqrt()[:, None]

    def function(rotation: Rotation) -> NetworkExtension:
        extension.matrix = rotation.matrix.contiguous()
        return extension

    turn = ritz and smoother.symmetric
    options = {"turn": turn, "power": ritz_power(smoother, k) if turn else 1}
    info = {"method": "network", "ritz": turn}
    given = Arranged.plain(cloud.double())
    try:
        return basis_from_span(Span(features), smoother, k, given, extension=function, info=info, **options)
    except RankError as error:
        message = f"the network's {k} features are not independent: train longer or ask for fewer vectors"
        raise InputError(message) from error


def ritz_power(smoother: Smoother, k: int) -> int:
    """The covariance ``A^s`` whose Ritz problem is solved: s about four times the decay of the last vector, not 1: a
    network's functions carry a little noise at high frequency, to which ``q^T A q`` gives the weight of its large
    eigenvalue and ``q^T A^s q`` none."""
    return min(visible_scales(smoother, k, generator=torch.Generator(smoother.device).manual_seed(0))[1], RITZ_POWER)


def _wait(device: torch.device) -> None:
    """Clocks read on the host count a GPU's work only once it is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
