"""Graph -> smoother: the sparse averaging operator whose powers make probes.

    row         S = D^-1 W,  w_ij = exp(-d_ij^2 / sigma^2) on the directed graph                      [the paper]
    symmetric   W <- max(W, W^T),  W <- D^-alpha W D^-alpha,  A = R^-1/2 W R^-1/2,  M = R / sum R
    adaptive    A = I - c M^-1/2 (R - W) M^-1/2,  M the local time, sum_j w_ij d_ij^2 / (2 dim), normalised to sum 1
                in one to three dimensions W is balanced (see `balance`); above, w_ij = exp(-d_ij^2/(4 eps rho_i rho_j))
                with rho = density^beta, right-normalised by (W1/rho^dim)^(1 + (dim/2 + 1) beta)

One step advances heat by ``step_time``, in the squared units of the input, so `lambda = (1 - mu) / step_time`.
Everything is O(n k): sparse CSR, float64 or float32, on the device of the points.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph, Metric, build_graph, estimate_dimension
from .balanced import balanced_edges

for _notice in ("Sparse CSR tensor support is in beta state", "Sparse invariant checks are implicitly disabled"):
    warnings.filterwarnings("ignore", message=_notice)  # torch says so once a process; there is nothing to act on

Kind = Literal["row", "symmetric", "adaptive"]
KINDS: tuple[Kind, ...] = ("row", "symmetric", "adaptive")
NEIGHBOURS = {"row": 15, "symmetric": 15, "adaptive": 30}
BALANCED_DIMENSIONS = 3  # balance needs neighbours on all sides: too many of them above this
BETA = -0.25


@dataclass(frozen=True)
class Smoother:
    """``matrix`` is S (row) or the symmetric A, sparse CSR (n, n); ``mass`` (n,) sums to 1, None for row."""

    kind: str
    matrix: Tensor
    graph: Graph | None
    mass: Tensor | None
    step_time: float
    dimension: float

    @property
    def symmetric(self) -> bool:
        return self.kind != "row"

    @property
    def n(self) -> int:
        return self.matrix.shape[0]

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    def apply(self, x: Tensor) -> Tensor:
        """One smoothing step of ``x (n,)`` or ``(n, m)``."""
        return self.matrix @ x

    def apply_transpose(self, x: Tensor) -> Tensor:
        """``S^T x``; the same as `apply` where the smoother is symmetric."""
        return self.matrix @ x if self.symmetric else self._transpose @ x

    def power(self, x: Tensor, steps: int) -> Tensor:
        """``steps`` smoothing steps."""
        for _ in range(steps):
            x = self.apply(x)
        return x

    def extend(self, points: Tensor, values: Tensor) -> Tensor:
        """Values ``(n,)`` or ``(n, m)`` at the cloud's points extended to new points, each on its own."""
        from ..extensions.kernel import KernelExtension

        if self.graph is None:
            raise InputError("this smoother keeps no points, so it has no values at new ones")
        columns = values if values.ndim == 2 else values[:, None]
        extended = KernelExtension.fit(self.graph.points, columns, self.graph.metric)(points)
        return extended if values.ndim == 2 else extended[:, 0]

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Smoother:
        """The same operator on another device or in another precision (the graph stays where it is)."""
        mass = None if self.mass is None else self.mass.to(device=device, dtype=dtype)
        return replace(self, matrix=self.matrix.to(device=device, dtype=dtype), mass=mass)

    @property
    def _transpose(self) -> Tensor:
        cached = self.__dict__.get("_cached_transpose")
        if cached is None:
            cached = self.matrix.to_sparse_coo().t().coalesce().to_sparse_csr()
            object.__setattr__(self, "_cached_transpose", cached)
        return cached


