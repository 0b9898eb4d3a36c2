"""What is asked of points: checks, frame, coinciding points."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .basis import Array, Basis
from .errors import EigenprobeWarning, InputError
from .graph import Graph, Metric, build_graph


def check_points(points: Array, k: int, device: str | torch.device | None = None) -> tuple[Tensor, Any]:
    """The points as a finite float64 tensor on ``device``, and a function that gives a basis the caller's types."""
    is_numpy = not isinstance(points, Tensor)
    array: Any = np.asarray(points) if is_numpy else points
    if is_numpy and (array.dtype.kind not in "fiu"):
        raise InputError(f"expected points of real numbers, got dtype {array.dtype}")
    if not is_numpy and (array.is_complex() or array.dtype == torch.bool):
        raise InputError(f"expected points of real numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] < 1:
        raise InputError(f"expected points of shape (n, d), got {tuple(array.shape)}")
    n = array.shape[0]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, got {k!r}")
    if n < max(k + 1, 3):
        raise InputError(f"k={k} needs at least {max(k + 1, 3)} points, got {n}")
    tensor = torch.as_tensor(np.ascontiguousarray(array, np.float64) if is_numpy else array)
    single = (array.dtype.itemsize if is_numpy else tensor.element_size()) <= 4 and (
        array.dtype.kind == "f" if is_numpy else tensor.is_floating_point()
    )
    home = tensor.device
    tensor = tensor.detach().to(device=device, dtype=torch.float64)
    finite = torch.isfinite(tensor).all(1)
    if not bool(finite.all()):
        bad = (~finite).nonzero()[:, 0]
        raise InputError(f"expected finite points, got {len(bad)} with NaN or infinity, the first in row {int(bad[0])}")
    dtype = torch.float32 if single else torch.float64

    def restore(basis: Basis) -> Basis:
        result = basis.torch(home)._map(lambda a: a.to(dtype))
        result = result.numpy() if is_numpy else result
        return replace(result, points=points if isinstance(points, (np.ndarray, Tensor)) else np.asarray(points))

    return tensor, restore


def unit_scale(x: Tensor, metric: Metric = "euclidean") -> tuple[Tensor, float]:
    """Points of size one about the origin; angles between rows, which cosine distance measures, are left alone."""
    centre = x.mean(0)
    scale = float((x - centre).abs().max())
    if not scale > 1e-12 * float(x.abs().max()) or not math.isfinite(scale):
        raise InputError(f"expected distinct points, got {len(x)} that are all equal")
    return (x if metric == "cosine" else x - centre) / scale, scale


def _distinct(x: Tensor, k: int, neighbours: int, metric: Metric) -> tuple[Tensor, Graph, Tensor | None]:
    """The graph of the distinct points; where some coincide, also the map from every point to its representative."""
    graph = build_graph(x, min(neighbours, len(x) - 1), metric=metric)
    if float(graph.distances[:, 0].min()) > 0:
        return x, graph, None
    unique, inverse = torch.unique(x, dim=0, return_inverse=True)
    if len(unique) == len(x):
        return x, graph, None  # distinct, though nearer than the metric can tell
    warnings.warn(
        f"{len(x) - len(unique)} of {len(x)} points coincide with others; each copy shares the value and the mass",
        EigenprobeWarning,
        stacklevel=4,
    )
    if len(unique) < max(k + 1, 3):
        raise InputError(f"k={k} needs at least {max(k + 1, 3)} distinct points, got {len(unique)}")
    return unique, build_graph(unique, min(neighbours, len(unique) - 1), metric=metric), inverse


def _first(inverse: Tensor, n: int) -> Tensor:
    """The first point of every group of coinciding ones."""
    groups = int(inverse.max()) + 1
    places = torch.full((groups,), n, dtype=torch.int64, device=inverse.device)
    return places.scatter_reduce_(0, inverse, torch.arange(n, device=inverse.device), "amin")


@dataclass(frozen=True)
class Frame:
    """Where the network's coordinates are: ``x -> (x - centre) / radius``, the unit sphere around the cloud.

    ``unit`` first divides every point by its norm, which the cosine distance does not see.
    """

    centre: Tensor  # (d,)
    radius: float
    unit: bool = False

    @classmethod
    def of(cls, points: Tensor, metric: str = "euclidean") -> Frame:
        unit = metric == "cosine"
        points = _unit_rows(points.double()) if unit else points.double()
        centre = points.mean(0)
        radius = float((points - centre).norm(dim=1).max())
        if not radius > 0:
            raise InputError(f"expected at least two different points, got {len(points)} equal ones")
        return cls(centre, radius, unit)

    def __call__(self, points: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        points = _unit_rows(points.double()) if self.unit else points.double()
        return ((points - self.centre.to(points.device, torch.float64)) / self.radius).to(dtype)


def _unit_rows(points: Tensor) -> Tensor:
    return points / points.norm(dim=1, keepdim=True).clamp_min(torch.finfo(points.dtype).tiny)
