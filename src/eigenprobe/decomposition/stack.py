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
from ..cloud.cloud import CloudGraph, arrange_surfaces, grouped_by_size
from ..cloud.edges import without_short_cuts
from ..eigen import basis_of, rotate
from ..eigen.solve import block_columns, solve_each
from ..errors import InputError
from ..extensions import KernelExtension
from ..neighbors.layout import Segments
from ..points import Origin, check_points
from ..smoothers import NEIGHBOURS, balanced_smoother
from ..smoothers.prepared import OperatorSource
from .settings import Request

LARGEST = 20_000  # points of a cloud that keep a device busy alone
ROWS = 1 << 20  # points that are solved together


def solve_stacks(clouds: Sequence[Any], request: Request) -> dict[int, Basis]:
    """The bases, by number, of those clouds on a device that can be solved as stacks."""
    if not request.stackable:
        return {}
    began = time.perf_counter()
    checked = dict(_on_device(clouds, request))
    sizes = {i: len(x) for i, (x, _) in checked.items()}
    fewest = 4 * block_columns(request.k)
    suited = {i: n for i, n in sizes.items() if fewest <= n <= LARGEST}
    found: dict[int, Basis] = {}
    for members in grouped_by_size(suited, ROWS):
        if len(members) == 1:
            continue
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
    operator = request.operator
    count = operator.neighbours if isinstance(operator.neighbours, int) else NEIGHBOURS["adaptive"]
    placed, graph, fits = arrange_surfaces(clouds, count, operator.dimension)
    if graph is None:
        return [None] * len(clouds)
    ready, _ = without_short_cuts(
        CloudGraph.plain(graph.points, graph=graph), operator.neighbours, 2.0
    )
    smoother, stacked = balanced_smoother(ready.graph, 2.0), graph.each
    generator = torch.Generator(graph.device).manual_seed(request.seed)
    pairs = solve_each(smoother, request.k, tol=request.tol, generator=generator)
    padded = replace(smoother, mass=stacked.padded(smoother.mass, 1.0))
    turned = rotate(pairs.vectors, padded, request.k, gaps=pairs.gaps)
    vectors, parts, cuts = (
        turned.vectors,
        stacked.parts(smoother.components),
        _cuts(ready.short_cuts, stacked),
    )
    bases = []
    for i, cloud in enumerate(placed):
        n, cloud = stacked.sizes[i], replace(cloud, short_cuts=cuts[i])
        kernel, info = KernelExtension(cloud.points, vectors[i, :n]), {"components": parts[i]}
        basis = basis_of(turned.of(i, n), smoother, cloud, extension=kernel, info=info)
        bases.append(replace(basis, source=OperatorSource(operator)))
    found = iter(bases)
    return [next(found) if fitting else None for fitting in fits]


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
