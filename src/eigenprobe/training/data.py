"""What one training step sees, and the data of one manifold: a pool of resamplings, prepared once.

    points (N, d) -> farthest-point resamplings (n, d) -> smoother -> C (n, n) -> Batch
    features Z = weight * network(points)  (b, n, K),   weight (b, n) = sqrt(mass)

Where the smoother knows the mass, the network learns the unnormalised functions ``V``, which do not
depend on the sampling, and ``Q = M^{1/2} V`` carries the sampling.  A `row` smoother knows no mass:
the weight is None and ``q_1`` learns it.  A network trained over many samplings of one surface
averages the sampling noise of each graph away, so its basis can be better than the closed form of
any single one.  With `n >= N` the pool is the cloud itself.  `FreshClouds` draws a new sampling for
every step, as the paper does.  The paper's probes live in the frame of the cloud, of radius one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..cloud.farthest import farthest_points
from ..errors import InputError
from ..neighbors.graph import Graph
from ..points import Frame
from ..probes import DENSE_LIMIT, Covariance, DenseCovariance, Objective, Probes, visible_scales
from ..probes.families import family
from ..smoothers import Kind, Smoother, build_smoother

CHUNK = (4, 128)  # fresh samplings drawn at once: on a processor, on a GPU
Subset = Literal["farthest", "uniform"]
Draw = Callable[[torch.Generator], Tensor]


@dataclass
class Batch:
    """One batch of clouds ``(b, n, d)``.

    ``covariance`` has ``apply(x)`` and ``trace()`` (`Covariance`, `DenseCovariance`); ``probes`` is
    a tensor ``(b, n, m)`` or a function that draws one from a generator; ``smoother`` is that of
    the points, where it is known.
    """

    points: Tensor
    weight: Tensor | None = None
    covariance: Any = None
    trace: Tensor | None = None
    probes: Tensor | Draw | None = None
    smoother: Any = None

    def __post_init__(self) -> None:
        if self.trace is None and self.covariance is not None:
            self.trace = self.covariance.trace()

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device; what is already there is not copied."""
        held: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        kinds = (Tensor, DenseCovariance)
        moved: Any = {name: x.to(device) for name, x in held.items() if isinstance(x, kinds)}
        return replace(self, **moved)

    def weigh(self, features: Tensor) -> Tensor:
        """``Z = sqrt(mass) * features``, float32 or better."""
        if features.dtype in (torch.bfloat16, torch.float16):
            features = features.float()
        return features if self.weight is None else features * self.weight.unsqueeze(-1)

    def losses(
        self, objective: Objective, features: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """The objective ``(b,)`` of the network's features ``(b, n, K)``."""
        z = self.weigh(features)
        if objective.kind == "sampled":
            probes = self.probes
            if callable(probes) and not isinstance(probes, Tensor):
                probes = probes(torch.Generator(z.device) if generator is None else generator)
            return objective.reduce(*objective.errors(z, probes=probes))
        covariance = None if self.covariance is None else self.covariance.apply
        return objective.reduce(*objective.errors(z, covariance=covariance, trace=self.trace))


@dataclass(frozen=True)
class ProbeSettings:
    """What the network must reconstruct.

    ``kind`` is the smoother.  Expected losses use ``steps`` or ``scales`` of `Covariance`; with
    none of them, the scales at which the K wanted vectors matter
    (`visible_scales`).  Sampled losses draw ``count`` probes at every training step: of ``paper``
    where given (the paper's ranges of sigma, k and steps, on the directed graph), else by ``steps``
    (default 20) of the smoother.
    """

    kind: Kind = "adaptive"
    steps: int | None = None
    scales: tuple[int, ...] | None = None
    count: int = 500
    paper: Probes | None = None
    smoother: dict[str, Any] = field(default_factory=dict)  # further arguments of build_smoother

    def build(self, points: Tensor) -> Smoother:
        """The smoother of a cloud ``(n, d)``, in float64."""
        return build_smoother(points.double(), self.kind, **self.smoother)

    def covariance(
        self, smoother: Smoother, k: int, generator: torch.Generator | None = None
    ) -> Covariance:
        """The covariance of these probes on a smoother, for a basis of ``k`` vectors."""
        terms: Any = self.scales if self.steps is None else {2 * self.steps: 1.0}
        terms = visible_scales(smoother, k, generator=generator) if terms is None else terms
        return Covariance(smoother, terms, generator)


def prepare(
    points: Tensor,
    frame: Frame,
    probes: ProbeSettings,
    objective: Objective,
    k: int,
    generator: torch.Generator | None = None,
) -> Batch:
    """One sampling ``(n, d)`` as the network sees it, its smoother and covariance, for a basis of
    ``k`` vectors.
    """
    smoother = probes.build(points)
    single = smoother.to(dtype=torch.float32)  # smoothing is bound by memory, not the small algebra
    weight = None if not smoother.symmetric else smoother.mass.sqrt().float().unsqueeze(0)  # (1, n)
    local = frame(points, torch.float32)
    batch = Batch(local.unsqueeze(0), weight, smoother=smoother)
    if objective.kind == "sampled":
        # Those of the paper are smoothed on the framed points, where sigma has a meaning.
        steps, heat = 20 if probes.steps is None else probes.steps, family("heat")
        batch.probes = (
            (lambda generator: heat.draw(single, probes.count, steps, generator=generator)[None])
            if probes.paper is None
            else PaperDraw(probes.paper, probes.paper.graph(local))
        )
    else:
        covariance = probes.covariance(single, k, generator)
        batch.covariance = covariance.dense() if smoother.n <= DENSE_LIMIT else covariance
        batch.trace = batch.covariance.trace(generator)
    return batch


@dataclass(frozen=True)
class PaperDraw:
    """Draws the paper's probes ``(b, n, m)`` on the graph of ``clouds`` stacked samplings of one
    size.
    """

    probes: Probes
    graph: Graph
    clouds: int = 1

    def __call__(self, generator: torch.Generator) -> Tensor:
        return self.probes.draw(self.graph, generator, compiled=True).unflatten(
            0, (self.clouds, -1)
        )


class Source(Protocol):
    """Batches by the step of a training, on a device."""

    def at(self, step: int) -> Batch: ...

    def to(self, device: torch.device | str) -> Source: ...


class Pool:
    """Samplings of one manifold; batch ``at(step)`` is one of them, in an order that depends on the
    seed alone.
    """

    def __init__(self, samplings: Sequence[Batch], seed: int = 0) -> None:
        if not samplings:
            raise InputError("expected at least one sampling, got none")
        self.samplings, self.seed = list(samplings), seed

    def __len__(self) -> int:
        return len(self.samplings)

    def at(self, step: int) -> Batch:
        """Every sampling comes once in each round of ``len(pool)`` steps, shuffled."""
        turn, place = divmod(step, len(self.samplings))
        generator = torch.Generator().manual_seed(self.seed * 7919 + turn)
        return self.samplings[int(torch.randperm(len(self.samplings), generator=generator)[place])]

    def to(self, device: torch.device | str) -> Pool:
        """The pool, its batches moved to a device."""
        if self.samplings[-1].points.device != torch.device(device):  # asked at every step
            self.samplings = [sampling.to(device) for sampling in self.samplings]
        return self


def resample(
    points: Tensor, n: int, count: int, seed: int, how: Subset = "farthest"
) -> list[Tensor]:
    """``count`` subsets of ``n`` points: farthest points, each from its own random start, or
    uniform draws.
    """
    if n >= len(points):
        return [points]
    if how == "uniform":
        generator = torch.Generator().manual_seed(seed)
        return [
            points[torch.randperm(len(points), generator=generator)[:n].to(points.device)]
            for _ in range(count)
        ]
    chosen = farthest_points(points.unsqueeze(0).expand(count, -1, -1), n, seed)  # (count, n)
    return [points[index] for index in chosen]


@dataclass
class FreshClouds:
    """``clouds`` samplings of their own for every step, as in the paper, with the paper's probes on
    them.

    The samplings of a step depend on the seed and the step (and the kind of device).  They come
    with their graphs, ``CHUNK`` at a time: on a GPU many cost hardly more than one.  With ``size``
    points or fewer the cloud is whole.
    """

    points: Tensor  # (n, d) in the frame of the cloud, float32
    probes: Probes
    size: int
    seed: int = 0
    how: Subset = "farthest"
    clouds: int = 1
    _chunk: tuple[int, list[Graph]] = (-1, [])

    def at(self, step: int) -> Batch:
        batches = max(1, CHUNK[self.points.device.type == "cuda"] // self.clouds)
        turn, place = divmod(step, batches)
        if self._chunk[0] != turn:
            generator = torch.Generator().manual_seed(self.seed * 7919 + turn)
            seed = int(torch.randint(2**31, (), generator=generator))
            self._chunk = (turn, self._graphs(batches, seed))
        graph = self._chunk[1][place % len(self._chunk[1])]
        draw = PaperDraw(self.probes, graph, self.clouds)
        return Batch(graph.points.unflatten(0, (self.clouds, -1)), probes=draw)

    def _graphs(self, batches: int, seed: int) -> list[Graph]:
        """Graphs of ``clouds`` stacked samplings each; of the whole cloud there is only one, which
        is kept.
        """
        if self.size >= len(self.points):
            known = self._chunk[1]
            return known or [self.probes.graph(self.points.expand(self.clouds, -1, -1))]
        samples = torch.stack(
            resample(self.points, self.size, batches * self.clouds, seed, self.how)
        )
        if self.clouds == 1:
            return self.probes.graph(samples).parts()
        return [self.probes.graph(each) for each in samples.split(self.clouds)]

    def to(self, device: torch.device | str) -> FreshClouds:
        """The same samplings, drawn on a device."""
        if self.points.device != torch.device(device):
            self.points, self._chunk = self.points.to(device), (-1, [])
        return self


class ManifoldData(pl.LightningDataModule):
    """A pool of samplings as a data loader: the same object again and again, since batches are
    chosen by step, not by a sampler that a restart would rewind; and rows to validate on."""

    def __init__(self, pool: Source, held_out: Sequence[Any] = (), steps: int = 1000) -> None:
        super().__init__()
        self.pool, self.held_out, self.steps = pool, held_out, steps

    def train_dataloader(self) -> DataLoader[Source]:
        return DataLoader([self.pool] * self.steps, batch_size=None)  # type: ignore[arg-type]

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(list(self.held_out), batch_size=None)  # type: ignore[arg-type]
