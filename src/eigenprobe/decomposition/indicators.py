"""Signs that the first ten eigenvalues are off by more than a tenth, from the graph and the mass
alone.

    resolution   lambda_11 sum_i m_i h_i^2     h_i^2: mean squared distance to 4 neighbours; a wave
                                               of that eigenvalue has about 40 / resolution samples
    sparseness   sum_i m_i h_i^2 / median h^2  much of the mass has hardly a point
    layers       n sqrt(lambda_2 h^2) / pi     points side by side across a narrow surface
    boundary     sum m_i over points whose cells are open
    leap         median d_{j+1} / d_j          where points come in groups, the first are much
    nearer thickness    s_{a+1} / s_1 of the nearest  deviations across and along a manifold of
    dimension a noise        sigma sqrt(d - 2) / h         deviation from the quadric through 16
    neighbours jumps        share of the energy of functions in edges that are steep to the manifold

The measured errors behind the numbers are those of `benchmarks.truths`: tests/truths checks that
every row is right to .10 or said to be wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..eigen.span import RitzPairs
from ..errors import warn
from ..graph import Graph
from ..graph.quadrics import fit_quadrics
from ..sampling.inspection import NEAREST as NEIGHBOURS
from ..search.layout import principal_axes
from ..smoothers import BALANCED_DIMENSIONS, Smoother
from ..smoothers.cells import open_cells
from ..smoothers.prepared import Prepared
from ..smoothers.stencil import tangent_frames


class Signs(NamedTuple):
    """Above these the mean error of the first ten was more than .1 on most clouds of known
    spectrum; pairs are for surfaces and solids.
    """

    resolution: float = 1.0  # .1 on spheres of 60 points (2.0), .03 on spheres of 200 (.6)
    resolution_even: float = 4.0  # of an even curve: .105 on lines of 12 points (4.3)
    sparse: float = 0.2  # resolution of a cloud most of whose mass has few points, ...
    sparseness: tuple[float, float] = (4.0, 1.8)  # ... 4 to 10^4 there, 1.4 and 1.2 elsewhere
    layers: tuple[float, float] = (6.0, 17.0)  # .05 to .17 with 5 across, .01 to .05 with 7
    boundary: tuple[float, float] = (0.25, 0.4)  # .14 in noisy circles (.31), .10 in rods (.40)
    closed: tuple[float, float] = (0.45, 0.05)  # resolution and boundary that trust a count
    leap: float = 2.0  # 1.4 for random points of a surface, 1.7 in a hexagonal grid
    thickness: tuple[float, float] = (0.1, 0.25)  # of curves and surfaces; random points: 0
    steep: float = 0.5  # cosine of an edge with the tangent at an end, below which it jumps
    # share of the energy in such edges: .04 to .27 where turns are joined, .06 to .09 in rolls
    jumps: tuple[float, float] = (0.04, 0.05)
    noise: float = 0.185  # .10 to .15 on noisy surfaces of 500 points (.185 to .27)
    cuts: float = 1.5  # edges cut per point: two grids one spacing apart 4.5, meshes 0 to 1
    fewest: int = 48  # points: three times those by which a dimension is chosen
    equal: float = 1.01  # sixth over first distance of a grid
    beyond: float = 1.6  # third over second distance of an even curve: up to 2
    regular: float = 1.5  # times the boundary of a grid, all of whose outer cells are open
    samples: int = 1000


SIGNS = Signs()
NEAREST = 4
FEW = 5000  # points up to which folds may lie as near each other as points
RESOLVED = 10.0  # residuals in a gap: an error of a hundredth
HIDDEN = 1e-4  # diagonal of I - A below which gaps are looked for in a factor


def warn_of_errors(prepared: Prepared, rotation: RitzPairs, chosen: bool) -> None:
    """One line where the first ten are likely to be off; ``chosen`` is the dimension by the
    caller.
    """
    graph, smoother = prepared.smoother.graph, prepared.smoother
    few = len(rotation.eigenvalues) < 2
    if graph is None or graph.metric != "euclidean" or few or graph.k < 2:
        return
    mass = smoother.mass.double()
    reason = likely_reason(graph, mass, rotation.eigenvalues, smoother.dimension, chosen)
    cuts = 0 if prepared.cloud.short_cuts is None else len(prepared.cloud.short_cuts)
    if reason is None and cuts > SIGNS.cuts * graph.n:
        reason = (
            f"{cuts} edges were taken for short-cuts, so sheets lie one spacing apart: compare "
            "neighbours='plain'"
        )
    flat, few = round(smoother.dimension), graph.n <= FEW
    folded = flat in (1, 2) and flat < graph.points.shape[1] and few and reason is None
    if folded and jumps(prepared, rotation.vectors[:, 1:11]) > SIGNS.jumps[flat - 1]:
        what = "turns of the curve" if flat == 1 else "folds of the surface"
        reason = f"{what} lie as near each other as its points: use more points there"
    if reason is not None:
        warn(
            f"the first eigenvalues may be off by more than 10 %: {reason} "
            "(basis.uncertainty estimates by how much)"
        )


def jumps(prepared: Prepared, vectors: Tensor) -> float:
    """The share of the energy of functions ``vectors (n, K)`` on the kept points, or of the length
    of a curve, if that is more, in edges that are steep to it at an end: between its turns or
    folds, and at corners.
    """
    graph, dimension = (
        prepared.smoother.known_graph.without_loops(),
        round(prepared.smoother.dimension),
    )
    head, tail, _ = edges = _weighted_edges(prepared.smoother)
    frames = _tangents(graph) if dimension == 1 else graph.planes
    chord = graph.points[tail] - graph.points[head]
    length = chord.norm(dim=1)
    along = torch.minimum(
        *((chord[:, None] @ frames[end])[:, 0].norm(dim=1) for end in (head, tail))
    )
    steep = along < SIGNS.steep * length
    share = _share(prepared, vectors, edges, steep)
    return max(share, float(length[steep].sum() / length.sum())) if dimension == 1 else share


def _tangents(graph: Graph) -> Tensor:
    """Directions ``(n, d, 1)`` of a curve."""
    count = 6
    offsets = graph.points[graph.indices[:, :count]] - graph.points[:, None]
    return tangent_frames(offsets, graph.distances[:, :count], 1)


def _weighted_edges(smoother: Smoother) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of all edges, once each, and the entries of the smoother there."""
    rows, columns, values = smoother.entries()
    once = rows < columns
    return rows[once], columns[once], values[once]


