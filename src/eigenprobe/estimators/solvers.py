"""The two ways to the basis of an embedding: closed form, and a network.

    cloud -> neighbourhood smoother -> span (n, K) with the constant first -> Basis with values at new points
    f_s = P^s x,   P = D^-1/2 A D^1/2 (averaging),   x: principal coordinates,   s in (4, 16, 64)
    v(x) = network([f_4, f_16, f_64](x)) T           T (K, K): orthonormalisation and Ritz rotation

`direct` takes the leading eigenvectors of the neighbourhood smoother. `network` trains a pointwise network of context
features f on the expected reconstruction loss of that smoother's probes, on one cloud or on random subsets of it, and
ends with a Ritz rotation in its K outputs. Context features are averages over the neighbourhood of a point in the
fitted cloud at several scales, which is attention to a frozen context with known weights. At a new point they are
averages over its fitted neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..basis import Basis
from ..eigen import Span, basis_from_span, solve
from ..errors import InputError, RankError
from ..extensions import NeighbourhoodExtension, average
from ..extensions.context import ContextExtension, outputs
from ..graph import Graph
from ..graph.arranged import Arranged
from ..networks import MLPConfig, Network, from_config
from ..smoothers import Smoother, neighbourhood_smoother
from .coordinates import MOST_STEPS
from .precomputed import smoother_of

CONTEXT = (4, 16, 64)  # steps of averaging
PRINCIPAL = 32  # principal coordinates that are averaged


def context_features(smoothers: Sequence[Smoother]) -> list[Tensor]:
    """Features ``(n, width)`` float64 of the points of every smoother; directions and scales are those of the first."""
    mean, principal = _principal(_points(smoothers[0]), PRINCIPAL)
    clouds = [_averages((_points(each) - mean) @ principal, each) for each in smoothers]
    maps = [_principal(part, part.shape[1]) for part in clouds[0]]
    return [torch.cat([(x - m) @ turn for x, (m, turn) in zip(parts, maps, strict=True)], 1) for parts in clouds]


def root_mass(smoother: Smoother) -> Tensor:
    """``sqrt(mass) (n,)`` in float64."""
    return smoother.mass.double().sqrt()


def _points(smoother: Smoother) -> Tensor:
    return smoother.known_graph.points.double()


def _averages(x: Tensor, smoother: Smoother) -> list[Tensor]:
    """``P^s x`` for every scale, ``(n, p)`` float64 each."""
    root = root_mass(smoother)[:, None]
    x, done, parts = x * root, 0, []
    for steps in CONTEXT:
        x, done = smoother.power(x.to(smoother.dtype), steps - done).double(), steps
        parts.append(x / root)
    return parts


def _principal(x: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Mean and principal directions, over the root of their deviation: leading ones stay larger, others matter."""
    mean = x.mean(0)
    values, directions = torch.linalg.eigh((x - mean).mT @ (x - mean) / len(x))
    deviation, directions = values.flip(0)[:width].clamp_min(0).sqrt(), directions.flip(1)[:, :width]
    kept = deviation > 1e-3 * deviation[0]  # constant columns have no direction
    deviation, directions = deviation[kept], directions[:, kept]
    return mean, directions / (deviation * deviation.mean()).sqrt()


