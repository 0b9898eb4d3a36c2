"""Many clouds solved together on a device: one graph, one smoother, one block-diagonal
eigenproblem.

    clouds (n_i, d) -> frames -> stacked graph (sum n_i, k) -> stacked smoother
    -> pairs of every cloud -> bases

One cloud of a thousand points leaves a device idle between a thousand short operations; stacked,
many clouds share them.  Every cloud has its own frame, mass, step and convergence, and gets what it
gets alone.  Clouds that this does not suit (coinciding points, curves and solids, too few or too
many points) are left to the caller.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cloud, CloudGraph
from ..cloud.edges import without_short_cuts
from ..eigen import basis_of, rotate
from ..eigen.solve import block_columns, solve_each
from ..errors import InputError
from ..extensions import KernelExtension
from ..neighbors.graph import Graph, build_graph, cloud_dimensions
from ..neighbors.layout import REORDER, Segments, framed, morton_order
from ..points import Frame, Origin, check_points
from ..smoothers import NEIGHBOURS, balanced_smoother
from ..smoothers.prepared import OperatorSource
from .settings import OperatorSettings, Request

LARGEST = 20_000  # points of a cloud that keep a device busy alone
PADDED = 3.0  # rows, over points, up to which clouds of different sizes go together
ROWS = 1 << 20  # points that are solved together


def stacks_by_size(sizes: Sequence[int], k: int) -> list[list[int]]:
    """Groups of clouds to be solved together, of similar sizes; those that are to be solved alone
    are in none.
    """
    fewest = 4 * block_columns(k)
    order = sorted(
        (i for i, n in enumerate(sizes) if fewest <= n <= LARGEST), key=lambda i: -sizes[i]
    )
    found: list[list[int]] = []
    total = 0
    for i in order:
        total += sizes[i]
        if not found or sizes[found[-1][0]] * (len(found[-1]) + 1) > min(ROWS, PADDED * total):
            found.append([])
            total = sizes[i]
        found[-1].append(i)
    return [group for group in found if len(group) > 1]


def solve_stacks(clouds: Sequence[Any], request: Request) -> dict[int, Basis]:
    """The bases, by number, of those clouds on a device that can be solved as stacks."""
    if not request.stackable:
        return {}
    began = time.perf_counter()
    checked = dict(_on_device(clouds, request))
    numbers = list(checked)
    found: dict[int, Basis] = {}
    for group in stacks_by_size([len(checked[i][0]) for i in numbers], request.k):
        members = [numbers[place] for place in group]
        bases = solve_stack([checked[i][0] for i in members], request)
        found |= {i: basis for i, basis in zip(members, bases, strict=True) if basis is not None}
    share = {
        "method": "direct",
        "seconds": round((time.perf_counter() - began) / max(1, len(found)), 4),
    }
    return {
        i: replace(basis, info=basis.info | share).as_given(checked[i][1])
        for i, basis in found.items()
    }


def _on_device(
    clouds: Sequence[Any], request: Request
) -> Iterator[tuple[int, tuple[Tensor, Origin]]]:
    """Clouds in three dimensions that a device holds, by number."""
    for i, cloud in enumerate(clouds):
        plain = (
            getattr(cloud, "ndim", 0) == 2
            and cloud.shape[1] == 3
            and not getattr(cloud, "requires_grad", False)
        )
        if plain and gains_from_stacks(request.device or cloud):
            with suppress(InputError):  # said again, with its number, when its turn comes
                yield i, check_points(cloud, request.k, request.device, finite=False)


def gains_from_stacks(place: object) -> bool:
    """Whether clouds on this device, or where this cloud is, gain from being solved together: not
    on the host.
    """
    place = place.device if isinstance(place, Tensor) else place
    return isinstance(place, (str, torch.device)) and str(place).partition(":")[0] != "cpu"


@torch.no_grad()
def solve_stack(clouds: Sequence[Tensor], request: Request) -> list[Basis | None]:
    """The bases of surfaces ``(n_i, d)`` float64 on one device; None for each that is to be solved
    alone.
    """
    points, frames, fits = _framed(clouds)
    each = points.split([len(x) for x in clouds])
    # as alone, where landmarks follow it
    orders = [morton_order(x) if len(x) > REORDER else None for x in each]
    points = torch.cat(
        [x if order is None else x[order] for x, order in zip(each, orders, strict=True)]
    )
    graph = _graph_of_surfaces(points, clouds, request.operator) if all(fits) else fits
    if isinstance(graph, list):  # those that fit go on without the others
        chosen = [x for x, fitting in zip(clouds, graph, strict=True) if fitting]
        some = iter(solve_stack(chosen, request) if chosen else [])
        return [next(some) if fitting else None for fitting in graph]
    ready, _ = without_short_cuts(
        CloudGraph.plain(graph.points, graph=graph), request.operator.neighbours, 2.0
    )
    smoother, stacked = balanced_smoother(ready.graph, 2.0), graph.each
    generator = torch.Generator(points.device).manual_seed(request.seed)
    pairs = solve_each(smoother, request.k, tol=request.tol, generator=generator)
    padded = replace(smoother, mass=stacked.padded(smoother.mass, 1.0))
    turned = rotate(pairs.vectors, padded, request.k, gaps=pairs.gaps)
    vectors, parts, cuts = (
        turned.vectors,
        stacked.parts(smoother.components),
        _cuts(ready.short_cuts, stacked),
    )
    result: list[Basis | None] = []
    for i, (x, order) in enumerate(zip(clouds, orders, strict=True)):
        cloud = Cloud(x, frames[i], None if order is None else order.argsort(), order, cuts[i])
        kernel, info = KernelExtension(cloud.points, vectors[i, : len(x)]), {"components": parts[i]}
        basis = basis_of(turned.of(i, len(x)), smoother, cloud, extension=kernel, info=info)
        result.append(replace(basis, source=OperatorSource(request.operator)))
    return result


def _graph_of_surfaces(
    points: Tensor, clouds: Sequence[Tensor], operator: OperatorSettings
) -> Graph | list[bool]:
    """The graph of all clouds, or which of them are surfaces of distinct points where some are
    not.
    """
    count = operator.neighbours if isinstance(operator.neighbours, int) else NEIGHBOURS["adaptive"]
    graph = build_graph(points, count, clouds=tuple(len(x) for x in clouds))
    distinct: list[bool] = (graph.each.padded(graph.distances[:, 0], 1.0).amin(1) > 0).tolist()
    if not all(distinct):
        return distinct
    given = operator.dimension
    surfaces = [
        round(d) == 2 for d in (cloud_dimensions(graph) if given is None else [given] * len(clouds))
    ]
    return graph if all(surfaces) else surfaces


def _framed(clouds: Sequence[Tensor]) -> tuple[Tensor, list[Frame], list[bool]]:
    """All points ``(n, d)`` stacked, each cloud in its frame, the frames, and which of them are
    ordinary.
    """
    each, points = (
        Segments(tuple(len(x) for x in clouds), clouds[0].device),
        torch.cat(list(clouds)),
    )
    largest = each.padded(points.abs()).amax((1, 2))
    points, frames, scale = framed(points, each)
    kind = torch.finfo(points.dtype)  # fourth powers are ordinary numbers; not of NaN either
    sound = (scale > kind.eps**0.5 * largest) & (scale > kind.tiny**0.2) & (scale < kind.max**0.2)
    return points, frames, sound.tolist()


def _cuts(pairs: Tensor | None, each: Segments) -> list[Tensor | None]:
    """The short-cuts ``(c, 2)`` of every cloud, as rows of it."""
    if pairs is None:
        return [None] * len(each)
    owner, order = each.owner[pairs[:, 0]].sort(stable=True)
    return list(
        (pairs[order] - each.first[owner, None]).split(
            torch.bincount(owner, minlength=len(each)).tolist()
        )
    )
