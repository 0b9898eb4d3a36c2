"""The symmetric averaging operator whose powers make probes, for one cloud or for several side by
side.

    A = I - c M^-1/2 (R - W) M^-1/2     W (n, n) symmetric weights, R their row sums, M the mass;
                                        the spectrum lies in [0, 1]
    lambda = (1 - mu) / step_time       one step advances heat by `step_time`, in squared units
                                        of the input

Several clouds are blocks on the diagonal of one matrix, of equal or unequal sizes; masses sum to 1
on each.  A `RowSmoother` holds the directed average S instead; as a symmetric operator it enters as
the covariance S^s (S^s)^T of the probes it makes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from torch import Tensor

from ..errors import InputError, warn
from ..neighbors.graph import Edges, Graph, components
from ..neighbors.layout import Segments, as_scipy

Apply = Callable[[Tensor], Tensor]
# steps of the probes whose covariance stands for a row smoother: [P]'s number for generalisation
ROW_STEPS = 20
# of the mean mass: that of an outlier, whose value is one over its root, must not be 0
LEAST = 1e-14


def numpy_too(method: Callable[..., Tensor]) -> Callable[..., Any]:
    """A method on functions that takes numpy arrays as well as tensors: what came in goes out."""

    @wraps(method)
    def call(self: Smoother, x: Any, *more: Any) -> Any:
        if isinstance(x, Tensor):
            return method(self, x, *more)
        return (
            method(self, torch.as_tensor(x, dtype=self.dtype, device=self.device), *more)
            .cpu()
            .numpy()
        )

    return call


@dataclass(frozen=True)
class Smoother:
    """``matrix`` is A (S of a `RowSmoother`), sparse CSR ``(n, n)``; ``mass (n,)`` is positive,
    sums to 1 per cloud.

    ``clouds`` are the sizes of stacked clouds (empty: one cloud), and ``step_time`` is then a
    tensor with a number per cloud. ``degree (n,)`` is ``1 - A_ii`` without its cancellation, where
    it is known. ``lowest`` is a number where a potential or boundary was added (`alteration`):
    eigenvalues are counted from it, and ``sqrt(mass)`` is not fixed. ``density (n,)`` is the mass
    of a unit of length, area or volume, where the measure is another one.
    """

    kind: str
    matrix: Tensor
    graph: Graph | None
    mass: Tensor
    step_time: Any
    dimension: float
    clouds: tuple[int, ...] = ()
    degree: Tensor | None = None
    lowest: float | None = None
    density: Tensor | None = None
    fixed: Tensor | None = None  # (n,) bool: where functions vanish
    edges: Edges | None = None  # that the matrix was made of: they know its parts already

    @property
    def known_graph(self) -> Graph:
        """Its graph; an error where it was made without one."""
        if self.graph is None:
            raise InputError("this smoother keeps no points: it was made without a graph")
        return self.graph

    @property
    def known_degree(self) -> Tensor:
        """``1 - A_ii (n,)``, from the matrix where it is not known better."""
        if self.degree is not None:
            return self.degree
        rows, columns, values = self.entries()
        loop = rows == columns
        return torch.ones_like(self.mass, dtype=values.dtype).index_add_(
            0, rows[loop], -values[loop]
        )

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def fixes_mass(self) -> bool:
        """Whether ``sqrt(mass)``, the constant function, is known to be the first eigenvector."""
        return self.lowest is None

    @property
    def n(self) -> int:
        return self.matrix.shape[0]

    @cached_property
    def each(self) -> Segments:
        """The stacked clouds."""
        return Segments(self.clouds or (self.n,), self.device)

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    @numpy_too
    def apply(self, x: Tensor) -> Tensor:
        """One smoothing step of ``x (n,)`` or ``(n, m)``; ``(b, n, m)`` for ``b`` clouds, padded to
        the largest.
        """
        if x.ndim <= 2:
            return self.matrix @ x
        if x.ndim == 3 and self.clouds and not self.each.equal:
            return self.each.padded(self.matrix @ self.each.stacked(x))
        return (self.matrix @ x.reshape(self.n, -1)).reshape(x.shape)

    @numpy_too
    def apply_transpose(self, x: Tensor) -> Tensor:
        """``S^T x``; the same as `apply` where the smoother is symmetric."""
        return self.apply(x)

    @numpy_too
    def apply_symmetric(self, x: Tensor, steps: int = ROW_STEPS) -> Tensor:
        """``A x``; for a row smoother ``S^s (S^s)^T x``, the covariance of its probes. Keeps the
        shape of ``x``.
        """
        return self.apply(x)

    def power(self, x: Tensor, steps: int) -> Tensor:
        """``steps`` smoothing steps."""
        for _ in range(steps):
            x = self.apply(x)
        return x

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Smoother:
        """The same operator on another device or in another precision (the graph stays where it
        is).
        """
        kinds = {**dict.fromkeys(("matrix", "mass", "degree", "density"), dtype), "step_time": None}
        held: dict[str, Any] = {
            name: value for name in kinds if isinstance(value := getattr(self, name), Tensor)
        }
        return replace(
            self,
            **{name: value.to(device=device, dtype=kinds[name]) for name, value in held.items()},
        )

    def single(self) -> Smoother:
        """The same operator of a stack of one cloud as that of a cloud: a sparse matrix, one number
        as its step.
        """
        graph = None if self.graph is None else replace(self.graph, clouds=())
        return replace(self, graph=graph, step_time=float(self.step_time), clouds=())

    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, columns and values of the stored entries, in the order of the rows."""
        return rows_of(self.matrix), self.matrix.col_indices().long(), self.matrix.values()

    @cached_property
    def components(self) -> tuple[int, Tensor]:
        """The number of connected components and the label ``(n,)`` of every point."""
        if self.edges is not None:
            count, labels = self.edges.components
            return count, labels.to(self.device)
        rows, columns, _ = self.entries()
        return components(rows, columns, self.n)

    def warn_of_parts(self) -> int:
        """The number of separate parts of the cloud, with one warning if there are several."""
        count, labels = self.components
        if count > max(1, len(self.clouds)):
            sizes = np.sort(np.bincount(labels.cpu().numpy()))[::-1]
            shown = ", ".join(map(str, sizes[:5])) + (", ..." if count > 5 else "")
            warn(
                f"the cloud has {count} separate parts ({shown} points): {count} eigenvalues "
                "are 0, the constant's "
                "included (more neighbours may join the parts)"
            )
        return count


