"""The basis that best reconstructs given functions, and eigenvalues from reconstruction errors.

    given      M^1/2 F = U S W^T,   Q = U_k       the PCA of F (n, m) in the norm of the mass: no k vectors leave less
               of sum_i |f_i - P f_i|_M^2 = sum_{j > k} s_j^2
    estimated  lambda_{k+1} = c / e_k             e_k: mean or worst error of the probes on the first k vectors

Without given functions the errors are those of a family's probes, f = A^t g by default, with t such that A^2t keeps
about K modes: the mean from their exact covariance, the worst from a draw.  The errors know eigenvalues up to one
positive factor c, which makes the sum that of the Rayleigh quotients: units are those of the input.
"""

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..eigen import Rotation
from ..errors import InputError
from ..smoothers import Smoother
from .families import family, mass_of, ordered, visible_steps
from .objective import expected_errors, prefix_errors
from .spectrum import mean, worst

Eigenvalues = Literal["rayleigh", "worst", "mean"]
DRAWN = 500  # probes of a draw: the paper's number


def best_basis(functions: Tensor, smoother: Smoother, k: int) -> tuple[Rotation, dict[str, Any]]:
    """The ``k`` vectors that reconstruct ``functions (n, m)`` best, by descending energy, and what they explain."""
    root = mass_of(smoother).sqrt()[:, None]
    left, sizes, _ = torch.linalg.svd(root * functions, full_matrices=False)
    floor = max(functions.shape) * torch.finfo(left.dtype).eps * float(sizes[:1].sum())
    rank = int((sizes > floor).sum())
    if rank < k:
        raise InputError(f"k={k} vectors need at least {k} independent probes, got {rank} (of {functions.shape[1]})")
    explained = (sizes[:k].square() / sizes.square().sum()).tolist()
    return ordered(left[:, :k], smoother), {"probes": functions.shape[1], "explained": explained}


def with_eigenvalues(
    rotation: Rotation,
    smoother: Smoother,
    kind: Eigenvalues,
    *,
    functions: Tensor | str = "heat",
    generator: torch.Generator | None = None,
) -> Rotation:
    """The same vectors with eigenvalues by another estimator, from errors of ``functions (n, m)`` or of a family."""
    if kind == "rayleigh":
        return rotation
    if smoother.lowest is not None:
        raise InputError(f"eigenvalues={kind!r} sets the first one to 0: not with a potential or a boundary")
    found = _estimate(rotation, smoother, kind, functions, generator)
    return replace(rotation, eigenvalues=found * (rotation.eigenvalues.sum() / found.sum()))


def _estimate(
    rotation: Rotation,
    smoother: Smoother,
    kind: Eigenvalues,
    functions: Tensor | str,
    generator: torch.Generator | None,
) -> Tensor:
    q = rotation.q
    if isinstance(functions, Tensor):
        errors = prefix_errors(q, rotation.mass.sqrt()[:, None] * functions)
        return worst(errors) if kind == "worst" else mean(errors)
    steps = visible_steps(smoother, q.shape[1], generator)
    if kind == "worst":
        return worst(prefix_errors(q, family(functions).draw(smoother, DRAWN, steps, generator=generator).double()))
    covariance = family(functions).covariance(smoother, steps)
    trace = covariance.trace(generator, deflate=q)
    return mean(expected_errors(q, lambda x: covariance(x.to(smoother.dtype)), trace), expected=True)
