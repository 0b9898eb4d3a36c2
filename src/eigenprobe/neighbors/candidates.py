"""Nearest neighbours among rows of many columns: candidates by principal directions, then all
columns.

    z = (x - mean) B      B (d, 100): leading principal directions, of some of the rows
    N(i) = the k nearest to x_i among the 2 k + 6 rows whose z is nearest to z_i

A projection shortens distances, so that a near row stays near; a far one may come near, which the
distances in all columns tell. Candidates are searched in cells, which keep nearly all of them.
Where the spectrum is flat near rows are lost: rows with known neighbours say how many, and if it is
more than one in twenty, all columns are searched.
"""

import torch
from torch import Tensor

from .layout import SOME
from .search import FEW_ROWS, nearest_rows, ranked, without_self

DIRECTIONS = 100
SAMPLE = 1000  # rows whose principal directions stand for those of all


def nearest_others(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest other rows of every row of ``points (n, d)`` and their Euclidean distances,
    both ``(n, k)``, ascending."""
    n, d = points.shape
    if n > FEW_ROWS and d > 2 * DIRECTIONS:
        mean, directions = principal_directions(points, DIRECTIONS)
        short = (points - mean) @ directions
        near = nearest_rows(short, short, min(n, 2 * k + 6), "cells")[0]
        found, lengths = (each[:, : k + 1] for each in ranked(points, points, near))
        tried = torch.arange(0, n, max(1, n // SOME), device=points.device)
        parts = [torch.cdist(points[tried], part) for part in points.split(FEW_ROWS)]
        last = torch.cat(parts, 1).topk(k + 1, largest=False).values[:, -1:]  # of those there are
        if float((lengths[tried] <= last * 1.001).double().mean()) >= 0.95:
            return without_self(found, lengths)
    return without_self(*nearest_rows(points, points, k + 1))


def principal_directions(points: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean ``(d,)`` and at most ``count`` principal directions ``(d, count)`` of some rows,
    leading first."""
    some = points[:: max(1, len(points) // SAMPLE)].double()
    mean = some.mean(0)
    some = some - mean
    if some.shape[1] <= len(some):
        directions = torch.linalg.eigh(some.mT @ some).eigenvectors.flip(1)[:, :count]
    else:
        left = torch.linalg.eigh(some @ some.mT).eigenvectors.flip(1)[:, :count]
        directions = torch.linalg.qr(some.mT @ left).Q
    return mean.to(points), directions.to(points)
