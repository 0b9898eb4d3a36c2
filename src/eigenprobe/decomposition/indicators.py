"""Cheap signs that the first ten eigenvalues are off by more than a tenth, mostly from the graph and the mass alone.

    resolution   lambda_11 sum_i m_i h_i^2       h_i^2: mean squared distance to 4 neighbours; the sample of a wave of
                                                 that eigenvalue has about 40 / resolution points
    layers       n sqrt(lambda_2 h^2) / pi       points side by side across a narrow surface, whose boundaries count
    sparseness   sum_i m_i h_i^2 / median h^2    strays, and areas with hardly a point, have most of the mass
    boundary     sum m_i over points whose cells are open      what weights that are cut off at a boundary have a say in
    leap         median d_{j+1} / d_j            where points come in groups, the first neighbours are much nearer
    occlusion    sum m_i over points whose cells are open      much, where a surface turns away from its only scanner
    thickness    s_{a+1} / s_1 of the nearest    standard deviations of the neighbours of a sample across and along a
                                                 manifold of dimension a
    noise        sigma sqrt(d - 2) / h           sigma: deviation of 16 neighbours from the quadric fitted to them, per
                                                 coordinate: of a surface, however much it bends
    jumps        share of the energy of functions, or of the length of a curve, in edges that are steep to it: between
                                                 turns and folds that lie as near each other as their points
    gaps         share of the energy of functions in edges that are long for what lies around: 3 |x_i - x_j|^2 > q d^2,
                                                 d: to the twelfth neighbour of either end, in space to the fourth;
                                                 over holes and slits
    half         |mu_j - lambda_j| / lambda_j    mu: of half of the points; asked for where a small cloud is rough
    steps        |x_i - x_j| over the longer edge beside it, of an even curve: where it is closed over a gap
    ends         |x_i - x_j| / h                 of ends of a curve (one neighbour each): near where a corner is cut;
                                                 of an end and what lies ahead of it: where a branch or crossing is
    doubt        sum_e p_e w_e (v_i - v_j)^2 / lambda    what an eigenvalue would lose, to first order, without edges
                                                 e = (i, j) of weight w_e that are short-cuts with probability p_e

The measured errors behind the constants are those of `benchmarks.truths`: tests/truths checks that every row is right
to .10 or said to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..eigen.span import Rotation
from ..errors import warn
from ..graph import Graph
from ..search.layout import principal_axes
from ..search.neighbours import query
from ..smoothers import BALANCED_DIMENSIONS, Smoother
from ..smoothers.cells import open_cells
from ..smoothers.prepared import Prepared
from ..smoothers.stencil import tangent_frames


class ByShape(NamedTuple):
    """A number for each kind of shape; infinite where nothing is asked of it."""

    curve: float = torch.inf
    surface: float = torch.inf
    solid: float = torch.inf

    def of(self, dimension: int) -> float:
        return self[dimension - 1]


class BySampling(NamedTuple):
    """A number for clouds of even points, and one for random points."""

    even: float
    random: float


class Signs(NamedTuple):
    """Above these the mean error of the first ten was more than .1 on most clouds of known spectrum."""

    resolution: float = 1.0  # .1 on spheres of 60 points (2.0) and squares of 64 (1.4), .03 on spheres of 200 (.6)
    resolution_even: float = 4.0  # the same of an even curve: .03 to .08 below, .105 on lines of 12 points (4.3)
    layers: ByShape = ByShape(surface=6.0, solid=17.0)  # across: .05 to .17 with 5, .01 to .05 with 7; of a solid grid
    equal: float = 1.01  # sixth over first distance of a grid
    beyond: float = 1.6  # third over second distance of an even curve: up to 2, at a bend of 60 degrees 1.7
    sparse: float = 0.2  # the same where most of it comes from few points
    sparseness: float = 4.0  # 10^4 : 1: 4 to 10^4, strays: 100 and more; random and even points: 1.4
    sparse_solid: float = 0.25  # both, of a solid: .10 to .25 where a third has 5 % of the density ...
    sparseness_solid: float = 1.8  # ... and 1.2 else
    regular: float = 1.5  # times as much of a grid, all of whose cells at a boundary are open: .05 in squares (.19)
    # Share at a boundary. Of a surface: .14 in noisy circles (.31), .01 to .04 in tubes and rings of 500 points (.15 to
    # .24); of a solid: .10 to .15 in rods and slabs (.40 to .51), .06 below.
    boundary: ByShape = ByShape(surface=0.25, solid=0.4)
    # A count of three dimensions stands below both: .02 to .04 on 3-spheres and tori of 1500 points (.3, 0), 4-cubes
    # counted so have .3.
    closed_resolution: float = 0.45
    closed_boundary: float = 0.05  # share at a boundary
    leap: float = 2.0  # of distances of neighbours: 1.4 for random points of a surface, 1.7 in a hexagonal grid
    cuts: float = 1.5  # edges cut per point: two grids one spacing apart 4.5, solids of a few layers 2; meshes 0 to 1
    fewest: int = 48  # points: three times those by which a dimension is chosen
    thickness: ByShape = ByShape(curve=0.1, surface=0.25)  # random points of either: 0
    nearest_curve: int = 6  # neighbours that it is measured on
    nearest_surface: int = 10
    # In views from one side .033 to .12 and 1.6 to 4.9, on closed, flat and cut shapes up to .078 and 1.56 (84 draws).
    turned_share: float = 0.03  # of the area at a boundary
    turned_thin: float = 1.7  # area of its points over the mean
    noise: float = 0.185  # .10 to .15 on noisy surfaces of 500 points (.185 to .27), .05 to .09 below, .03 without
    wide: int = 32  # coordinates up to which it is looked for
    steep: float = 0.5  # cosine to the tangent at an end
    # Share of steep edges: of a curve .04 to .27 where turns are joined, up to .03 at the corners of 300 points; of a
    # surface .06 to .09 in rolls of 500 points (errors of .10 to .15), up to .02 in other shapes of revolution.
    jumps: ByShape = ByShape(curve=0.04, surface=0.05)
    long: BySampling = BySampling(even=2.0, random=2.5)  # q of an edge over a gap in the plane
    # Share of such edges: even .03 to .34 where holes of two to five spacings are filled (errors of .1 to 12), up to
    # .02 in others; random .11 to .28 and .05 to .11.
    gaps: BySampling = BySampling(even=0.026, random=0.112)
    far: float = 7.8  # q of an edge over a gap in space
    # Share of such edges: even .05 to .09 over slits of 2.5 and 3 spacings (errors of .2 to .3), up to .02 on 14 meshes
    # below .05; random .09 to .12 and .02 to .06.
    slits: BySampling = BySampling(even=0.03, random=0.08)
    even: float = 2.1  # median d_6 / d_1 below which a cloud is even (1.3 to 2.0; 2.4 to 3.6)
    strips: float = 2.21  # d_12 / d_3 above which random points of the plane lie in strips: 2.04 to 2.19 in discs and
    # squares, up to 2.7
    ends: float = 10.0  # spacings between ends that may be one place: .3 to 7 in stars of sharp corners that are cut
    # open (.19), 4 to 8 in random knots cut at their widest gap, 14 and more in helices and spirals
    most_ends: int = 200  # whose distances are compared
    looked_at: int = 40  # points near an end that may lie ahead of it
    ahead: float = 0.8  # cosine between an end and what lies ahead of it
    faced: float = 4.5  # spacings up to that: 1.2 to 4.4 at crossings, corners and branches that are cut open (.10 to
    # .25), 4.4 to 8.8 in spirals
    step: float = 1.5  # over the longer step beside it: 1.0 on even curves, 1.9 to 6 over gaps (.36 to .44)
    steady: float = 1.1  # the same of nine of ten edges: 1.0 on even curves, 1.4 and more on jittered ones
    samples: int = 1000
    resolved: float = 10.0  # times the residual: an error of a hundredth
    hidden: float = 1e-4  # diagonal entries of I - A below which gaps are looked for in a factor: 1 / sqrt(gap) steps
    doubt: float = 0.0145  # rms of the first ten: on procedural shapes, half of them folded until parts touch or
    # cross, below it for one of 67 errors above .1, above it alone for three of 197 of those below .05 (at .016: four
    # and none)
    rough: float = 0.1  # noise above which half of the points are solved, ...
    small: int = 5000  # ... of clouds of up to so many
    half: float = 0.125  # mean of the first ten: on rough development shapes of 500 to 1500 points up to .10 where the
    # error is below .05, .13 for one of .06; on 62 meshes above it for 5 errors above .1 and 3 below .05


SIGNS = Signs()
NEAREST = 4


def warn_of_errors(prepared: Prepared, rotation: Rotation, chosen: bool, half: Callable[[int], Tensor]) -> None:
    """One line where the first ten are likely to be off; ``chosen`` is the dimension by the caller, and ``half`` gives
    so many eigenvalues of half of the points."""
    eigenvalues = rotation.eigenvalues
    graph, smoother = prepared.smoother.graph, prepared.smoother
    if graph is None or graph.metric != "euclidean" or len(eigenvalues) < 2 or graph.k < 2:
        return
    reason = likely_reason(graph, smoother.mass.double(), eigenvalues, smoother.dimension, chosen)
    cuts = 0 if prepared.cloud.short_cuts is None else len(prepared.cloud.short_cuts)
    if reason is None and cuts > SIGNS.cuts * graph.n:
        reason = f"{cuts} edges were taken for short-cuts, so sheets lie one spacing apart: compare neighbours='plain'"
    first, flat = rotation.vectors[:, 1:11], round(smoother.dimension)
    if reason is None and flat == 1 and jumps(prepared, first) > SIGNS.jumps.curve:
        reason = "turns of the curve lie as near each other as its points: use more points there"
    if reason is None and flat == 1:
        reason = _at_ends(curve_ends(prepared)) or _in_between(prepared)
    if reason is None and prepared.cloud.doubts is not None:
        doubt = float(doubtful_shares(prepared, first).square().mean().sqrt())
        if doubt > SIGNS.doubt:
            reason = "parts lie so near each other that edges between them may be short-cuts: use more points there"
    if reason is None and is_rough(prepared) and (apart := _apart(eigenvalues, half)) > SIGNS.half:
        reason = f"those of half of the points differ by {apart:.0%}, so details are as small as the spacing: use more"
    folded = flat == 2 < graph.points.shape[1] and graph.n <= SIGNS.small  # of more points folds lie far apart
    if reason is None and folded and jumps(prepared, first) > SIGNS.jumps.surface:
        reason = "folds of the surface lie as near each other as its points: use more points there"
    if reason is None and flat == 2 and graph.n <= SIGNS.small and has_gaps(prepared, first):
        reason = "points leave gaps of a few spacings, as holes and slits do, that edges bridge: use more points there"
    if reason is not None:
        warn(f"the first eigenvalues may be off by more than 10 %: {reason} (basis.uncertainty estimates by how much)")


def _at_ends(ends: Ends) -> str | None:
    """What is said of a curve that may be cut open."""
    if (apart := ends_apart(ends)) < SIGNS.ends:
        return (
            f"ends of the curve lie {apart:.2g} spacings apart, as where a sharp corner is cut: use more points there"
        )
    if (apart := gap_ahead(ends)) < SIGNS.faced:
        return f"an end of the curve lies {apart:.2g} spacings before another part of it: use more points there"
    return None


def _in_between(prepared: Prepared) -> str | None:
    """What is said of an even curve that may be closed over a gap."""
    if (wide := widest_step(prepared)) > SIGNS.step:
        return f"points of the curve leave a gap of {wide:.2g} of their steps, over which it is closed: use more points"
    return None


def is_rough(prepared: Prepared) -> bool:
    """Whether a small cloud, taken as it is, has details near its spacing: then its half is worth a second solve."""
    graph = prepared.smoother.graph
    if graph is None or graph.n > SIGNS.small or prepared.sample is not None or round(prepared.smoother.dimension) != 2:
        return False
    return noise(graph.without_loops()) > SIGNS.rough


def _apart(eigenvalues: Tensor, half: Callable[[int], Tensor]) -> float:
    """The mean relative difference of the first ten eigenvalues after 0 from those of half of the points."""
    own = eigenvalues[1:11]
    other = half(len(own) + 1)[1:].to(own)
    return float(((other - own[: len(other)]).abs() / own[: len(other)].clamp_min(torch.finfo(own.dtype).tiny)).mean())


def jumps(prepared: Prepared, vectors: Tensor) -> float:
    """The share of the energy of functions ``vectors (n, K)`` on the kept points, or of the length of a curve, if that
    is more, in edges that are steep to it at an end: between its turns or folds, and at corners."""
    graph, dimension = prepared.smoother.known_graph.without_loops(), round(prepared.smoother.dimension)
    head, tail, _ = edges = _weighted_edges(prepared.smoother)
    frames = _tangents(graph) if dimension == 1 else graph.planes
    chord = graph.points[tail] - graph.points[head]
    length = chord.norm(dim=1)
    along = torch.minimum(*((chord[:, None] @ frames[end])[:, 0].norm(dim=1) for end in (head, tail)))
    steep = along < SIGNS.steep * length
    share = _share(prepared, vectors, edges, steep)
    return max(share, float(length[steep].sum() / length.sum())) if dimension == 1 else share


def _tangents(graph: Graph) -> Tensor:
    """Directions ``(n, d, 1)`` of a curve."""
    count = SIGNS.nearest_curve
    offsets = graph.points[graph.indices[:, :count]] - graph.points[:, None]
    return tangent_frames(offsets, graph.distances[:, :count], 1)


def has_gaps(prepared: Prepared, vectors: Tensor) -> bool:
    """Whether much of the energy of functions ``vectors (n, K)`` on kept points of a surface lies in edges that are
    longer than its points lie apart: than twelve of them in the plane, and than four in space, where thin limbs have
    no twelve on one side."""
    graph = prepared.smoother.known_graph.without_loops()
    if graph.k < 12:
        return False
    first, third, fourth, sixth, last = (graph.distances[:, i].double() for i in (0, 2, 3, 5, 11))
    even = float((sixth / first.clamp_min(torch.finfo(first.dtype).tiny)).median()) < SIGNS.even
    flat = graph.points.shape[1] == 2
    reach, times = (last, SIGNS.long[not even]) if flat else (fourth, SIGNS.far)
    head, tail, _ = edges = _weighted_edges(prepared.smoother)
    squared = (graph.points[tail] - graph.points[head]).square().sum(1)
    bridge = 3 * squared > times * torch.maximum(reach[head], reach[tail]).square()
    grouped = flat and not even and float((last / third).median()) > SIGNS.strips
    return grouped or _share(prepared, vectors, edges, bridge) > (SIGNS.gaps if flat else SIGNS.slits)[not even]


def _weighted_edges(smoother: Smoother) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of all edges, once each, and the entries of the smoother there."""
    rows, columns, values = smoother.entries()
    once = rows < columns
    return rows[once], columns[once], values[once]