def build_smoother(
    source: Tensor | Graph,
    kind: Kind = "adaptive",
    *,
    k: int | None = None,
    bandwidth: float | None = None,
    dimension: float | None = None,
    self_loops: bool = False,
    metric: Metric = "euclidean",
    alpha: float = 1.0,
    balance: bool | None = None,
) -> Smoother:
    """A smoother on a cloud ``(n, d)`` or on its graph; every setting that is not given is chosen from the data.

    ``bandwidth`` is sigma of the Gaussian (row, symmetric, and adaptive where it is not balanced); ``alpha`` is the
    power of the density that `symmetric` divides by; ``balance`` forces balanced weights on or off (adaptive).
    """
    if kind not in KINDS:
        raise InputError(f"smoother must be one of {', '.join(KINDS)}, got {kind!r}")
    if isinstance(source, Graph):
        graph = source
    else:
        most = source.shape[0] - 1
        graph = build_graph(source, min(k or NEIGHBOURS[kind], most), metric=metric, self_loops=self_loops)
    if dimension is None:
        dimension = estimate_dimension(graph)
    if kind != "adaptive":
        return _gaussian(graph, kind, bandwidth, dimension, alpha)
    if graph.self_loops:
        graph = Graph(graph.points, graph.indices[:, 1:], graph.distances[:, 1:], graph.metric)
    if balance is None:
        balance = dimension < BALANCED_DIMENSIONS + 0.5 and graph.metric == "euclidean" and bandwidth is None
    return _balanced(graph, dimension) if balance else _variable_bandwidth(graph, bandwidth, dimension)


def block_diagonal(smoothers: Sequence[Smoother]) -> Smoother:
    """Several clouds as one smoother on their stacked points; masses keep their own sums of 1."""
    if not smoothers:
        raise InputError("expected at least one smoother, got none")
    kinds = {s.kind for s in smoothers}
    if len(kinds) > 1:
        raise InputError(f"expected smoothers of one kind, got {', '.join(sorted(kinds))}")
    pointers: list[Tensor] = []
    columns: list[Tensor] = []
    values: list[Tensor] = []
    rows = entries = 0
    for s in smoothers:
        pointers.append(s.matrix.crow_indices()[(0 if not pointers else 1) :] + entries)
        columns.append(s.matrix.col_indices() + rows)
        values.append(s.matrix.values())
        rows, entries = rows + s.n, entries + s.matrix.values().numel()
    matrix = _csr(torch.cat(pointers), torch.cat(columns), torch.cat(values), rows)
    masses = [s.mass for s in smoothers if s.mass is not None]
    return Smoother(
        kind=smoothers[0].kind,
        matrix=matrix,
        graph=None,
        mass=torch.cat(masses) if masses else None,
        step_time=sum(s.step_time for s in smoothers) / len(smoothers),
        dimension=sum(s.dimension for s in smoothers) / len(smoothers),
    )


