"""Learn the basis of one manifold with a network: the paper's overfitting setting.

    points -> pool of resamplings -> network trained on the expected loss
           -> features at all points -> QR -> Ritz

The result is a continuous function: ``basis(new_points)`` costs one forward pass.  The network
alone gives the nested basis ``Q``; the final K x K Ritz rotation is exact algebra within its span
and can be switched off.
"""

import hashlib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from .. import networks
from ..basis import Basis
from ..cloud.cloud import Cloud
from ..eigen import basis_of, orthonormalise, rotate
from ..errors import InputError, RankError
from ..extensions import NetworkExtension
from ..host.threads import now
from ..points import Frame, check_points
from ..probes import Objective, Projection, visible_scales
from ..smoothers import KINDS, Kind, Smoother
from .data import (
    Batch,
    FreshClouds,
    ManifoldData,
    Pool,
    ProbeSettings,
    Source,
    Subset,
    prepare,
    resample,
)
from .module import Optimisation, Precision, SpectralModule
from .runs import RunSettings, train

# On a processor, on a GPU: points of clouds that are taken whole; of larger ones, how many
# resamplings of how many points (paper: 4000).
WHOLE, SUBSETS = (2000, 4000), ((4, 1500), (16, 4000))
RITZ_POWER = 512  # most smoothing steps of the final rotation


@dataclass(frozen=True)
class FitSettings:
    """Everything about a single-manifold fit but the points and the number of vectors.

    Parameters
    ----------
    smoother
        ``"adaptive"``, ``"symmetric"`` or ``"row"`` (the paper's; the mass is then learned).
    metric, neighbours, bandwidth, dimension
        Of the graph and the smoother, chosen from the data by default.
    loss, projection, probe
        ``"expected"`` or ``"sampled"``; ``"hybrid"`` is the default for ``row``, ``"euclidean"``
        otherwise (`Objective` has a third, and ``probe="worst"``, the min-max form).
    probes
        What is reconstructed; its ``kind`` is overridden by ``smoother``.
    preset, sizes
        A network of `networks.PRESETS` (default ``"cpu"`` on a processor, ``"overfit"`` on a GPU)
        and changes to it.
    optimisation, steps
        The schedule (by default the one that goes with the preset), and its number of steps.
    resamplings, size
        Train on that many farthest-point subsets of ``size`` points.
        By default a cloud of up to 2000 points (4000 on a GPU) is taken whole and a larger one
        gives 4 subsets of 1500 (16 of 4000). ``"fresh"``: a subset of its own for every step, as in
        the paper (sampled loss with ``probes.paper`` only).
    subset
        Subsets are ``"farthest"`` points, or ``"uniform"`` draws (the paper's for rows of
        features).
    clouds
        Subsets in one step, with ``resamplings="fresh"``; the loss is their mean.
    ritz
        Rotate the result within its span by the K x K Ritz problem of the smoother.
    """

    smoother: Kind = "adaptive"
    metric: Literal["euclidean", "cosine"] | None = None
    neighbours: int | None = None
    bandwidth: float | None = None
    dimension: float | None = None
    loss: Literal["expected", "sampled"] = "expected"
    projection: Projection | None = None
    probe: Literal["mean", "worst"] = "mean"
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    preset: str | None = None
    sizes: dict[str, Any] | None = None
    optimisation: Optimisation | None = None
    steps: int | None = None
    resamplings: int | Literal["fresh"] | None = None
    size: int | None = None
    subset: Subset = "farthest"
    clouds: int = 1
    ritz: bool = True
    precision: Precision = "auto"
    accelerate: Literal["none", "graph"] = "graph"
    seed: int = 0

    def schedule(self, preset: str) -> Optimisation:
        """The schedule of the preset, or that given, with the number of steps."""
        usual = Optimisation(steps=800, rate=1e-3, clip=0.01)
        if isinstance(networks.config(preset), networks.MLPConfig):
            usual = Optimisation(steps=300, rate=3e-3)
        return replace(self.optimisation or usual, **_given(steps=self.steps))

    def objective(self) -> Objective:
        """The training loss, relative to the probes' energy so that samplings and shapes are
        comparable.
        """
        usual: Projection = "hybrid" if self.smoother == "row" else "euclidean"
        return Objective(self.loss, self.projection or usual, relative=True, probe=self.probe)

    def all_probes(self) -> ProbeSettings:
        """The probes with the smoother's kind and the settings of its graph."""
        chosen = _given(
            metric=self.metric,
            k=self.neighbours,
            bandwidth=self.bandwidth,
            dimension=self.dimension,
        )
        return replace(self.probes, kind=self.smoother, smoother={**self.probes.smoother, **chosen})

    def frame(self, cloud: Tensor) -> Frame:
        """How the network and the paper's probes see a cloud: by angles the rows stay where they
        are, since a centre would change the distances that sigma is measured in."""
        probes = self.all_probes()
        metric = str(probes.smoother.get("metric", "euclidean"))
        return Frame.of(cloud, metric, centred=metric != "cosine" or probes.paper is None)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def fit_network(
    points: Tensor,
    k: int = 50,
    *,
    settings: FitSettings | None = None,
    run: RunSettings | None = None,
    device: str | torch.device | None = None,
    folder: Path | None = None,
    **options: Any,
) -> Basis:
    """Train a network on one cloud and return its basis, defined at new points too.

    Parameters
    ----------
    points
        The cloud ``(n, d)``.
    k
        How many vectors, fewer than points.
    settings, options
        What is learned and how; ``options`` are fields of `FitSettings` that replace those of
        ``settings``.
    run, device
        How it is run, and where; by default where the points are.
    folder
        Receives checkpoints and logs; a second call with it resumes.

    Returns
    -------
    Basis
        Of ``k`` vectors; ``basis(new_points)`` costs one forward pass.

    Examples
    --------
    >>> from eigenprobe.training import fit_network
    >>> circle = torch.linspace(0, 6.2832, 200)[:-1, None]
    >>> basis = fit_network(torch.cat([circle.cos(), circle.sin()], 1), k=5, steps=60)
    >>> basis.eigenvalues.round().tolist()
    [0.0, 1.0, 1.0, 4.0, 4.0]
    """
    if unknown := set(options) - {f.name for f in fields(FitSettings)}:
        raise InputError(f"method 'network' does not know the option {sorted(unknown)[0]!r}")
    settings = replace(settings or FitSettings(), **options)
    if settings.smoother not in KINDS:
        raise InputError(
            f"a network fit builds its own smoothers: expected one of {KINDS}, "
            f"got {settings.smoother!r}"
        )
    cloud, origin = check_points(points, k, device)
    run = replace(run or RunSettings(), device=str(cloud.device))
    source = run.source | _source(cloud, k, settings)
    run = replace(run, folder=folder or run.folder, source=source)
    return _fit(cloud, k, settings, run).as_given(origin)


