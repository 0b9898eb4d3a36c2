"""From the basis of a working sample to one of all points.

    v(x_i)     the extension of the sampled vectors, at every given point (n, K)
    m_i = m_cell(i) share_i                         mass shared in the cell, none for outliers
    V <- [1, (V - 1 (m^T V)) G^-1/2],  G = V^T M V  the nearest orthonormal one: V^T M V = I

The vectors of points without mass are values of the same extension.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cloud
from ..cloud.inspection import SAID
from ..errors import warn
from ..extensions import KernelExtension
from ..host.files import Facts
from ..neighbors.layout import rows_at_once

# points above which the extension differs from the vectors by what its scale does (1e-4), to save
# time
MANY = 200_000


def lift(basis: Basis, function: KernelExtension, cloud: Cloud) -> Basis:
    """The basis at all given points, from that of the rows of a cloud that are not all of them and
    its extension; tensors in the caller's units."""
    mass, vectors = basis.mass, basis.vectors
    if cloud.means is not None:
        vectors = function(cloud.given)
        turn = _make_orthonormal(vectors, mass)
        function = KernelExtension(function.points, function.values @ turn, function.metric)
        if len(vectors) <= MANY:
            vectors = function(cloud.given)
            _make_orthonormal(vectors, mass)
    elif cloud.left_out is not None:
        vectors[cloud.left_out] = function(cloud.given[cloud.left_out])
    _say(basis.info, cloud)
    return replace(
        basis,
        normalized=vectors * mass.sqrt()[:, None],
        extension=function,
        lifted=None if cloud.left_out is None else vectors,
    )


def _make_orthonormal(values: Tensor, mass: Tensor) -> Tensor:
    """Make functions ``(n, K)``, the first one constant, orthonormal with the least change; the
    matrix of it.
    """
    mean = mass @ values
    gram = torch.zeros((values.shape[1] - 1,) * 2, dtype=values.dtype, device=values.device)
    size = rows_at_once(values.device, values.shape[1])
    for part, share in zip(values.split(size), mass.split(size), strict=True):
        centred = part[:, 1:] - mean[1:]
        gram.addmm_(centred.mT, share[:, None] * centred)
    sizes, axes = torch.linalg.eigh(gram)
    root = axes @ (
        (sizes.clamp_min(1e-12 * sizes[-1:].clamp_min(1e-300))).rsqrt()[:, None] * axes.mT
    )
    for part in values.split(size):
        part[:, 1:] = (part[:, 1:] - mean[1:]) @ root
        part[:, 0] = 1.0
    turn = torch.zeros((values.shape[1],) * 2, dtype=values.dtype, device=values.device)
    turn[0, 0] = 1.0
    turn[1:, 1:], turn[0, 1:] = root, -mean[1:] @ root
    return turn


def _say(facts: Facts, cloud: Cloud) -> None:
    """What is worth knowing of a cloud of which not all points are rows."""
    done, n = [], len(cloud.given)
    count = len(facts.get("strays", ()))
    if count > SAID * n:
        done.append(f"left out {count} outliers")
    if "left_out" in facts:
        done.append(
            f"left out {len(facts['left_out'])} points in small parts (parts='all' keeps them)"
        )
    if cloud.means is not None:
        done.append(f"worked on {len(cloud.points)} averaged points (resolution='all' takes all)")
    if done:
        warn(f"of {n} points: {'; '.join(done)}")