def symmetric_matrix(head: Tensor, tail: Tensor, off: Tensor, diagonal: Tensor) -> Tensor:
    """Sparse CSR from the edges ``head, tail`` (each once, without loops) and the diagonal."""
    n = diagonal.shape[0]
    loop = torch.arange(n, device=head.device)
    rows, columns = torch.cat([head, tail, loop]), torch.cat([tail, head, loop])
    order = torch.argsort(rows * n + columns)
    pointers = torch.zeros(n + 1, dtype=torch.int64, device=head.device)
    pointers[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    return _csr(pointers, columns[order], torch.cat([off, off, diagonal])[order], n)


def laplacian_smoother(
    head: Tensor, tail: Tensor, weight: Tensor, mass: Tensor, graph: Graph | None, dimension: float
) -> Smoother:
    """``A = I - c M^-1/2 (R - W) M^-1/2`` from symmetric weights and an unnormalised mass; ``c`` keeps A in [0, 1]."""
    n = mass.shape[0]
    degree = torch.zeros_like(mass).index_add_(0, head, weight).index_add_(0, tail, weight)
    rate = degree / mass
    step = 1 / (2 * float(rate.max()))  # Gershgorin: the eigenvalues of M^-1 (R - W) are at most 2 max(r/m)
    off = step * weight * (mass[head] * mass[tail]).rsqrt()
    if n == 1:
        raise InputError("a smoother needs at least 2 points, got 1")
    matrix = symmetric_matrix(head, tail, off, 1 - step * rate)
    return Smoother("adaptive", matrix, graph, mass / mass.sum(), step, dimension)


def _balanced(graph: Graph, dimension: float) -> Smoother:
    whole = max(1, min(round(dimension), graph.points.shape[1]))
    edges = balanced_edges(graph.points, graph.indices, graph.distances, whole)
    return laplacian_smoother(edges.head, edges.tail, edges.weight, edges.mass, graph, float(whole))


def _variable_bandwidth(graph: Graph, bandwidth: float | None, dimension: float) -> Smoother:
    """Berry-Harlim weights with the local-time mass, for clouds of higher dimension."""
    squared = graph.distances if graph.metric == "cosine" else graph.distances.square()
    reach = squared[:, min(10, graph.k) - 1].sqrt().clamp_min(torch.finfo(squared.dtype).tiny)
    rho = (reach / reach.log().mean().exp()) ** (-dimension * BETA)  # density ~ reach^-dim
    head, tail, distance2 = _undirected(graph.indices, squared)
    scale = (reach / rho).square().median() if bandwidth is None else torch.tensor(bandwidth**2)
    weight = torch.exp(-distance2 / (scale.to(squared) * rho[head] * rho[tail]))
    density = (1 + _degree(head, tail, weight, graph.n)) / rho**dimension
    power = density ** -(1 + (dimension / 2 + 1) * BETA)
    weight = weight * (power / power.log().mean().exp())[head] * power[tail]
    moment = weight * distance2
    mass = _degree(head, tail, moment, graph.n) / (2 * dimension)
    return laplacian_smoother(head, tail, weight, mass, graph, dimension)


def _gaussian(graph: Graph, kind: Kind, bandwidth: float | None, dimension: float, alpha: float) -> Smoother:
    squared = graph.distances if graph.metric == "cosine" else graph.distances.square()
    first = 1 if graph.self_loops else 0
    tenth = squared[:, min(9 + first, graph.k - 1)].median()
    sigma2 = tenth if bandwidth is None else torch.tensor(bandwidth**2, dtype=squared.dtype, device=squared.device)
    if not bool(sigma2 > 0):
        raise InputError("the bandwidth chosen from the data is zero: most points coincide")
    n = graph.n
    if kind == "row":
        weight = torch.exp(-squared / sigma2).clamp_min(torch.finfo(squared.dtype).tiny)
        weight = weight / weight.sum(1, keepdim=True)
        time = float((weight * squared).sum(1).mean() / (2 * dimension))
        pointers = torch.arange(0, n * graph.k + 1, graph.k, device=graph.device)
        columns, order = graph.indices.sort(1)
        matrix = _csr(pointers, columns.reshape(-1), weight.gather(1, order).reshape(-1), n)
        return Smoother("row", matrix, graph, None, time, dimension)
    head, tail, distance2 = _undirected(graph.indices[:, first:], squared[:, first:])
    weight = torch.exp(-distance2 / sigma2).clamp_min(torch.finfo(squared.dtype).tiny)
    loops = torch.full((n,), float(graph.self_loops), dtype=weight.dtype, device=weight.device)
    density = (_degree(head, tail, weight, n) + loops) ** -alpha
    weight, loops = weight * density[head] * density[tail], loops * density.square()
    degree = _degree(head, tail, weight, n) + loops
    time = float(2 * (weight * distance2).sum() / degree.sum() / (2 * dimension))
    matrix = symmetric_matrix(head, tail, weight * (degree[head] * degree[tail]).rsqrt(), loops / degree)
    return Smoother("symmetric", matrix, graph, degree / degree.sum(), time, dimension)


def _undirected(indices: Tensor, squared: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Edges that stand in the list of either end, each once, with their squared distances."""
    n, k = indices.shape
    rows = torch.arange(n, device=indices.device)[:, None].expand(n, k)
    key = (torch.minimum(rows, indices) * n + torch.maximum(rows, indices)).reshape(-1)
    key, inverse = torch.unique(key, return_inverse=True)
    distance2 = torch.zeros(key.shape, dtype=squared.dtype, device=squared.device)
    distance2[inverse] = squared.reshape(-1)  # both ends give the same distance
    return key // n, key % n, distance2


def _degree(head: Tensor, tail: Tensor, weight: Tensor, n: int) -> Tensor:
    total = torch.zeros(n, dtype=weight.dtype, device=weight.device)
    return total.index_add_(0, head, weight).index_add_(0, tail, weight)


def _csr(pointers: Tensor, columns: Tensor, values: Tensor, n: int) -> Tensor:
    small = values.numel() < 2**31 and n < 2**31
    index = torch.int32 if small else torch.int64  # half the index traffic of every product
    return torch.sparse_csr_tensor(pointers.to(index), columns.to(index), values, (n, n), check_invariants=False)