def _share(
    prepared: Prepared, vectors: Tensor, edges: tuple[Tensor, Tensor, Tensor], chosen: Tensor
) -> float:
    """The root mean square over functions of what the ``chosen (e,)`` edges have of their
    energies.
    """
    if not bool(chosen.any()):
        return 0.0
    (head, tail, values), root = (each[chosen] for each in edges), prepared.smoother.mass.sqrt()
    energy = (values * root[head] * root[tail])[:, None] * (vectors[head] - vectors[tail]).square()
    return float((energy.sum(0) / _energy(prepared.smoother, vectors)).square().mean().sqrt())


def _energy(smoother: Smoother, vectors: Tensor) -> Tensor:
    """The energy ``(K,)`` of functions ``vectors (n, K)`` on the kept points, above 0: A_ij = w_ij
    / sqrt(m_i m_j).
    """
    root = smoother.mass.sqrt()
    q = root[:, None] * vectors.to(root)
    return (q * (q - smoother.apply(q))).sum(0).clamp_min(torch.finfo(q.dtype).tiny)


def has_small_gaps(smoother: Smoother, count: int) -> bool:
    """Whether ``count`` gaps are so small that sweeps take minutes to see them, by the diagonal of
    I - A: the sum of its smallest eigenvalues is at most that of as many diagonal entries
    [Schur].
    """
    if smoother.leaving is None:
        return False
    return float(smoother.leaving.double().kthvalue(min(count, smoother.n)).values) < HIDDEN


def unresolved_gap(gaps: Tensor, tol: float) -> float | None:
    """The second of the gaps 1 - mu, where a residual of ``tol`` is no less than a tenth of it;
    None where it is.
    """
    second = float(gaps[min(1, len(gaps) - 1)])
    return second if 0 < second < RESOLVED * tol else None


