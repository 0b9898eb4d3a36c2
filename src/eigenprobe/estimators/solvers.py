"""The closed form of an embedding: leading eigenvectors of the neighbourhood smoother.

    cloud -> neighbourhood smoother A -> span (n, K) with the constant first -> Basis with values at new points
    groups ~ tr A^30                     what a walk of 30 steps does not leave; a few random functions estimate it
    log(l_j+1 / l_j) / log((j + 1) / j)  strength of the gap after l_j = 1 - mu_j: 2 / d on a shape of d dimensions

Fewer vectors than groups let some of these fall together: then the coordinates are those of a map (`layout`), in large
tables those of more vectors, which are folded into them (`coordinates.folding`). Vectors beyond the last group are
inside of groups, and there are as many as rows. Where there are more separate parts than vectors, any functions that
are constant on them would do, and principal directions of their centres are taken; half of the vectors that are folded
are then those inside of the largest parts, each of which would be one place otherwise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..basis import Basis
from ..eigen import Eigenpairs, Span, basis_from_span, solve
from ..extensions import NeighbourhoodExtension, average
from ..graph import Graph
from ..graph.arranged import Arranged
from ..smoothers import Smoother
from ..smoothers.smoother import from_entries
from .coordinates import FEWEST_MAPPED, MOST_STEPS
from .precomputed import smoother_of

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
TRACED = 8  # random functions of a trace: within a few per cent from 10 groups on
MOST_FOLDED = 100  # vectors of many groups
TOLERANCE = 1e-5  # residual: the precision of a coordinate is that of its float32 points
INSIDE = 100.0  # times the tolerance: a residual that says that vectors are not apart from countless others
RANK = 1e-6  # of the largest principal direction of the parts' centres, below which one is rounding


def fit_direct(
    cloud: Arranged,
    count: int,
    seed: int,
    start: Tensor | None = None,
    groups_per_vector: float = math.inf,
    maps: bool = False,
) -> Basis:
    """``count`` leading vectors in closed form; ``start (n, any)`` is near them.

    Where the rows have more groups per vector, or more separate parts than vectors and that is not infinite, there are
    as many vectors as those need, unless their eigenvalues say otherwise (`needed_by_gaps`). Up to 20,000 rows
    ``maps`` says that coordinates need no further vectors then: ``info["mapped"]`` is true.
    """
    smoother, info = described(cloud)
    asked, parts, own = count, info["components"], torch.Generator().manual_seed(seed)
    if groups_per_vector < math.inf:
        count = needed_vectors(smoother, asked, groups_per_vector)
    maps = maps and FEWEST_MAPPED < smoother.n <= LOOKED
    if asked < min(count, parts) and maps:
        mapped, pairs = True, solve(smoother, asked, tol=TOLERANCE, start=start, generator=own)
    elif asked < count < parts:
        mapped, pairs = False, _parts_and_insides(smoother, count, own)
    else:
        more = parts <= asked and 4 * MOST_FOLDED < smoother.n <= LOOKED
        further = _may_go_on(smoother, asked, groups_per_vector) if count == asked else more
        pairs = _enough(smoother, asked, count, further, start, own)
        mapped = maps and len(pairs.gaps) > asked
    if mapped:
        pairs = pairs._replace(vectors=pairs.vectors[:, :asked], gaps=pairs.gaps[:asked])
    if len(pairs.gaps) == asked < parts:
        pairs = pairs._replace(vectors=_part_columns(smoother, asked))
    return basis_from_span(
        Span(pairs.vectors, pairs.gaps),
        smoother,
        len(pairs.gaps),
        cloud,
        extension=lambda r: NeighbourhoodExtension.of(cloud, smoother, r.vectors, 1 - r.gaps),
        info=info | {"solver": pairs.solver, "residual": pairs.residual, "mapped": mapped},
    )


def _enough(
    smoother: Smoother, asked: int, count: int, further: bool, start: Tensor | None, generator: torch.Generator
) -> Eigenpairs:
    """As many vectors as groups need, ``asked`` at least; ``count`` are those that a trace asks for. Where ``further``
    eigenvalues may say that there are more groups, or fewer, they are looked at."""
    looked = count
    if further:
        looked = 4 * asked - 3 if count == asked else max(count, MOST_FOLDED + 1)
    pairs = solve(smoother, looked, tol=TOLERANCE, start=start, generator=generator)
    if looked > count:
        count = 1 + needed_by_gaps(pairs.gaps[1:].cpu().numpy(), asked - 1, count - 1)
        count = max(asked, min(count, smoother.n // 4 + 1))
    if count != looked:
        start = pairs.vectors[:, 1:count]
        pairs = solve(smoother, count, tol=TOLERANCE, start=start, generator=generator)
    if count > asked and not pairs.residual <= INSIDE * TOLERANCE:  # no groups, but what is inside of them
        count = asked
        pairs = solve(smoother, count, tol=TOLERANCE, start=start, generator=generator)
    return pairs


def starting_vectors(known: Tensor, cloud: Arranged) -> Tensor:
    """A start ``(n, K - 1)`` from vectors ``known (m, K)`` of the first given rows; the others are averages of them."""
    indices = cloud.graph.indices
    rows = torch.arange(len(indices), device=indices.device) if cloud.kept is None else cloud.kept
    old, start = rows < len(known), known.to(rows.device)[rows.clamp_max(len(known) - 1), 1:]
    share = old[indices[~old]].to(start)
    start[~old] = average(share / share.sum(1, keepdim=True).clamp_min(1), start, indices[~old])
    return start


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


def _may_go_on(smoother: Smoother, count: int, groups_per_vector: float) -> bool:
    """Whether rows may have more overlapping groups than vectors: no shape of few dimensions, whose eigenvalues grow
    slowly as well, with rows enough for four times as many groups, and not so many that further vectors take longer
    than the search."""
    wide = groups_per_vector < PARTS_ONLY or smoother.dimension > SHAPE
    return groups_per_vector < math.inf and wide and GROUP * 4 * count < smoother.n <= LOOKED


def needed_by_gaps(gaps: NDArray[Any], k: int, traced: int) -> int:
    """How many vectors the groups of a table need by its gaps ``1 - mu``, ascending; ``k`` where that is enough.

    ``traced`` are those that a trace asks for (`needed_vectors`). Where it asks for no more than k, there are ``4 k``
    gaps: eigenvalues that hardly grow from the k-th to twice as many leave no place to stop; a clear gap further on, up
    to which they do not grow by much, is the end of the groups. The widest gap before or soon after the k-th ends
    them, and further vectors are inside of them, unless another one ends groups within groups.
    """
    left, more = np.maximum(gaps, LEAST_GAP), math.ceil(MORE * k) - 1
    soon, beyond = np.split(gap_strengths(left), [more])
    far = beyond.max(initial=0)
    if soon.max(initial=0) >= max(far, 0 if traced > k else CLEAR) and far < SECOND:
        return k
    if traced > k:
        return traced
    if left[2 * k - 1] < GOES_ON * left[k - 1]:
        return MOST_FOLDED
    last = more + int(np.argmax(beyond)) + 1
    return min(2 * last, MOST_FOLDED) if far >= CLEAR and left[last - 1] < ALIKE * left[k - 1] else k


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


def described(cloud: Arranged) -> tuple[Smoother, dict[str, Any]]:
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
    (parts, labels), points = smoother.components, smoother.known_graph.points.double()
    mass = smoother.mass.double()[:, None]
    weight = mass.new_zeros((parts, 1)).index_add_(0, labels, mass)
    centres = mass.new_zeros((parts, points.shape[1])).index_add_(0, labels, points * mass) / weight
    spread = (centres - (centres * weight).sum(0)) * weight.sqrt()
    left, sizes, _ = torch.linalg.svd(spread, full_matrices=False)
    left = left[:, sizes > RANK * sizes.amax().clamp_min(RANK)][:, : count - 1] if len(sizes) else left
    generator = torch.Generator().manual_seed(0)
    random = torch.randn((parts, count - 1 - left.shape[1]), generator=generator, dtype=torch.float64).to(weight)
    columns = torch.linalg.qr(torch.cat([weight.sqrt(), left, random * weight.sqrt()], 1))[0]
    return mass.sqrt() * (columns / weight.sqrt())[labels]


def _parts_and_insides(smoother: Smoother, count: int, generator: torch.Generator) -> Eigenpairs:
    """``count`` vectors of a graph with more parts than that: half are constant on the parts, half are the leading ones
    inside of as many of the largest parts, found without the others, since the matrix has a block for every part."""
    (_, labels), half = smoother.components, count // 2
    largest = torch.bincount(labels).argsort(descending=True, stable=True)[:half]
    inside = torch.isin(labels, largest)
    rows, columns, values = smoother.entries()
    place, kept, n = inside.cumsum(0) - 1, inside[rows], int(inside.sum())
    matrix = from_entries(place[rows[kept]], place[columns[kept]], values[kept], n)
    mass, leaving = smoother.mass[inside], None if smoother.leaving is None else smoother.leaving[inside]
    block = replace(smoother, matrix=matrix, mass=mass / mass.sum(), leaving=leaving, graph=None, edges=None)
    found = solve(block, min(2 * half, n), tol=TOLERANCE, generator=generator)
    beyond = found.vectors.new_zeros((smoother.n, found.vectors.shape[1] - half))
    beyond[inside] = found.vectors[:, half:]
    parts = _part_columns(smoother, count - beyond.shape[1]).to(beyond)
    gaps = torch.cat([found.gaps.new_zeros(parts.shape[1]), found.gaps[half:]])
    return found._replace(vectors=torch.cat([parts, beyond], 1), gaps=gaps)