def _share(prepared: Prepared, vectors: Tensor, edges: tuple[Tensor, Tensor, Tensor], chosen: Tensor) -> float:
    """The root mean square over functions of what the ``chosen (e,)`` edges have of their energies."""
    if not bool(chosen.any()):
        return 0.0
    (head, tail, values), root = (each[chosen] for each in edges), prepared.smoother.mass.sqrt()
    energy = (values * root[head] * root[tail])[:, None] * (vectors[head] - vectors[tail]).square()
    return float((energy.sum(0) / _energy(prepared.smoother, vectors)).square().mean().sqrt())


def _energy(smoother: Smoother, vectors: Tensor) -> Tensor:
    """The energy ``(K,)`` of functions ``vectors (n, K)`` on the kept points, above 0: A_ij = w_ij / sqrt(m_i m_j)."""
    root = smoother.mass.sqrt()
    q = root[:, None] * vectors.to(root)
    return (q * (q - smoother.apply(q))).sum(0).clamp_min(torch.finfo(q.dtype).tiny)


class Ends(NamedTuple):
    """Ends of a curve, points with one neighbour: their ``rows (e,)``, these neighbours ``before (e,)``, and the
    distance of neighbours there, ``spacing (e,)``."""

    points: Tensor  # (n, d), of all
    rows: Tensor
    before: Tensor
    spacing: Tensor


