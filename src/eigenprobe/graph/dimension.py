"""The intrinsic dimension of a cloud."""

from __future__ import annotations

import torch

from .graph import Graph

PCA_DIMENSIONS = 16  # ambient dimension up to which local principal components estimate the intrinsic one


def estimate_dimension(graph: Graph) -> float:
    """The intrinsic dimension. Up to two, or in ordinary space, it is the number of local principal components that
    matter in the median neighbourhood; otherwise the growth of the number of neighbours, ``k ~ r^dim``.

    The threshold separates surfaces with thin parts (a third variance of at most .25 of the first) from solids (.32
    and more) at 500 points and above.
    """
    first = 1 if graph.self_loops else 0
    distances, d = graph.distances[:, first:], graph.points.shape[1]
    if d <= PCA_DIMENSIONS and graph.metric == "euclidean" and distances.shape[1] > 1:
        few = min(16, distances.shape[1])
        sample = torch.arange(0, graph.n, max(1, graph.n // 2000), device=graph.device)
        offsets = graph.points[graph.indices[sample, first : first + few]] - graph.points[sample, None]
        offsets = offsets - offsets.mean(1, keepdim=True)
        variances = torch.linalg.eigvalsh(offsets.mT @ offsets).flip(1)
        ratio = (variances / variances[:, :1].clamp_min(torch.finfo(variances.dtype).tiny)).median(0).values
        count = max(1, int((ratio > 0.28).sum()))
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