class RowSmoother(Smoother):
    """The paper's directed average ``S``: rows sum to 1, and nothing is symmetric.

    ``mass`` is that of the samples, equal for all: the mass of a basis is learned, as the square of
    its first vector.
    """

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def fixes_mass(self) -> bool:
        return False

    @numpy_too
    def apply_transpose(self, x: Tensor) -> Tensor:
        """``S^T x``."""
        return self._transpose @ x

    @numpy_too
    def apply_symmetric(self, x: Tensor, steps: int = ROW_STEPS) -> Tensor:
        """``S^s (S^s)^T x``, the covariance of the probes of ``s`` steps. Keeps the shape of
        ``x``.
        """
        flat = x.reshape(self.n, -1).to(self.dtype)
        for _ in range(steps):
            flat = self._transpose @ flat
        return self.power(flat, steps).reshape(x.shape)

    @cached_property
    def _transpose(self) -> Tensor:
        return transpose(self.matrix)


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR matrix with 32-bit indices where they suffice: half of the index traffic of every
    product.
    """
    small = values.numel() < 2**31 and max(shape) < 2**31
    index = torch.int32 if small else torch.int64
    with warnings.catch_warnings():  # torch announces once per process that this layout is in beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            pointers.to(index), columns.to(index), values, shape, check_invariants=False
        )


def on_host(matrix: Tensor) -> bool:
    """Whether scipy's kernels work on this matrix: they count where torch sorts, which takes
    several times as long.
    """
    return matrix.device.type == "cpu"


def from_scipy(matrix: Any) -> Tensor:
    """A scipy CSR matrix as a torch one over the same memory."""
    pointers, columns, values = (
        torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return csr(pointers, columns, values, matrix.shape)


def transpose(matrix: Tensor) -> Tensor:
    """``A^T`` of a CSR matrix."""
    if on_host(matrix):
        return from_scipy(as_scipy(matrix).T.tocsr())
    columns, (rows, width) = matrix.col_indices(), matrix.shape
    order = columns.argsort(stable=True)
    return csr(
        pointers_to(columns, width), rows_of(matrix)[order], matrix.values()[order], (width, rows)
    )


def pointers_to(rows: Tensor, count: int) -> Tensor:
    """Where the entries of each of ``count`` rows begin, of the row of every entry."""
    return torch.nn.functional.pad(torch.bincount(rows, minlength=count).cumsum(0), (1, 0))


def rows_of(matrix: Tensor) -> Tensor:
    """The row of every stored entry of a CSR matrix."""
    rows = torch.arange(matrix.shape[0], device=matrix.device)
    return rows.repeat_interleave(matrix.crow_indices().diff(), output_size=matrix.values().numel())


def conjugate_gradients(
    times: Apply, nearly: Apply, residual: Tensor, target: Tensor, steps: int, each: Segments
) -> Tensor:
    """The solution ``(n,)`` of ``A x = residual``, for many problems at once, each of which ends on
    its own: where ``<r, nearly r>`` is at most ``target (b,)``.

    ``times`` is A, ``nearly`` about its inverse.
    """
    solution, direction = torch.zeros_like(residual), torch.zeros_like(residual)
    last = torch.full_like(target, torch.inf)
    every = 1 if residual.device.type == "cpu" else 4  # to look is to wait for the device
    for number in range(steps):
        near = nearly(residual)
        size = each.inner(residual, near)
        going = size > target
        if number % every == 0 and not bool(going.any()):
            break
        direction = torch.addcmul(
            near, each.spread(torch.where(going, size / last, 0.0)), direction
        )
        image, last = times(direction), size
        step = torch.where(going, size / each.inner(direction, image), 0.0)
        solution = torch.addcmul(solution, each.spread(step), direction)
        residual = torch.addcmul(residual, each.spread(step), image, value=-1)
    return solution


def symmetric_matrix(edges: Edges, off: Tensor, diagonal: Tensor) -> Tensor:
    """Sparse CSR from the values of the edges (each once, without loops) and the diagonal."""
    loop = torch.arange(edges.n, device=off.device)
    rows, columns = (
        torch.cat([edges.head, edges.tail, loop]),
        torch.cat([edges.tail, edges.head, loop]),
    )
    return from_entries(rows, columns, torch.cat([off, off, diagonal]), edges.n)


def from_entries(rows: Tensor, columns: Tensor, values: Tensor, n: int) -> Tensor:
    """Sparse CSR ``(n, n)`` of entries in any order, none of which stands twice."""
    if on_host(values):
        place = np.arange(1, len(values) + 1)
        found = coo_array((place, (rows.numpy(), columns.numpy())), shape=(n, n)).tocsr()
        order, pointers = torch.from_numpy(found.data - 1), torch.from_numpy(found.indptr)
    else:
        order, pointers = torch.argsort(rows * n + columns), pointers_to(rows, n)
    return csr(pointers, columns[order], values[order], (n, n))


def laplacian_smoother(
    edges: Edges,
    weight: Tensor,
    mass: Tensor,
    graph: Graph | None,
    dimension: float,
    kind: str = "adaptive",
) -> Smoother:
    """``A = I - c M^-1/2 (R - W) M^-1/2`` from symmetric weights and an unnormalised mass; ``c``
    keeps A in [0, 1].

    Gershgorin: the eigenvalues of ``M^-1 (R - W)`` are at most ``2 max(r/m)``, taken per cloud
    where there are several.
    """
    if edges.n < 2:
        raise InputError(f"a smoother needs at least 2 points, got {edges.n}")
    sizes = graph.clouds if graph is not None else ()
    mass = mass.clamp_min(LEAST * mass.mean())
    rate = edges.at(weight) / mass
    clouds = Segments(sizes or (edges.n,), mass.device)
    steps = 0.5 / clouds.padded(rate).amax(1)
    each, normalised = clouds.spread(steps), mass / clouds.spread(clouds.sum(mass))
    degree, step = each * rate, steps if sizes else float(steps.detach())
    off = weight * (mass[edges.head] * mass[edges.tail]).rsqrt() * each[edges.head]
    matrix = symmetric_matrix(edges, off, 1 - degree)
    return Smoother(kind, matrix, graph, normalised, step, dimension, sizes, degree, edges=edges)
