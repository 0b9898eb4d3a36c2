"""Tangent frames and the gradient of functions on a cloud, as sparse matrices.

    l_ij = T_i^T (x_j - x_i)                       neighbours in the tangent plane;  T_i (d, dim) orthonormal columns
    g_i = argmin_g sum_j w_ij (f_j - f_i - g.l_ij)^2         w_ij: the weights of the Laplacian
        = (sum_j w_ij l_ij l_ij^T)^-1 sum_j w_ij l_ij (f_j - f_i)

Exact for functions that are linear in the tangent plane.  Where the second moments are round (sum w l l^T = 2 m I, as
the balanced weights make them) g_i is the mean difference of the same edges that L sums, and on smooth functions

    L f ~ sum_a G_a^T M G_a f         so that  div X = -sum_a M^-1 G_a^T M X_a  is the divergence of a field X (n, dim)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..annotations import door
from ..cloud import Array, check_points
from ..decomposition import smoothed
from ..errors import InputError
from ..graph.arranged import Arranged
from ..pretrained.neighbours import Neighbours
from ..smoothers import Smoother
from ..smoothers.stencil import SELECTION, tangent_frames
from ..threads import limited_threads
from .matrices import as_given, edge_weights


@door
def gradient(
    points: Any,
    *,
    neighbours: Neighbours | None = None,
    dimension: float | None = None,
    device: str | torch.device | None = None,
) -> tuple[Array, tuple[Any, ...]]:
    """Tangent frames ``(n, d, dim)`` and the gradient ``(G_1, ..., G_dim)``, sparse ``(n, n)``, in ``length^-1``.

    ``G_a @ f`` is the component of the gradient of ``f`` along ``frames[:, :, a]``; as vectors in space the gradient is
    ``sum_a frames[:, :, a] * (G_a @ f)[:, None]``. Settings and kinds of arrays as in `laplacian`.

    Examples
    --------
    >>> grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(-1, 2)
    >>> frames, parts = gradient(grid)
    >>> slope = sum(frames[:, :, a] * (g @ (3 * grid[:, 0] + 1))[:, None] for a, g in enumerate(parts))
    >>> print(bool(np.allclose(slope, [3, 0])))
    True
    """
    x, origin = check_points(points, 1, device)
    with limited_threads(x.device, len(x)):
        cloud, ready = smoothed(x, 1, neighbours=neighbours, dimension=dimension)
        frames, parts = gradients(cloud, ready)
    directions = frames if origin.numpy else torch.from_numpy(frames).to(origin.dtype).to(origin.device)
    return directions, tuple(as_given(part, origin) for part in parts)


def gradients(cloud: Arranged, smoother: Smoother) -> tuple[np.ndarray, list[Any]]:
    """Frames and gradient at all given points, float64 numpy and scipy CSR."""
    from scipy.sparse import csr_matrix

    graph = smoother.graph
    if graph is None or graph.metric != "euclidean":
        raise InputError("a gradient needs a smoother with a Euclidean graph")
    graph, dimension = graph.without_loops(), max(1, min(round(smoother.dimension), graph.points.shape[1]))
    if dimension < graph.points.shape[1]:
        few = slice(0, SELECTION.frame)
        offsets = graph.points[graph.indices[:, few]] - graph.points[:, None]
        tangent = tangent_frames(offsets, graph.distances[:, few], dimension)
    else:
        tangent = torch.eye(dimension, dtype=graph.points.dtype).expand(graph.n, -1, -1)
    frames, points = tangent.double().cpu().numpy(), graph.points.double().cpu().numpy()
    rows, columns, weight = edge_weights(smoother)
    along = np.einsum("ed,edc->ec", points[columns] - points[rows], frames[rows])  # l_ij (e, dim)
    moments = np.zeros((graph.n, dimension, dimension))
    np.add.at(moments, rows, weight[:, None, None] * along[:, :, None] * along[:, None, :])
    solved = np.einsum("ecb,eb->ec", np.linalg.pinv(moments, hermitian=True)[rows], weight[:, None] * along)
    parts = []
    for values in solved.T / cloud.frame.scale:
        part = csr_matrix((values, (rows, columns)), shape=(graph.n, graph.n))
        part.setdiag(-np.asarray(part.sum(1)).ravel())
        parts.append(part)
    if cloud.rows is None:
        return frames, parts
    place = cloud.rows.cpu().numpy()
    copies = np.bincount(place, minlength=graph.n)
    mean = csr_matrix((1 / copies[place], (place, np.arange(len(place)))), shape=(graph.n, len(place)))
    return frames[place], [csr_matrix(part[place] @ mean) for part in parts]
