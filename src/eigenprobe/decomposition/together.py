"""Many clouds solved together on a device: one graph, one smoother, one block-diagonal eigenproblem.

    clouds (n_i, d) -> frames -> stacked graph (sum n_i, k) -> stacked smoother -> pairs of every cloud -> bases

One cloud of a thousand points leaves a device idle between a thousand short operations; stacked, many clouds share
them.  Every cloud has its own frame, mass, step and convergence, and gets what it gets alone.  Clouds that this does
not suit (coinciding points, curves and solids, too few or too many points) are left to the caller.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud import Frame, check_points
from ..eigen import Span, basis_of, rotate
from ..eigen.stacked import STACKING, columns, solve_each
from ..errors import InputError
from ..extensions import KernelExtension
from ..graph import Arranged, cloud_dimensions
from ..graph.graph import build_graph
from ..search.order import REORDER, morton_order
from ..search.segments import Segments
from ..shortcuts.cuts import Neighbours, without_short_cuts
from ..smoothers import NEIGHBOURS
from ..smoothers.balanced import balanced_smoother
from ..smoothers.prepared import OperatorSource
from .settings import OperatorSettings

FREE = {"k", "neighbours", "dimension", "seed", "device", "tol"}  # settings that clouds solved together may have
USUAL = {"direct", "adaptive", "euclidean", "rayleigh"}  # values of the others
LARGEST = 20_000  # points of a cloud that keep a device busy alone
PADDED = 3.0  # rows, over points, up to which clouds of different sizes go together
ROWS = 1 << 20  # points that are solved together
SMALL = 1e-70  # size of a cloud above which squared lengths are ordinary numbers, and one over it


def suited(sizes: Sequence[int], k: int) -> list[list[int]]:
    """Groups of clouds to be solved together, of similar sizes; those that are to be solved alone are in none."""
    fewest = STACKING.room * columns(k)
    order = sorted((i for i, n in enumerate(sizes) if fewest <= n <= LARGEST), key=lambda i: -sizes[i])
    found: list[list[int]] = []
    total = 0
    for i in order:
        total += sizes[i]
        if not found or sizes[found[-1][0]] * (len(found[-1]) + 1) > min(ROWS, PADDED * total):
            found.append([])
            total = sizes[i]
        found[-1].append(i)
    return [group for group in found if len(group) > 1]


def solved_at_once(clouds: list[Any], settings: dict[str, Any]) -> dict[int, Basis]:
    """The bases, by number, of those clouds on a device that can be solved together.

    ``settings`` are the parameters of `decompose`; those that are not free here have to be the usual ones.
    """
    fixed = [value for name, value in settings.items() if name not in FREE]
    if not all(value is None or (isinstance(value, str) and value in USUAL) for value in fixed):
        return {}
    began, k = time.perf_counter(), settings["k"]
    checked = {}
    for i, cloud in enumerate(clouds):
        plain = getattr(cloud, "ndim", 0) == 2 and cloud.shape[1] == 3 and not getattr(cloud, "requires_grad", False)
        if plain and pays(settings["device"] or cloud):
            with suppress(InputError):  # said again, with its number, when its turn comes
                checked[i] = check_points(cloud, k, settings["device"], finite=False)
    numbers = list(checked)
    found: dict[int, Basis] = {}
    for group in suited([len(checked[i][0]) for i in numbers], k):
        members = [numbers[place] for place in group]
        chosen = (settings[name] for name in ("neighbours", "dimension", "tol", "seed"))
        bases = solve_together([checked[i][0] for i in members], k, *chosen)
        found |= {i: basis for i, basis in zip(members, bases, strict=True) if basis is not None}
    share = {"method": "direct", "seconds": round((time.perf_counter() - began) / max(1, len(found)), 4)}
    wanted = OperatorSettings(neighbours=settings["neighbours"], dimension=settings["dimension"])
    return {
        i: replace(basis, info=basis.info | share, source=OperatorSource(wanted)).as_given(checked[i][1])
        for i, basis in found.items()
    }


def pays(place: Any) -> bool:
    """Whether clouds on this device, or where this cloud is, gain from being solved together: not on the host."""
    place = place.device if isinstance(place, Tensor) else place
    return isinstance(place, (str, torch.device)) and str(place).partition(":")[0] != "cpu"


@torch.no_grad()
def solve_together(
    clouds: Sequence[Tensor], k: int, neighbours: Neighbours | None, dimension: float | None, tol: float, seed: int
) -> list[Basis | None]:
    """The bases of surfaces ``(n_i, d)`` float64 on one device; None for each that is to be solved alone."""
    points, frames, suits = _framed(clouds)
    each = points.split([len(x) for x in clouds])
    orders = [morton_order(x) if len(x) > REORDER else None for x in each]  # as alone, where landmarks follow it
    points = torch.cat([x if order is None else x[order] for x, order in zip(each, orders, strict=True)])
    if all(suits):
        count = neighbours if isinstance(neighbours, int) else NEIGHBOURS["adaptive"]
        graph = build_graph(points, count, clouds=tuple(len(x) for x in clouds))
        suits = (graph.each.padded(graph.distances[:, 0], 1.0).amin(1) > 0).tolist()  # no points coincide
    if all(suits):
        found = cloud_dimensions(graph) if dimension is None else [dimension] * len(clouds)
        suits, dimension = [round(each_dimension) == 2 for each_dimension in found], 2.0
    if not all(suits):  # those that do go on without the others
        chosen = [x for x, fits in zip(clouds, suits, strict=True) if fits]
        some = iter(solve_together(chosen, k, neighbours, dimension, tol, seed) if chosen else [])
        return [next(some) if fits else None for fits in suits]
    ready, _ = without_short_cuts(Arranged.plain(graph.points, graph), neighbours, 2.0)
    assert ready.graph is not None
    smoother, stacked = balanced_smoother(ready.graph, 2.0), graph.each
    assert smoother.mass is not None
    pairs = solve_each(smoother, k, tol=tol, generator=torch.Generator(points.device).manual_seed(seed))
    turned = rotate(Span(pairs.vectors, pairs.gaps), replace(smoother, mass=stacked.padded(smoother.mass, 1.0)), k)
    vectors, parts, cuts = turned.vectors, stacked.parts(smoother.components), _cuts(ready.short_cuts, stacked)
    result: list[Basis | None] = []
    for i, (x, order) in enumerate(zip(clouds, orders, strict=True)):
        cloud = Arranged(x, frames[i], None, None if order is None else order.argsort(), order, cuts[i])
        basis = basis_of(turned.of(i, len(x)), smoother, cloud, info={"components": parts[i]})
        result.append(replace(basis, extension=KernelExtension(cloud.points, vectors[i, : len(x)])))
    return result


def _framed(clouds: Sequence[Tensor]) -> tuple[Tensor, list[Frame], list[bool]]:
    """All points ``(n, d)`` stacked, each cloud in its frame, the frames, and which of them are ordinary."""
    each, points = Segments(tuple(len(x) for x in clouds), clouds[0].device), torch.cat(list(clouds))
    largest, centre = each.padded(points.abs()).amax((1, 2)), each.mean(points)
    points = points - each.spread(centre)
    scale = each.padded(points.square().sum(1)).amax(1).sqrt()
    sound = (scale > 1e-10 * largest) & (scale > SMALL) & (scale < 1 / SMALL)  # not of NaN either
    frames = [Frame(c, s) for c, s in zip(centre, scale.tolist(), strict=True)]
    return points / each.spread(scale)[:, None], frames, sound.tolist()


def _cuts(pairs: Tensor | None, each: Segments) -> list[Tensor | None]:
    """The short-cuts ``(c, 2)`` of every cloud, as rows of it."""
    if pairs is None:
        return [None] * len(each)
    owner, order = each.owner[pairs[:, 0]].sort(stable=True)
    return list((pairs[order] - each.first[owner, None]).split(torch.bincount(owner, minlength=len(each)).tolist()))