def warn_of_tolerance(gap: float, tol: float) -> None:
    """One line where values of a potential or a measure lie so far apart that a residual of ``tol``
    hides them.
    """
    wanted = max(gap / RESOLVED, 1e-14)
    warn(
        f"eigenvalues are not resolved at tol={tol:g}, where values lie so far apart: pass "
        f"tol={wanted:.0e}"
    )


def likely_reason(
    graph: Graph, mass: Tensor, eigenvalues: Tensor, dimension: float, chosen: bool = False
) -> str | None:
    """Why the first ten eigenvalues are likely to be off, and what helps; None where nothing speaks
    for it.
    """
    graph = graph.without_loops()
    squared = graph.distances[:, :NEAREST].square().double().mean(1)
    weighted = float((mass * squared).sum() / mass.sum())
    resolution = float(eigenvalues[min(10, len(eigenvalues) - 1)]) * weighted
    sparseness = weighted / max(float(squared.median()), torch.finfo(torch.float64).tiny)
    flat = round(dimension)
    steady = flat == 1 and is_even_curve(graph)
    if not chosen and graph.n < SIGNS.fewest and not steady:
        return (
            f"{graph.n} points are few to tell a dimension by, {dimension:g} was taken: pass "
            "dimension="
        )
    if resolution > SIGNS.sparse and sparseness > SIGNS.sparseness[flat == BALANCED_DIMENSIONS]:
        return (
            "much of the area has hardly a point, or some points are strays: remove them, or "
            "sample it more evenly"
        )
    if resolution > (SIGNS.resolution_even if steady else SIGNS.resolution):
        return f"{graph.n} points are too few for vectors that oscillate so much"
    if (across := layers(graph, float(eigenvalues[1]) * weighted, flat)) is not None:
        return (
            f"about {across:.0f} points lie side by side where it is narrow, and boundaries "
            "count: use more points"
        )
    counted = not chosen and dimension >= BALANCED_DIMENSIONS < graph.points.shape[1]
    if counted and not (resolution < SIGNS.closed[0] and is_closed(graph, mass, flat)):
        return (
            f"the dimension {dimension:.2g} was counted from neighbours, which boundaries lower: "
            "pass dimension="
        )
    if flat > 1 and (leap := distance_leap(graph)) > SIGNS.leap:
        return (
            f"points come in groups, as copies do: {leap:.2g} times as far from others as within: "
            "keep one of each"
        )
    bent = (
        chosen or steady
    ) and graph.n < 2 * SIGNS.fewest  # a ring of few points bends as much nearby
    if not bent and (reason := _thick(graph, flat)) is not None:
        return reason
    if (share := boundary(graph, mass, flat)) is not None:
        return f"{share:.0%} of it lies at a boundary, where weights are cut off: use more points"
    return None


def _thick(graph: Graph, dimension: int) -> str | None:
    """What is said of a curve or a surface whose points lie beside it."""
    if dimension not in (1, 2) or dimension >= graph.points.shape[1]:
        return None
    found, what = thickness(graph, dimension), "curve" if dimension == 1 else "surface"
    if found >= SIGNS.thickness[dimension - 1]:
        return (
            f"noise or a width of {found:.2g} of the distance of neighbours, for a {what}: use "
            "fewer points"
        )
    if dimension == 2 and (found := noise(graph)) > SIGNS.noise:
        return (
            f"noise of {found:.2g} of the distance of neighbours, for a surface: clean the "
            "points, or use fewer"
        )
    return None


def layers(graph: Graph, first: float, dimension: int) -> float | None:
    """How many points lie side by side across, where they are few: ``first = lambda_2 h^2`` is (pi
    h / length)^2, and n points leave ``n h / length`` of them across a surface; a grid of a solid
    has ``length / h`` each way.
    """
    if not first > 0 or dimension not in (2, 3):
        return None
    if dimension == 2:
        found, least = graph.n * first**0.5 / torch.pi, SIGNS.layers[0]
    else:
        found, least = (
            torch.pi / first**0.5 if _is_grid(graph, 6) else float("inf"),
            SIGNS.layers[1],
        )
    return found if found < least else None