SCALES = (4, 16, 64)  # steps of the probes, each scale with the same energy
DENSE_ROWS = 2500  # on a processor, rows up to which an n x n covariance costs less than 64 sparse products per step
LEAST_GAP = 1e-7  # 1 - mu of separate parts, as it is computed
TUNED = 10_000  # rows up to which 30 steps tell groups from what is inside of them
PARTS_ONLY = 1e9  # groups per vector: of a table that may be a shape
SHAPE = 6.0  # dimensions of it, at most
GROUP = 16  # rows, at least: four times as many groups as vectors may be found
LOOKED = 20_000  # rows of tables whose further eigenvalues are looked at
# Of 1 - mu from the last vector to twice as many: 1.3 to 1.4 with 40 to 80 overlapping groups and ten vectors, whose
# folding finds them half as well again (ARI .33 -> .53, .23 -> .51, .31 -> .54); 1.5 to 1.8 of ten overlapping classes,
# 2 to 3 of 77, 4 to 6 of ten that are apart (development tables), which it does not help.
GOES_ON = 1.5
# A gap of strength 7 to 21 ends 20 to 30 groups that overlap (ARI .79 -> .89, .79 -> .86, .90 -> .92), and eigenvalues
# up to it grow twofold; on a development table of ten classes another is at 33, up to which they grow ninefold.
CLEAR, ALIKE = 5.0, 3.5
# Digits have 5 to 7 at the tenth vector and at most 6 beyond, where folding costs .05 of their ARI; groups of groups
# have 28 to 170 at the end of the small ones.
SECOND = 10.0
MORE = 1.5  # times as many groups as vectors: a few that fall together cost less than a folding
INSIDE = 100.0  # times the tolerance: a residual that says that vectors are not apart from countless others
TRACED = 8  # random functions of a trace: within a few per cent from 10 groups on
MOST_FOLDED = 100  # vectors of many groups
RANK = 1e-6  # of the largest principal direction of the parts' centres, below which one is rounding
TOLERANCE = 1e-5  # residual: the precision of a coordinate is that of its float32 points


class Training(NamedTuple):
    """The network of an embedding and its training; ``flags`` are those of Lightning's Trainer."""

    hidden: Sequence[int]
    steps: int
    rate: float
    flags: dict[str, Any]


