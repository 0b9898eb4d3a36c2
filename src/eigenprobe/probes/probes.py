"""Probes: random signals smoothed on the kNN graph.

    f = S_T ... S_1 g,   S = D^-1 W,   w_ij = exp(-d_ij^2 / sigma^2),   g ~ U[-1,1]^n  or  N(0,1)^n

`sigma`, `k` and the number of steps are numbers or ranges ``(low, high)``; a range is drawn for
every field (each of the m columns has its own smoothing) or for every step (all columns share it).
Shapes: points (n, d) or (b, n, d) -> probes (n, m) or (b, n, m).

These are the paper's probes, on the directed graph.  Probes of a given `Smoother` (`symmetric`,
`adaptive`) are those of `families`; their exact covariance is in `covariance`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..host.device import fused
from ..host.validation import validated
from ..neighbors.graph import Graph, build_graph
from ..points import as_tensor

Distribution = Literal["uniform", "gaussian"]


@validated
@dataclass(frozen=True)
class Probes:
    """A distribution of probe functions; `draw` samples it.

    Parameters
    ----------
    count
        ``m``, the number of probes in a draw.
    steps, k, sigma
        A number, or a range ``(low, high)``, ends included.  ``sigma=None``: the median distance to
        the 10th neighbour.
    distribution
        Of the seed signal: ``"uniform"`` on [-1, 1] (variance 1/3) or ``"gaussian"`` (variance 1).
    vary
        Ranges of ``k`` and ``sigma`` are drawn per ``"field"`` (the paper) or per ``"step"``.
    metric, self_loops
        Of the graph: distances, and whether every point is a neighbour of its own.

    Examples
    --------
    >>> cloud = torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    >>> Probes(count=8, steps=(5, 20)).draw(cloud).shape
    torch.Size([300, 8])
    """

    count: int = 500
    steps: int | tuple[int, int] = 20
    k: int | tuple[int, int] = 15
    sigma: float | tuple[float, float] | None = None
    distribution: Distribution = "uniform"
    vary: Literal["field", "step"] = "field"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    self_loops: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"expected at least one probe, got count={self.count}")
        for name, low in (("steps", 0), ("k", 1), ("sigma", 0.0)):
            value = getattr(self, name)
            if value is None:
                continue
            first, last = _ends(value)
            if not low <= first <= last or (name == "sigma" and first == 0):
                raise InputError(
                    f"expected {name}, a number or a range (low, high), of at least {low}, "
                    f"got {value!r}"
                )

    @property
    def widest(self) -> int:
        """The largest number of neighbours."""
        return _ends(self.k)[1]

    @property
    def longest(self) -> int:
        """The largest number of steps."""
        return _ends(self.steps)[1]

    def graph(self, points: Tensor) -> Graph:
        """The graph on which these probes are smoothed.

        Parameters
        ----------
        points
            A tensor ``(n, d)``, or one of stacked clouds ``(b, n, d)``.

        Returns
        -------
        Graph

        Examples
        --------
        >>> Probes(k=7).graph(torch.rand(300, 3)).k
        7
        """
        sizes = (points.shape[1],) * len(points) if points.ndim == 3 else ()
        flat = points.flatten(0, -2)
        return build_graph(
            flat, self.widest, metric=self.metric, self_loops=self.self_loops, clouds=sizes
        )

    def draw(
        self, cloud: Any, generator: torch.Generator | None = None, *, compiled: bool = False
    ) -> Any:
        """Probes on a cloud.

        Parameters
        ----------
        cloud
            Points ``(n, d)``, a batch of clouds ``(b, n, d)``, or a graph.
        generator
            Of random numbers.
        compiled
            Whether a step is one kernel on a GPU, which takes seconds once and pays where many
            draws of one size follow.

        Returns
        -------
        ``(n, m)``, or ``(b, n, m)``: numpy for numpy, a list, a file or a mesh; a tensor for a
        tensor and a graph of tensors.

        Examples
        --------
        >>> import numpy as np
        >>> angle = np.arange(200) * np.pi / 100
        >>> circle = np.stack([np.cos(angle), np.sin(angle)], 1)
        >>> Probes(count=3).draw(circle, torch.Generator().manual_seed(0)).shape
        (200, 3)
        """
        if isinstance(cloud, Graph):
            given = isinstance(cloud.indices, Tensor)
            drawn = self._on_graph(cloud if given else cloud.torch(), generator, compiled and given)
            return drawn if given else drawn.numpy()
        if not isinstance(cloud, Tensor):
            convert = torch.as_tensor if getattr(cloud, "ndim", 2) == 3 else as_tensor
            return self.draw(convert(cloud), generator).numpy()
        if cloud.ndim == 3 and self.sigma is None:  # chosen for each cloud
            return torch.stack([self.draw(points, generator) for points in cloud])
        # One set of kernels for all clouds.
        drawn = self._on_graph(self.graph(cloud), generator, compiled)
        return drawn.unflatten(0, cloud.shape[:2]) if cloud.ndim == 3 else drawn

    def _on_graph(self, graph: Graph, generator: torch.Generator | None, compiled: bool) -> Tensor:
        """Probes ``(n, m)`` on a graph of tensors, of one cloud or of stacked ones."""
        if graph.k < self.widest:
            raise InputError(
                f"expected a graph with at least {self.widest} neighbours, got {graph.k}"
            )
        graph = graph.truncate(self.widest)
        if compiled and self.alike and graph.device.type == "cuda":
            return self.smooth(*self.seeds(graph, generator))
        signal = seed_signal(graph.n, self.count, self.distribution, graph.distances, generator)
        lengths = self._lengths(graph, generator)  # (m,)
        varying = not isinstance(self.steps, int)
        last = int(lengths.max()) if varying else self.longest
        fixed = None if self.vary == "step" else self._weights(graph, self.count, generator)
        for step in range(last):
            weights = self._weights(graph, 1, generator) if fixed is None else fixed
            # One neighbour at a time: the (n, k, m) gather of the whole neighbourhood would be k
            # times the probes' memory.
            smoothed = torch.zeros_like(signal)
            for j in range(graph.k):
                smoothed.addcmul_(weights[:, j].expand_as(signal), signal[graph.indices[:, j]])
            signal = torch.where(lengths > step, smoothed, signal) if varying else smoothed
        return signal

    @property
    def alike(self) -> bool:
        """Whether all fields take the same steps over the same neighbours: then `smooth` can make
        them.
        """
        return isinstance(self.steps, int) and isinstance(self.k, int) and self.vary == "field"

    def seeds(
        self, graph: Graph, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All that a draw takes of generator and cloud: signal ``(n, m)``, sigma, neighbours,
        distances ``(n, k)``.
        """
        graph = graph.truncate(self.widest)
        signal = seed_signal(graph.n, self.count, self.distribution, graph.distances, generator)
        self._lengths(graph, generator)  # drawn before sigma
        return signal, self._sigma(graph, self.count, generator), graph.indices, graph.distances

    def smooth(self, signal: Tensor, sigma: Tensor, indices: Tensor, distances: Tensor) -> Tensor:
        """The probes ``(n, m)`` of `seeds`: nothing but kernels on tensors, so that a GPU can
        replay them as a graph.

        Bound by reading the signal again for every neighbour: half the bytes, sums in single
        precision.
        """
        half, near, exponents = signal.half(), indices.int(), _exponents(distances)
        rates = sigma.square().reciprocal() / math.log(2)  # exp(x / sigma^2) = 2^(rate x)
        for _ in range(self.longest):
            half = _step(half, near, exponents, rates)
        return half.to(signal.dtype)

    def __call__(self, cloud: Any) -> Any:
        """Those of seed 0, so that ``decompose(points, probes=Probes(...))`` reconstructs them.

        Parameters
        ----------
        cloud
            As in `draw`.

        Returns
        -------
        As `draw`.

        Examples
        --------
        >>> cloud = torch.rand(300, 3)
        >>> bool((Probes(count=8)(cloud) == Probes(count=8)(cloud)).all())
        True
        """
        device = cloud.device if isinstance(cloud, Tensor) else "cpu"
        return self.draw(cloud, torch.Generator(device).manual_seed(0))

    def _lengths(self, graph: Graph, generator: torch.Generator | None) -> Tensor:
        low, high = _ends(self.steps)
        place = graph.distances.device
        return torch.randint(low, high + 1, (self.count,), generator=generator, device=place)

    def _sigma(self, graph: Graph, fields: int, generator: torch.Generator | None) -> Tensor:
        """One bandwidth, or one for each field."""
        distances = graph.distances
        if self.sigma is None:
            return distances[:, min(10, graph.k) - 1].median().reshape(1)
        if isinstance(self.sigma, (int, float)):
            return torch.full_like(distances[:1, 0], float(self.sigma))
        low, high = self.sigma
        drawn = torch.rand(
            fields, generator=generator, device=distances.device, dtype=distances.dtype
        )
        return low + (high - low) * drawn

    def _weights(self, graph: Graph, fields: int, generator: torch.Generator | None) -> Tensor:
        """Row-stochastic weights ``(n, k, fields)``, or ``(n, k, 1)`` where no field differs."""
        sigma = self._sigma(graph, fields, generator)
        exponents = _exponents(graph.distances).unsqueeze(-1)
        weights = torch.exp(exponents / sigma.square())  # (n, k, 1 or fields)
        if not isinstance(self.k, int):
            counts = torch.randint(
                self.k[0], self.k[1] + 1, (fields,), generator=generator, device=graph.device
            )
            weights = weights * (torch.arange(graph.k, device=graph.device)[:, None] < counts)
        return weights / weights.sum(1, keepdim=True)


