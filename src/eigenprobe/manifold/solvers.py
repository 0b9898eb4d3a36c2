"""The closed form of an embedding: leading eigenvectors of the neighbourhood smoother.

cloud -> neighbourhood smoother A -> span (n, K) with the constant first -> Basis with values at
new points
"""

from __future__ import annotations

import torch

from ..basis import Basis
from ..cloud.arranged import Arranged
from ..eigen import basis_of, rotate, solve
from ..extensions import NeighbourhoodExtension
from ..host.files import Facts
from ..smoothers import Smoother

TOLERANCE = 1e-5  # residual: the precision of a coordinate is that of its float32 points


def fit_direct(cloud: Arranged, smoother: Smoother, count: int, seed: int) -> Basis:
    """``count`` leading vectors in closed form."""
    generator = torch.Generator().manual_seed(seed)
    pairs = solve(smoother, count, tol=TOLERANCE, generator=generator)
    found = rotate(pairs.vectors, smoother, count, gaps=pairs.gaps)
    extension = NeighbourhoodExtension.of(cloud, smoother, found.vectors, 1 - found.gaps)
    info = facts(cloud, smoother) | {"solver": pairs.solver, "residual": pairs.residual}
    return basis_of(found, smoother, cloud, extension=extension, info=info)


def facts(cloud: Arranged, smoother: Smoother) -> Facts:
    """Separate parts, and the time of a step in the caller's units: mu = 1 - eigenvalue *
    step_time."""
    time = float(smoother.step_time) * cloud.frame.scale**2
    return {"components": smoother.components[0], "step_time": time}
