"""The intrinsic dimension of a cloud, of every sample and as a whole.

    r_a = variance a of the 16 nearest neighbours / the first,  a = 2, 3      (d,) per sample
    e   = min_u (second largest of <u, y_j - x> / |y_j - x|)                  the emptiest direction u

In ordinary space a sample lies on a curve where r_2 is small, in a solid where r_3 is large *and* most samples around
it are surrounded (e large: no direction is empty), and on a surface otherwise.  Each number alone fails: r_3 is large
on a thin plate, whose two sides share neighbourhoods, but every point of a plate has an empty side; e is large on a
noisy surface, but its neighbourhoods are still flat.  A curve or a surface with noise below the spacing keeps its
dimension; noise well above the spacing makes a curve a tube and a surface a slab, which no statistic can tell from
solids of that thickness.  Above three dimensions it is the growth of the number of neighbours, k ~ r^dim.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..search.axes import principal_axes
from .graph import Graph

PCA_DIMENSIONS = 16  # ambient dimension up to which local principal components estimate the intrinsic one


@dataclass(frozen=True)
class Thickness:
    """Constants, tuned on surfaces (noise of 0, 1, 2 % of the radius) and solids of 500 and 1500 points."""

    nearest: int = 16  # neighbours whose variances are compared
    around: int = 3  # every third neighbour speaks for the surroundings of a sample
    quantile: float = 0.75  # of the ratios around a sample: solids have boundaries too
    flat: float = 0.28  # r_2 of a surface; a curve with noise of two spacings reaches it
    thick: float = 0.375  # r_3 of a solid: medians .27 on surfaces with 2 % noise, .43 in solids, .40 on thin plates
    open: float = 0.3  # e of a surrounded sample
    inside: float = 0.35  # share of surrounded samples around one in a solid: 0 on plates and tubes, .6 in solids
    directions: int = 48  # u above, spread over the sphere
    centres: int = 400  # samples that decide for the whole cloud
    stacked: int = 100  # the same where many clouds are stacked


THICKNESS = Thickness()


def estimate_dimension(graph: Graph) -> float:
    """The intrinsic dimension of the whole cloud: in ordinary space that of most of its samples."""
    graph, d = graph.without_loops(), graph.points.shape[1]
    if _comparable(graph):
        step = max(1, graph.n // (THICKNESS.centres if d <= 3 else 2000))
        sample = torch.arange(0, graph.n, step, device=graph.device)
        if d <= 3:
            return float(local_dimension(graph, sample).mode().values)
        count = max(1, int((_variances(graph, sample).median(0).values > THICKNESS.flat).sum()))
        if count <= 2:
            return float(count)
    near, far = _radii(graph)
    proper = (near > 0) & (far > near)
    if graph.k < 2 or not bool(proper.any()):
        return 1.0
    # Where all distances are equal, as between one-hot rows, there is no growth.
    return min(float(d or math.inf), max(1.0, _growth(graph) / float(torch.log(far[proper] / near[proper]).mean())))


def cloud_dimensions(graph: Graph) -> list[float]:
    """The dimension of every one of the stacked clouds of a graph, in three dimensions or fewer."""
    share = torch.arange(THICKNESS.stacked, dtype=torch.float64, device=graph.device) / THICKNESS.stacked
    sample = (share * graph.each.counts[:, None]).long() + graph.each.first[:, None]  # (b, s)
    label = _ordinary(graph, sample.flatten())
    return label.view(sample.shape).mode(1).values.double().tolist()


def local_dimension(graph: Graph, samples: Tensor | None = None) -> Tensor:
    """The intrinsic dimension at every point ``(n,)`` or at ``samples (s,)``: whole numbers in ordinary space.

    With all points at hand each follows the middle one of the labels around it.
    """
    graph, d = graph.without_loops(), graph.points.shape[1]
    chosen = torch.arange(graph.n, device=graph.device) if samples is None else samples
    if _comparable(graph) and d <= 3:
        label = _ordinary(graph, chosen)
        label = label[_around(graph, chosen)].median(1).values if samples is None else label
        return label.to(graph.distances.dtype)
    near, far = _radii(graph)
    slope = torch.where((near > 0) & (far > near), torch.log(far / near), torch.nan)
    grown = slope[_around(graph, chosen)].nanmean(1)
    dimension = torch.where(grown > 0, _growth(graph) / grown, 1.0).clamp_min(1)
    if _comparable(graph):
        rows, place = _around(graph, chosen).unique(return_inverse=True)
        count = (_variances(graph, rows)[place].median(1).values > THICKNESS.flat).sum(1).clamp_min(1)
        dimension = torch.where(count <= 2, count.to(dimension.dtype), dimension)
    return dimension


def _comparable(graph: Graph) -> bool:
    return 0 < graph.points.shape[1] <= PCA_DIMENSIONS and graph.metric == "euclidean" and graph.k > 1


def _around(graph: Graph, samples: Tensor) -> Tensor:
    """Each sample and some of its neighbours, near and far: ``(s, a)``."""
    return torch.cat([samples[:, None], graph.indices[samples, :: THICKNESS.around]], 1)


def _ordinary(graph: Graph, samples: Tensor) -> Tensor:
    """The dimension at ``samples (s,)`` of a cloud in at most three dimensions: 1, 2 or 3."""
    around = _around(graph, samples)
    rows, place = around.unique(return_inverse=True)
    typical = _variances(graph, rows)[place].quantile(THICKNESS.quantile, dim=1)  # (s, d)
    label = 1 + (typical[:, 1:2] > THICKNESS.flat).sum(1)
    if typical.shape[1] == 3:
        thick = ((label == 2) & (typical[:, 2] > THICKNESS.thick)).nonzero()[:, 0]
        rows, place = around[thick].unique(return_inverse=True)
        label[thick] += _surrounded(graph, rows)[place].mean(1) > THICKNESS.inside
    return label


def _surrounded(graph: Graph, rows: Tensor) -> Tensor:
    """1 where every direction has at least two neighbours of the point nearby in angle, else 0; ``(r,)``."""
    directions = sphere_directions(THICKNESS.directions).to(graph.points).T  # (3, u)
    result = []
    for part in rows.split(4096):
        offsets = graph.points[graph.indices[part]] - graph.points[part, None]
        units = offsets / graph.distances[part, :, None].clamp_min(torch.finfo(offsets.dtype).tiny)
        second = (units @ directions).topk(2, dim=1).values[:, 1]  # (r, u)
        result.append(second.amin(1) > THICKNESS.open)
    return torch.cat(result).to(graph.points.dtype)


def sphere_directions(count: int) -> Tensor:
    """Unit vectors ``(count, 3)`` spread evenly along a spiral on the sphere [Fibonacci lattice]."""
    place = torch.arange(count, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * place / count, math.pi * (1 + 5**0.5) * place
    ring = (1 - height.square()).sqrt()
    return torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)


def _variances(graph: Graph, rows: Tensor) -> Tensor:
    """Variances of the nearest neighbours of ``rows`` along their principal axes over the first, descending."""
    offsets = graph.points[graph.indices[rows, : THICKNESS.nearest]] - graph.points[rows, None]
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = principal_axes(offsets.mT @ offsets)[0].clamp_min(0).flip(1)
    return variances / variances[:, :1].clamp_min(torch.finfo(variances.dtype).tiny)


def _radii(graph: Graph) -> tuple[Tensor, Tensor]:
    """Distances ``(n,)`` to the neighbour half way down the list and to the last."""
    return graph.distances[:, max(1, graph.k // 2) - 1], graph.distances[:, -1]


def _growth(graph: Graph) -> float:
    """Logarithm of how many neighbours lie between the two radii, in units of a length: the dimension times theirs."""
    growth = math.log(graph.k / max(1, graph.k // 2))
    return 2 * growth if graph.metric == "cosine" else growth  # cosine distance is a squared length
