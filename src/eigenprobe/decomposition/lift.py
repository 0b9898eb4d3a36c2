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
from ..cloud.inspection import SAID
from ..cloud.sample import WorkingSample
from ..errors import warn
from ..extensions import KernelExtension
from ..host.files import Facts
from ..neighbors.layout import rows_at_once
from ..neighbors.search import query

# points above which the extension differs from the vectors by what its scale does (1e-4), to save
# time
MANY = 200_000


def lift(basis: Basis, extension: KernelExtension, sample: WorkingSample) -> Basis:
    """The basis of all given points from that of their working sample and its extension; tensors in
    the caller's units."""
    mass = basis.mass[sample.rows] * sample.shares.to(basis.mass)
    mass = mass / mass.sum()
    if sample.one_to_one:  # outliers left out
        kept = sample.shares > 0
        vectors = basis.vectors[sample.rows]
        extension = KernelExtension(sample.given[kept], vectors[kept], extension.metric)
        vectors[~kept] = extension(sample.given[~kept])
    else:
        vectors = extension(sample.given)
        turn = _make_orthonormal(vectors, mass)
        extension = KernelExtension(extension.points, extension.values @ turn, extension.metric)
        if len(vectors) <= MANY:
            vectors = extension(sample.given)
            _make_orthonormal(vectors, mass)
    cuts = basis.short_cuts
    if cuts is not None and len(cuts):
        cuts = query(sample.given, sample.points, 1)[0][:, 0][cuts]
    facts = _facts(sample)
    _say(facts, sample)
    return replace(
        basis,
        normalized=vectors * mass.sqrt()[:, None],
        mass=mass,
        points=sample.given,
        extension=extension,
        short_cuts=cuts,
        lifted=vectors if bool((mass == 0).any()) else None,
        info=basis.info | facts,
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


def _facts(sample: WorkingSample) -> Facts:
    """What `info` says of a working sample: size, what was left out, how the cloud was sampled."""
    lost = (sample.shares == 0) & ~sample.outliers
    facts: Facts = {"resolution": len(sample.points)}
    for name, rows in (("strays", sample.outliers), ("left_out", lost)):
        if bool(rows.any()):
            facts[name] = rows.nonzero()[:, 0].tolist()
    return facts


def _say(facts: Facts, sample: WorkingSample) -> None:
    done, n, m = [], len(sample.given), len(sample.points)
    count = len(facts.get("strays", ()))
    if count > SAID * n:
        done.append(f"left out {count} outliers")
    if "left_out" in facts:
        done.append(
            f"left out {len(facts['left_out'])} points in small parts (parts='all' keeps them)"
        )
    if not sample.one_to_one:
        done.append(f"worked on {m} averaged points (resolution='all' takes all)")
    if done:
        warn(f"of {n} points: {'; '.join(done)}")