def _source(cloud: Tensor, k: int, settings: FitSettings) -> dict[str, str]:
    """What is learned, for the checkpoint: points, k and every setting but the number of steps,
    which may grow.
    """
    schedule = settings.optimisation
    schedule = None if schedule is None else replace(schedule, steps=0)
    same = replace(settings, steps=None, optimisation=schedule)
    recipe = repr([(f.name, getattr(same, f.name)) for f in fields(FitSettings)])
    given = {"points": cloud.cpu().numpy().tobytes(), "recipe": recipe.encode()}
    digests = {name: hashlib.sha256(data).hexdigest()[:16] for name, data in given.items()}
    return {"k": str(k)} | digests


def _fit(cloud: Tensor, k: int, settings: FitSettings, run: RunSettings) -> Basis:
    """Samplings of the cloud, a network trained on them, and its basis at all points; the clock
    between.
    """
    began = now(cloud.device)
    gpu = cloud.device.type == "cuda"
    preset = settings.preset or ("overfit" if gpu else "cpu")
    probes, objective = settings.all_probes(), settings.objective()
    frame = settings.frame(cloud)
    pool = draw_samplings(cloud, k, frame, probes, objective, settings)
    prepared = now(cloud.device)
    generator = torch.Generator().manual_seed(settings.seed)
    network: Any = networks.build(preset, cloud.shape[1], k, generator, **(settings.sizes or {}))
    module = SpectralModule(
        network,
        objective,
        settings.schedule(preset),
        precision=settings.precision,
        accelerate=settings.accelerate,
        seed=settings.seed,
    )
    source: Source = Pool(pool, settings.seed)
    if settings.resamplings == "fresh" and probes.paper is not None:
        size = pool[0].points.shape[1]
        source = FreshClouds(
            frame(cloud, torch.float32),
            probes.paper,
            size,
            settings.seed,
            settings.subset,
            settings.clouds,
        )
    data = ManifoldData(source, steps=module.optimisation.steps)
    trainer = train(module, data, run)
    trained = now(cloud.device)
    module.to(cloud.device).eval()
    first, known = pool[0].points[0], pool[0].smoother
    same = len(first) == len(cloud) and torch.equal(first, frame(cloud, torch.float32))
    smoother = known if same else probes.build(cloud)
    function = NetworkExtension(network, frame, first, not smoother.symmetric)
    basis = network_basis(function, Cloud.plain(cloud), smoother, ritz=settings.ritz)
    seconds = {"prepare": prepared - began, "train": trained - prepared}
    basis.info.update(
        network=preset,
        steps=int(trainer.global_step),
        samplings=settings.resamplings if settings.resamplings == "fresh" else len(pool),
        seconds={name: round(value, 3) for name, value in seconds.items()},
    )
    return basis


