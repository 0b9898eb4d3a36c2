"""The intrinsic dimension of a cloud."""

from __future__ import annotations

import torch
from torch import Tensor

from .graph import Graph

PCA_DIMENSIONS = 16  # ambient dimension up to which local principal components estimate the intrinsic one
FLAT = 0.28  # of the first variance: a direction with less is across the cloud


def estimate_dimension(graph: Graph) -> float:
    """The intrinsic dimension. Up to two, or in ordinary space, it is the number of local principal components that
    matter in the median neighbourhood; otherwise the growth of the number of neighbours, ``k ~ r^dim``.

    The threshold separates surfaces with thin parts (a third variance of at most .25 of the first) from solids (.32
    and more) at 500 points and above.
    """
    first = 1 if graph.self_loops else 0
    distances, d = graph.distances[:, first:], graph.points.shape[1]
    if d <= PCA_DIMENSIONS and graph.metric == "euclidean" and distances.shape[1] > 1:
        sample = torch.arange(0, graph.n, max(1, graph.n // 2000), device=graph.device)
        ratio = _local_variances(graph.without_loops(), sample).median(0).values
        count = max(1, int((ratio > FLAT).sum()))
        if count <= 2 or d <= 3:
            return float(count)
    k = distances.shape[1]
    half = max(1, k // 2)
    near, far = distances[:, half - 1], distances[:, k - 1]
    proper = (near > 0) & (far > near)
    if k < 2 or not bool(proper.any()):
        return 1.0
    slope = torch.log(far[proper] / near[proper]).mean()
    if graph.metric == "cosine":
        slope = slope / 2  # cosine distance is a squared length
    return max(1.0, float(torch.log(torch.tensor(k / half)) / slope))


def cloud_dimensions(graph: Graph) -> list[float]:
    """The dimension of every one of the stacked clouds of a graph, all of one size, in three dimensions or fewer."""
    n = graph.clouds[0]
    place = torch.arange(0, n, max(1, n // 256), device=graph.device)
    sample = place + n * torch.arange(len(graph.clouds), device=graph.device)[:, None]
    ratio = _local_variances(graph, sample.flatten()).view(*sample.shape, -1).median(1).values
    return [float(max(1, count)) for count in (ratio > FLAT).sum(-1).tolist()]


def _local_variances(graph: Graph, sample: Tensor) -> Tensor:
    """Variances ``(s, d)`` of the nearest neighbours of the sampled points along their principal axes, of the first."""
    offsets = graph.points[graph.indices[sample, :16]] - graph.points[sample, None]
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = torch.linalg.eigvalsh(offsets.mT @ offsets).flip(1)
    return variances / variances[:, :1].clamp_min(torch.finfo(variances.dtype).tiny)