def fit_direct(
    cloud: Arranged, count: int, seed: int, start: Tensor | None = None, groups_per_vector: float = math.inf
) -> Basis:
    """``count`` leading vectors in closed form; ``start (n, any)`` is near them.

    Where the rows have more groups per vector, or more separate parts than vectors and that is not infinite, there are
    as many vectors as those need, and so there are where more groups overlap (`overlapping_groups`).
    """
    smoother, info = _smoother(cloud)
    asked, own = count, torch.Generator().manual_seed(seed)
    if groups_per_vector < math.inf:
        count = needed_vectors(smoother, asked, groups_per_vector)
    further = count == asked and _may_go_on(smoother, asked, groups_per_vector)
    pairs = solve(smoother, 4 * asked - 3 if further else count, tol=TOLERANCE, start=start, generator=own)
    if further:
        wanted = overlapping_groups(pairs.gaps[1:].cpu().numpy(), asked - 1)
        if wanted > asked - 1:
            count, start = min(wanted, MOST_FOLDED, smoother.n // 4) + 1, pairs.vectors[:, 1:]
            pairs = solve(smoother, count, tol=TOLERANCE, start=start, generator=own)
    early = count > asked >= info["components"] and ends_early(pairs.gaps[1:].cpu().numpy(), asked - 1)
    if count > asked and (early or not pairs.residual <= INSIDE * TOLERANCE):  # no groups, but what is inside of them
        count = asked
        if not pairs.residual <= TOLERANCE:
            pairs = solve(smoother, count, tol=TOLERANCE, start=start, generator=own)
    pairs = pairs._replace(vectors=pairs.vectors[:, :count], gaps=pairs.gaps[:count])
    columns, info = pairs.vectors, info | {"solver": pairs.solver, "residual": pairs.residual}
    if count < info["components"]:
        columns = _part_columns(smoother, count)
    return basis_from_span(
        Span(columns, pairs.gaps),
        smoother,
        count,
        cloud,
        extension=lambda r: NeighbourhoodExtension.of(cloud, smoother, r.vectors, 1 - r.gaps),
        info=info,
    )


def _may_go_on(smoother: Smoother, count: int, groups_per_vector: float) -> bool:
    """Whether rows may have more overlapping groups than vectors: no shape of few dimensions, whose eigenvalues grow
    slowly as well, with rows enough for four times as many groups, and not so many that further vectors take longer
    than the search."""
    wide = groups_per_vector < PARTS_ONLY or smoother.dimension > SHAPE
    return groups_per_vector < math.inf and wide and GROUP * 4 * count < smoother.n <= LOOKED


def overlapping_groups(gaps: NDArray[Any], k: int) -> int:
    """How many vectors the groups of a table need by its gaps ``1 - mu (4 k,)``, ascending; ``k`` where that is enough.

    Eigenvalues that hardly grow from the k-th to twice as many leave no place to stop; a clear gap further on, up to
    which they do not grow by much, is the end of the groups.
    """
    left = np.maximum(gaps, LEAST_GAP)
    if ends_early(left, k, clear=True):
        return k
    if left[2 * k - 1] < GOES_ON * left[k - 1]:
        return MOST_FOLDED
    strengths = gap_strengths(left)
    last = int(np.argmax(strengths)) + 1
    beyond = last >= MORE * k and left[last - 1] < ALIKE * left[k - 1]
    return 2 * last if beyond and strengths[last - 1] >= CLEAR else k


def ends_early(gaps: NDArray[Any], k: int, clear: bool = False) -> bool:
    """Whether the widest of the gaps ``1 - mu (K,)`` comes before or soon after ``k`` of them, and none beyond ends
    groups within groups: further vectors are inside of them. ``clear``: that gap has to be clear itself."""
    strengths = gap_strengths(np.maximum(gaps, LEAST_GAP))
    soon, beyond = np.split(strengths, [math.ceil(MORE * k) - 1])
    far = beyond.max(initial=0)
    return bool(soon.max(initial=0) >= max(far, CLEAR if clear else 0) and far < SECOND)


def needed_vectors(smoother: Smoother, count: int, groups_per_vector: float) -> int:
    """``count``, or twice the number of groups that a walk of 30 steps does not leave, ``tr A^30``, where there are too
    many of them for so few vectors. The trace is that of a few random functions, squared after half of the steps.

    Every vector inside of a group adds a little to the trace, and there are as many as rows: large tables take more
    steps, ten for every five times as many rows (20 groups of 32 dimensions: 35 at 60,000 rows, 300 at a million).
    """
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (smoother.n, TRACED), generator=generator).to(smoother.matrix) * 2 - 1
    longer = 5 * math.log(max(1.0, smoother.n / TUNED), 5)
    groups = float(smoother.power(signs, int(MOST_STEPS / 2 + longer)).double().square().sum()) / TRACED
    many = groups > groups_per_vector * count or smoother.components[0] > count
    return max(count, min(MOST_FOLDED, smoother.n // 4, int(2 * groups)) + 1) if many else count


def spectrum(graph: Graph, most: int) -> NDArray[Any]:
    """The leading eigenvalues mu of the smoother of a graph, descending, without the constant's: at most ``most``."""
    smoother = smoother_of(graph)
    return solve(smoother, min(most + 1, smoother.n), tol=TOLERANCE).factors[1:].clamp(0, 1).cpu().numpy()


def largest_gap(factors: NDArray[Any]) -> int:
    """How many eigenvalues ``mu (K,)``, descending, lie above the widest gap."""
    return int(np.argmax(gap_strengths(np.maximum(1 - factors, LEAST_GAP)))) + 1 if len(factors) > 1 else 1


def gap_strengths(left: NDArray[Any]) -> NDArray[Any]:
    """``log(l_j+1 / l_j) / log((j + 1) / j)`` after each but the last of ``l = 1 - mu (K,)``, ascending: the power of j
    by which they grow there, 2 / d on a shape of d dimensions (Weyl's law)."""
    return np.diff(np.log(left)) / np.diff(np.log(np.arange(1, len(left) + 1)))


def starting_vectors(known: Tensor, cloud: Arranged) -> Tensor:
    """A start ``(n, K - 1)`` from vectors ``known (m, K)`` of the first given rows; the others are averages of them."""
    indices = cloud.graph.indices
    rows = torch.arange(len(indices), device=indices.device) if cloud.kept is None else cloud.kept
    old, start = rows < len(known), known.to(rows.device)[rows.clamp_max(len(known) - 1), 1:]
    share = old[indices[~old]].to(start)
    start[~old] = average(share / share.sum(1, keepdim=True).clamp_min(1), start, indices[~old])
    return start


def fit_by_network(clouds: Sequence[Arranged], count: int, seed: int, training: Training) -> Basis:
    """Train on the subsets ``clouds`` (the first is the one the result is defined on)."""
    cloud, (smoother, info) = clouds[0], _smoother(clouds[0])
    smoothers = [smoother, *(neighbourhood_smoother(each.graph) for each in clouds[1:] if each.graph)]
    features = context_features(smoothers)
    network = _train(features, smoothers, count, seed, training).to(smoother.device).double()
    # Features are values like any others: their extension is an average over fitted neighbours, undivided.
    extended = NeighbourhoodExtension.of(cloud, smoother, features[0], torch.ones_like(features[0][0]))
    try:
        return basis_from_span(
            Span(outputs(network, features[0]) * root_mass(smoother)[:, None]),
            smoother,
            count,
            cloud,
            extension=lambda r: ContextExtension(network, extended, r.matrix),
            info=info | {"steps": training.steps, "subsets": len(clouds)},
        )
    except RankError as error:
        message = f"the network's {count} outputs are not independent: raise max_iter or lower n_components"
        raise InputError(message) from error


def _smoother(cloud: Arranged) -> tuple[Smoother, dict[str, Any]]:
    """The smoother and its facts; ``step_time`` is in the caller's units: mu = 1 - eigenvalue * step_time."""
    smoother = smoother_of(cloud.graph)
    time = float(smoother.step_time) * cloud.frame.scale**2
    return smoother, {"components": smoother.warn_of_parts(), "step_time": time}


def _part_columns(smoother: Smoother, count: int) -> Tensor:
    """Orthonormal columns ``(n, count)`` that are constant, up to the root of the mass, on every part of a graph with
    more parts than columns.

    All functions constant on the parts share mu = 1, so any would do; these are the principal directions of the parts'
    centres, in which no two parts fall together that are apart in the data. Where there are fewer directions than
    columns (or no coordinates), random functions follow: distances of parts in them are equal but for a few per cent.
    """
    (parts, labels), points, root = smoother.components, smoother.known_graph.points.double(), root_mass(smoother)
    mass = root.square()[:, None]
    weight = mass.new_zeros((parts, 1)).index_add_(0, labels, mass)
    centres = mass.new_zeros((parts, points.shape[1])).index_add_(0, labels, points * mass) / weight
    spread = (centres - (centres * weight).sum(0)) * weight.sqrt()
    left, sizes, _ = torch.linalg.svd(spread, full_matrices=False)
    left = left[:, sizes > RANK * sizes.amax().clamp_min(RANK)][:, : count - 1] if len(sizes) else left
    generator = torch.Generator().manual_seed(0)
    random = torch.randn((parts, count - 1 - left.shape[1]), generator=generator, dtype=torch.float64).to(weight)
    columns = torch.linalg.qr(torch.cat([weight.sqrt(), left, random * weight.sqrt()], 1))[0]
    return root[:, None] * (columns / weight.sqrt())[labels]


def _train(features: list[Tensor], smoothers: list[Smoother], count: int, seed: int, training: Training) -> Network:
    """A network ``(width) -> (count)`` trained on the probes of every cloud."""
    from ..probes.objective import Objective
    from ..training.data import ManifoldData, Pool
    from ..training.module import Optimisation, SpectralModule
    from ..training.runs import RunSettings, train

    generator = torch.Generator().manual_seed(seed)
    pool = [_sampling(x, each, generator) for x, each in zip(features, smoothers, strict=True)]
    hidden = tuple(training.hidden)
    sizes = MLPConfig(inputs=features[0].shape[1], hidden=hidden, outputs=count, activation="gelu")
    network = from_config(sizes, generator)
    schedule = Optimisation(training.steps, rate=training.rate, warmup=max(1, min(10, training.steps // 10)))
    module = SpectralModule(network, Objective("expected", "euclidean", relative=True), schedule, seed=seed)
    settings = RunSettings(device=str(smoothers[0].device), flags=training.flags)
    train(module, ManifoldData(Pool(pool, seed), None, training.steps), settings)
    return network


def _sampling(features: Tensor, smoother: Smoother, generator: torch.Generator) -> Any:
    from ..probes.covariance import DENSE_LIMIT, Covariance
    from ..training.data import Batch

    covariance: Any = Covariance(smoother, scales=SCALES, generator=generator)
    if smoother.n <= (DENSE_LIMIT if smoother.device.type == "cuda" else DENSE_ROWS):
        covariance = covariance.dense()
    local, root = features.float(), root_mass(smoother).float()
    return Batch(local.unsqueeze(0), root.unsqueeze(0), covariance=covariance)
