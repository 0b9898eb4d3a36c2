"""The basis that best reconstructs given functions, and eigenvalues of the implicit operator by
three estimators.

    given      M^1/2 F = U S W^T,   Q = U_k           the PCA of F (n, m) in the norm of the mass:
                   no k vectors leave less of sum_i |f_i - P f_i|_M^2 = sum_{j > k} s_j^2
    worst      lambda_{k+1} = c / max_i e_k^(i)       the paper's min-max theorem
    mean       lambda_{k+1} = c / mean_i e_k^(i)      its PCA counterpart
    rayleigh   lambda_k = (1 - mu_k) / tau            mu_k = q_k^T A q_k, tau the time of one step

with e_k the errors on the first k vectors.

Errors have shape ``(..., K, m)`` (or ``(..., K)`` where the mean over probes is already exact), row
``k-1`` for the prefix of ``k`` vectors.  Without given functions they are those of a family's
probes, f = A^t g by default, with t such that A^2t keeps about K modes: the mean from their exact
covariance, the worst from a draw.  They know eigenvalues up to one positive factor c, which makes
the sum that of the Rayleigh quotients, in the units of the input; the first is 0.
"""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from ..eigen import RitzPairs
from ..errors import InputError
from ..host.files import Facts
from ..smoothers import Smoother
from .families import family, mass_of, ordered, visible_steps
from .objective import expected_errors, prefix_errors
from .probes import Probes


def from_errors(errors: Tensor) -> Tensor:
    """``1 / e_k`` of the worst or the mean error of every prefix ``(..., K)``, ascending, the first
    one 0.
    """
    # e_K belongs to lambda_{K+1}, which is not asked for.  Errors never grow with k; rounding may
    # say otherwise.
    errors = errors.cummin(-1).values[..., :-1]
    if not bool((errors > 0).all()):
        raise InputError(
            "expected positive reconstruction errors, got zero: are there more probes than vectors?"
        )
    return torch.nn.functional.pad(1 / errors, (1, 0))


Eigenvalues = Literal["rayleigh", "worst", "mean"]


def best_basis(functions: Tensor, smoother: Smoother, k: int) -> tuple[RitzPairs, Facts]:
    """The ``k`` vectors that reconstruct ``functions (n, m)`` best, by descending energy, and what
    they explain.
    """
    root = mass_of(smoother).sqrt()[:, None]
    left, sizes, _ = torch.linalg.svd(root * functions, full_matrices=False)
    floor = max(functions.shape) * torch.finfo(left.dtype).eps * float(sizes[:1].sum())
    rank = int((sizes > floor).sum())
    if rank < k:
        raise InputError(
            f"expected at least {k} independent probes, got {rank} (of {functions.shape[1]})"
        )
    explained = (sizes[:k].square() / sizes.square().sum()).tolist()
    return ordered(left[:, :k], smoother), {"probes": functions.shape[1], "explained": explained}


def with_eigenvalues(
    rotation: RitzPairs,
    smoother: Smoother,
    kind: Eigenvalues,
    *,
    functions: Tensor | str = "heat",
    generator: torch.Generator | None = None,
) -> RitzPairs:
    """The same vectors with eigenvalues by another estimator, from errors of ``functions (n, m)``
    or of a family.
    """
    if kind == "rayleigh" or rotation.q.shape[-1] < 2:  # the first one is 0 by either
        return rotation
    if smoother.lowest is not None:
        raise InputError(
            f"eigenvalues={kind!r} sets the first one to 0: not with a potential or a boundary"
        )
    q, steps = rotation.q, visible_steps(smoother, rotation.q.shape[1], generator)
    if kind == "mean" and isinstance(functions, str):
        covariance = family(functions).covariance(smoother, steps)
        trace = covariance.trace(generator, deflate=q)
        errors = expected_errors(q, lambda x: covariance(x.to(smoother.dtype)), trace)
    else:
        if isinstance(functions, str):
            drawn = (
                family(functions).draw(smoother, Probes.count, steps, generator=generator).double()
            )
        else:
            drawn = rotation.mass.sqrt()[:, None] * functions
        errors = prefix_errors(q, drawn)
        errors = errors.amax(-1) if kind == "worst" else errors.mean(-1)
    found = from_errors(errors)
    return replace(rotation, eigenvalues=found * (rotation.eigenvalues.sum() / found.sum()))