def _is_grid(graph: Graph, count: int) -> bool:
    """Whether the ``count`` nearest of most points are as near as the first."""
    nearest = graph.distances[:: max(1, graph.n // SIGNS.samples)]
    ratio = nearest[:, min(count, graph.k) - 1] / nearest[:, 0].clamp_min(
        torch.finfo(nearest.dtype).tiny
    )
    return float(ratio.median()) < SIGNS.equal


def is_even_curve(graph: Graph) -> bool:
    """Whether two neighbours of most points are as near as the first, and the third is not: of a
    curve, one on either side, by which a few points tell its dimension."""
    if graph.k < 3 or not _is_grid(graph, 2):
        return False
    return float((graph.distances[:, 2] / graph.distances[:, 1]).median()) > SIGNS.beyond


def boundary(graph: Graph, mass: Tensor, dimension: int) -> float | None:
    """The share of a surface or a solid whose points have open cells, where it is much; None where
    it is not.
    """
    if dimension not in (2, 3):
        return None
    least = SIGNS.boundary[dimension - 2] * (
        SIGNS.regular if _is_grid(graph, 2 * dimension) else 1.0
    )
    share = 0.0
    for samples in (
        SIGNS.samples // 4,
        SIGNS.samples,
    ):  # a few tell where it is far from being much
        share = _at_boundary(graph, mass, dimension, samples)
        if share < least / 3:
            return None
    return share if share > least else None


def is_closed(graph: Graph, mass: Tensor, dimension: int) -> bool:
    """Whether what was counted as three dimensions has next to no boundary, which lowers a
    count.
    """
    if dimension != BALANCED_DIMENSIONS:
        return False
    return _at_boundary(graph, mass, dimension, SIGNS.samples) < SIGNS.closed[1]


def _at_boundary(graph: Graph, mass: Tensor, dimension: int, samples: int) -> float:
    """The share of the mass of points, or of some ``samples`` of them, whose cells are open."""
    rows = torch.arange(0, graph.n, max(1, graph.n // samples), device=graph.device)
    own = mass[rows]
    return float(own[open_cells(graph, rows, dimension)].sum() / own.sum())


def noise(graph: Graph) -> float:
    """The deviation of 16 neighbours from quadrics in distances of neighbours, of a surface in
    three dimensions; 0 where unknown.
    """
    if graph.points.shape[1] != 3 or graph.k < NEIGHBOURS:
        return 0.0
    rows = torch.arange(0, graph.n, max(1, graph.n // SIGNS.samples), device=graph.device)
    near, reach = graph.indices[rows, :NEIGHBOURS], graph.distances[rows, NEIGHBOURS - 1]
    found = fit_quadrics(graph.points[near] - graph.points[rows, None]).deviation
    spacing = reach * (torch.pi / (NEIGHBOURS + 1)) ** 0.5
    return float((found / spacing.clamp_min(torch.finfo(reach.dtype).tiny)).median())


def distance_leap(graph: Graph) -> float:
    """The largest median ratio of the distances of one of the nearest neighbours and of the one
    before it.
    """
    near = graph.distances[:: max(1, graph.n // SIGNS.samples), :9].double()
    ratio = near[:, 1:] / near[:, :-1].clamp_min(torch.finfo(near.dtype).tiny)
    return float(ratio.median(0).values.max()) if near.shape[1] > 1 else 1.0


def thickness(graph: Graph, dimension: int) -> float:
    """The median ratio of the deviations of nearest neighbours across and along a curve or a
    surface.
    """
    rows = torch.arange(0, graph.n, max(1, graph.n // SIGNS.samples), device=graph.device)
    near = graph.indices[rows, : 6 if dimension == 1 else 10]
    offsets = graph.points[near].double()
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = principal_axes(offsets.mT @ offsets)[0].clamp_min(0).flip(1)
    ratio = variances[:, dimension] / variances[:, 0].clamp_min(torch.finfo(variances.dtype).tiny)
    return float(ratio.sqrt().median())