def curve_ends(prepared: Prepared) -> Ends:
    """The ends of a curve; their spacing is the median of all, or their own, which have neighbours on one side, where
    points are sparse."""
    graph = prepared.smoother.known_graph.without_loops()
    rows, columns, values = prepared.smoother.entries()
    linked = (rows != columns) & (values > 0)
    rows, columns = rows[linked], columns[linked]
    single = torch.bincount(rows, minlength=graph.n)[rows] == 1
    own = graph.distances[rows[single], : NEAREST // 2].mean(1)
    spacing = own.clamp_min(graph.distances[:, :NEAREST].mean(1).median())
    return Ends(graph.points, rows[single], columns[single], spacing)


def ends_apart(ends: Ends) -> float:
    """The least distance of two ends of a curve in distances of neighbours."""
    count = len(ends.rows)
    if not 1 < count <= SIGNS.most_ends:
        return torch.inf
    head, tail = torch.triu_indices(count, count, 1, device=ends.rows.device)
    apart = torch.pdist(ends.points[ends.rows])
    return float((apart / torch.minimum(ends.spacing[head], ends.spacing[tail])).min())


def gap_ahead(ends: Ends) -> float:
    """The least distance of an end of a curve to one of the points near it that lies ahead of it, in distances of
    neighbours; turns of a helix or a spiral lie beside its ends."""
    if not len(ends.rows):
        return torch.inf
    own = ends.points[ends.rows]
    near, length = query(ends.points, own, SIGNS.looked_at)
    cosine = (ends.points[near] - own[:, None]) @ (along := own - ends.points[ends.before])[..., None]
    is_ahead = cosine[..., 0] > SIGNS.ahead * length * along.norm(dim=1, keepdim=True)
    return float((length / ends.spacing[:, None]).masked_fill(~is_ahead, torch.inf).min())


def widest_step(prepared: Prepared) -> float:
    """The largest ratio of an edge of an even curve and the longer one of those before and after it; 0 of others."""
    smoother, (head, tail, _) = prepared.smoother, _weighted_edges(prepared.smoother)
    points = smoother.known_graph.points
    length = (points[tail] - points[head]).norm(dim=1)
    around = length.new_zeros(smoother.n).index_add_(0, head, length).index_add_(0, tail, length)
    beside = torch.maximum(around[head] - length, around[tail] - length)
    ratio = (length / beside.clamp_min(torch.finfo(length.dtype).tiny)).sort().values
    return float(ratio[-1]) if len(ratio) > 2 and float(ratio[int(0.9 * len(ratio))]) < SIGNS.steady else 0.0


def doubtful_shares(prepared: Prepared, vectors: Tensor) -> Tensor:
    """What edges that may be short-cuts have of the energy of functions ``vectors (n, K)`` on the kept points, each
    times its probability to be one: ``(K,)``."""
    smoother, doubts = prepared.smoother, prepared.cloud.doubts
    if doubts is None or not len(doubts[0]):
        return torch.zeros_like(vectors[0])
    (head, tail), likely, root = doubts[0].T, doubts[1], smoother.mass.sqrt()
    rows, columns, values = smoother.entries()
    keys, wanted = rows * smoother.n + columns, head * smoother.n + tail
    place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    weight = torch.where(keys[place] == wanted, values[place], 0.0) * root[head] * root[tail]
    energy = (weight * likely.to(weight))[:, None] * (vectors[head] - vectors[tail]).square()
    return energy.sum(0) / _energy(smoother, vectors)


def has_small_gaps(smoother: Smoother, count: int) -> bool:
    """Whether ``count`` gaps are so small that sweeps take minutes to see them, by the diagonal of I - A: the sum of
    its smallest eigenvalues is at most that of as many diagonal entries [Schur]."""
    if smoother.leaving is None:
        return False
    return float(smoother.leaving.double().kthvalue(min(count, smoother.n)).values) < SIGNS.hidden


def unresolved_gap(gaps: Tensor, tol: float) -> float | None:
    """The second of the gaps 1 - mu, where a residual of ``tol`` is no less than a tenth of it; None where it is."""
    second = float(gaps[min(1, len(gaps) - 1)])
    return second if 0 < second < SIGNS.resolved * tol else None


def warn_of_tolerance(gap: float, tol: float) -> None:
    """One line where values of a potential or a measure lie so far apart that a residual of ``tol`` hides them."""
    wanted = max(gap / SIGNS.resolved, 1e-14)
    warn(f"eigenvalues are not resolved at tol={tol:g}, where values lie so far apart: pass tol={wanted:.0e}")


def likely_reason(
    graph: Graph, mass: Tensor, eigenvalues: Tensor, dimension: float, chosen: bool = False
) -> str | None:
    """Why the first ten eigenvalues are likely to be off, and what helps; None where nothing speaks for it."""
    graph = graph.without_loops()
    squared = graph.distances[:, :NEAREST].square().double().mean(1)
    weighted = float((mass * squared).sum() / mass.sum())
    resolution = float(eigenvalues[min(10, len(eigenvalues) - 1)]) * weighted
    sparseness = weighted / max(float(squared.median()), torch.finfo(torch.float64).tiny)
    flat = round(dimension)
    steady = flat == 1 and is_even_curve(graph)
    if not chosen and graph.n < SIGNS.fewest and not steady:
        return f"{graph.n} points are few to tell a dimension by, {dimension:g} was taken: pass dimension="
    least, times = SIGNS.sparse, SIGNS.sparseness
    if flat == BALANCED_DIMENSIONS:
        least, times = SIGNS.sparse_solid, SIGNS.sparseness_solid
    if resolution > least and sparseness > times:
        return "much of the area has hardly a point, or some points are strays: remove them, or sample it more evenly"
    if resolution > (SIGNS.resolution_even if steady else SIGNS.resolution):
        return f"{graph.n} points are too few for vectors that oscillate so much"
    if (across := layers(graph, float(eigenvalues[1]) * weighted, flat)) is not None:
        return f"about {across:.0f} points lie side by side where it is narrow, and boundaries count: use more points"
    counted = not chosen and dimension >= BALANCED_DIMENSIONS < graph.points.shape[1]
    if counted and not (resolution < SIGNS.closed_resolution and is_closed(graph, mass, flat)):
        return f"the dimension {dimension:.2g} was counted from neighbours, which boundaries lower: pass dimension="
    if flat > 1 and (leap := distance_leap(graph)) > SIGNS.leap:
        return f"points come in groups, as copies do: {leap:.2g} times as far from others as within: keep one of each"
    if flat == 2 and graph.points.shape[1] == 3 and (share := occlusion(graph, mass)) is not None:
        ragged = f"{share:.0%} of the area lies at an open boundary with few points, as where a view is occluded"
        return f"{ragged}: eigenvalues come out too large; add a view from another side"
    bent = (chosen or steady) and graph.n < 2 * SIGNS.fewest  # a ring of few points bends as much nearby
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
    if found >= SIGNS.thickness.of(dimension):
        return f"noise or a width of {found:.2g} of the distance of neighbours, for a {what}: use fewer points"
    if dimension == 2 and (found := noise(graph)) > SIGNS.noise:
        return f"noise of {found:.2g} of the distance of neighbours, for a surface: clean the points, or use fewer"
    return None


def layers(graph: Graph, first: float, dimension: int) -> float | None:
    """How many points lie side by side across, where they are few: ``first = lambda_2 h^2`` is (pi h / length)^2,
    and n points leave ``n h / length`` of them across a surface; a grid of a solid has ``length / h`` each way."""
    if not first > 0 or dimension not in (2, 3):
        return None
    if dimension == 2:
        found, least = graph.n * first**0.5 / torch.pi, SIGNS.layers.surface
    else:
        found, least = torch.pi / first**0.5 if _is_grid(graph, 6) else float("inf"), SIGNS.layers.solid
    return found if found < least else None


def _is_grid(graph: Graph, count: int) -> bool:
    """Whether the ``count`` nearest of most points are as near as the first."""
    nearest = graph.distances[:: max(1, graph.n // SIGNS.samples)]
    ratio = nearest[:, min(count, graph.k) - 1] / nearest[:, 0].clamp_min(torch.finfo(nearest.dtype).tiny)
    return float(ratio.median()) < SIGNS.equal


def is_even_curve(graph: Graph) -> bool:
    """Whether two neighbours of most points are as near as the first, and the third is not: of a curve, one on either
    side, by which a few points tell its dimension."""
    if graph.k < 3 or not _is_grid(graph, 2):
        return False
    return float((graph.distances[:, 2] / graph.distances[:, 1]).median()) > SIGNS.beyond


def boundary(graph: Graph, mass: Tensor, dimension: int) -> float | None:
    """The share of a surface or a solid whose points have open cells, where it is much; None where it is not."""
    if dimension not in (2, 3):
        return None
    least = SIGNS.boundary.of(dimension) * (SIGNS.regular if _is_grid(graph, 2 * dimension) else 1.0)
    share = 0.0
    for samples in (SIGNS.samples // 4, SIGNS.samples):  # a few tell where it is far from being much
        share = _at_boundary(graph, mass, dimension, samples)
        if share < least / 3:
            return None
    return share if share > least else None


def is_closed(graph: Graph, mass: Tensor, dimension: int) -> bool:
    """Whether what was counted as three dimensions has next to no boundary, which lowers a count."""
    if dimension != BALANCED_DIMENSIONS:
        return False
    return _at_boundary(graph, mass, dimension, SIGNS.samples) < SIGNS.closed_boundary


def _at_boundary(graph: Graph, mass: Tensor, dimension: int, samples: int) -> float:
    """The share of the mass of points, or of some ``samples`` of them, whose cells are open."""
    rows = torch.arange(0, graph.n, max(1, graph.n // samples), device=graph.device)
    own = mass[rows]
    return float(own[open_cells(graph, rows, dimension)].sum() / own.sum())


def noise(graph: Graph) -> float:
    """The deviation of neighbours from quadrics, over all coordinates, in distances of neighbours; 0 where unknown."""
    beyond = graph.points.shape[1] - 2
    if not 0 < beyond <= SIGNS.wide or graph.k < SIGNS.nearest_surface:
        return 0.0
    seen = graph.seen
    return seen.thickness * beyond**0.5 / max(seen.spacing, torch.finfo(torch.float64).tiny)


def distance_leap(graph: Graph) -> float:
    """The largest median ratio of the distances of one of the nearest neighbours and of the one before it."""
    near = graph.distances[:: max(1, graph.n // SIGNS.samples), :9].double()
    ratio = near[:, 1:] / near[:, :-1].clamp_min(torch.finfo(near.dtype).tiny)
    return float(ratio.median(0).values.max()) if near.shape[1] > 1 else 1.0


def occlusion(graph: Graph, mass: Tensor) -> float | None:
    """The share of the area at an open boundary that is sampled thinly, as where a surface turns away; or None."""
    rows = torch.arange(0, graph.n, max(1, graph.n // (4 * SIGNS.samples)), device=graph.device)
    own, least, thin = mass[rows], SIGNS.turned_share, SIGNS.turned_thin
    # Whichever points are open, those above the threshold must make up for those below it: the heaviest are looked at
    # first, and all of them only where the others that they can make up for would be enough.
    excess, order = own - thin * own.mean(), own.argsort(descending=True)
    heavy = order[: int((excess > 0).sum())]
    heavy = heavy[open_cells(graph, rows[heavy], 2)] if len(heavy) else heavy
    others = order[excess[order] <= 0]
    others = others[-excess[others].cumsum(0) < excess[heavy].sum()]
    if float(own[heavy].sum() + own[others].sum()) <= least * float(own.sum()):
        return None
    is_open = open_cells(graph, rows, 2)
    share = float(own[is_open].sum() / own.sum())
    return share if share > least and share > thin * float(is_open.double().mean()) else None


def thickness(graph: Graph, dimension: int) -> float:
    """The median ratio of the deviations of nearest neighbours across and along a curve or a surface."""
    rows = torch.arange(0, graph.n, max(1, graph.n // SIGNS.samples), device=graph.device)
    near = graph.indices[rows, : SIGNS.nearest_curve if dimension == 1 else SIGNS.nearest_surface]
    offsets = graph.points[near].double()
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = principal_axes(offsets.mT @ offsets)[0].clamp_min(0).flip(1)
    ratio = variances[:, dimension] / variances[:, 0].clamp_min(torch.finfo(variances.dtype).tiny)
    return float(ratio.sqrt().median())