def _ends(value: Any) -> Any:
    """A range ``(low, high)``; a number is one of no width."""
    return value if isinstance(value, (tuple, list)) else (value, value)


def _exponents(distances: Tensor) -> Tensor:
    """``d_0^2 - d^2 (n, k)``: weights are exp(this / sigma^2).

    Shifting by the nearest distance leaves the normalised weights unchanged and keeps one of them
    at 1: a small sigma then never underflows a whole row to 0 / 0.
    """
    return distances[:, :1].square() - distances.square()


@fused
def _step(signal: Tensor, indices: Tensor, exponents: Tensor, rates: Tensor) -> Tensor:
    """One step in one pass over ``signal (n, m)``: weights computed again are faster than ``(n, k,
    m)`` read again.
    """
    total, mass = torch.zeros_like(exponents[:1, :1]), torch.zeros_like(exponents[:1, :1])
    for j in range(indices.shape[1]):
        weights = torch.exp2(exponents[:, j : j + 1] * rates)
        total, mass = total + weights * signal[indices[:, j]], mass + weights
    return (total / mass).to(signal.dtype)


def seed_signal(
    n: int,
    count: int,
    distribution: Distribution,
    like: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    """White noise ``(n, m)`` of the dtype and device of ``like``."""
    shape = (n, count)
    if distribution == "uniform":
        return 2 * torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype) - 1
    if distribution == "gaussian":
        return torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)
    raise InputError(f"distribution must be 'uniform' or 'gaussian', got {distribution!r}")