def draw_samplings(
    cloud: Tensor,
    k: int,
    frame: Frame,
    probes: ProbeSettings,
    objective: Objective,
    settings: FitSettings,
) -> list[Batch]:
    """The samplings of a cloud to train on, prepared."""
    n = len(cloud)
    gpu = cloud.device.type == "cuda"
    count, size = (1, n) if n <= WHOLE[gpu] else SUBSETS[gpu]
    size = size if settings.size is None else settings.size
    if settings.resamplings == "fresh":
        if probes.paper is None or objective.kind != "sampled" or probes.kind != "row":
            raise InputError(
                "resamplings='fresh' goes with smoother='row', loss='sampled' and probes.paper"
            )
        count = 1  # the context of the function that is learned
    elif settings.resamplings is not None:
        count = settings.resamplings
    if not 1 < size <= n:
        raise InputError(f"expected a sampling size between 2 and n={n}, got {size}")
    clouds = resample(cloud, size, count, settings.seed, settings.subset)
    generator = torch.Generator(cloud.device).manual_seed(settings.seed)
    return [prepare(x, frame, probes, objective, k, generator) for x in clouds]


@torch.no_grad()
def network_basis(
    function: NetworkExtension, cloud: Cloud, smoother: Smoother, *, ritz: bool = True
) -> Basis:
    """The basis of a network's features at the points of a cloud, those of ``smoother``;
    ``function`` extends it.
    """
    smoother = smoother.to(dtype=torch.float64)
    columns = function.features(cloud.points)
    k, turn = columns.shape[1], ritz and smoother.symmetric
    if smoother.symmetric:
        columns = columns * smoother.mass.sqrt()[:, None]
    try:
        q, _ = orthonormalise(columns)
    except RankError as error:
        message = f"the network's {k} features are not independent"
        raise InputError(f"{message}: train longer or ask for fewer vectors") from error
    gaps: Tensor | None = None
    if turn:
        # The covariance A^s whose Ritz problem is solved: s about four times the decay of the last
        # vector, not 1. A network's functions carry a little noise at high frequency, to which
        # q^T A q gives the weight of its large eigenvalue and q^T A^s q none.
        generator = torch.Generator(smoother.device).manual_seed(0)
        power = min(visible_scales(smoother, k, generator=generator)[1], RITZ_POWER)
        known = int(smoother.fixes_mass)
        small = q.mT @ smoother.power(q, power)
        values, turned = torch.linalg.eigh(small[known:, known:])
        values = torch.cat([small.diagonal()[:known], values.flip(0)])
        gaps = 1 - values.clamp_min(torch.finfo(values.dtype).eps) ** (1 / power)
        q = q @ torch.block_diag(torch.eye(known).to(turned), turned.flip(1))
    found = rotate(q, smoother, k, gaps=gaps, turn=turn)
    matrix = torch.linalg.lstsq(columns, found.q).solution.contiguous()
    extension = replace(function, matrix=matrix)
    info = {"method": "network", "ritz": turn}
    return basis_of(found, smoother, cloud, extension=extension, info=info)
