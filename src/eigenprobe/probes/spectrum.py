"""Eigenvalues of the implicit operator, three estimators.

    worst      lambda_{k+1} = 1 / max_i e_k^(i)             the paper's min-max theorem
    mean       lambda_{k+1} = 1 / mean_i e_k^(i)            its PCA counterpart
    rayleigh   lambda_k = (1 - mu_k) / tau                  mu_k = q_k^T A q_k, tau the calibrated time of one step

Errors have shape ``(..., K, m)`` (or ``(..., K)`` where the mean over probes is already exact), row ``k-1`` for the
prefix of ``k`` vectors.  `worst` and `mean` set the first eigenvalue, of the constant, to 0, and are defined up to
one positive factor (the energy of the probes); `rayleigh` is in the units of the input.
"""

from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError


def worst(errors: Tensor) -> Tensor:
    """``1 / max_i e_k^(i)`` from errors ``(..., K, m)``: ``(..., K)`` ascending, the first one 0."""
    return _inverse(errors.amax(-1))


def mean(errors: Tensor, *, expected: bool = False) -> Tensor:
    """``1 / mean_i e_k^(i)``: ``(..., K)`` ascending, the first one 0.

    ``expected=True`` takes errors ``(..., K)`` that are already the mean over the probes.
    """
    return _inverse(errors if expected else errors.mean(-1))


def _inverse(alpha: Tensor) -> Tensor:
    # e_K belongs to lambda_{K+1}, which is not asked for.  Errors never grow with k; rounding may say otherwise.
    alpha = alpha.cummin(-1).values[..., :-1]
    if not bool((alpha > 0).all()):
        raise InputError("expected positive reconstruction errors, got zero: are there more probes than basis vectors?")
    return torch.cat([alpha.new_zeros((*alpha.shape[:-1], 1)), 1 / alpha], -1)


def rayleigh(mu: Tensor, step_time: float, *, form: Literal["linear", "log"] = "linear") -> Tensor:
    """Eigenvalues from Rayleigh quotients ``mu (..., K)`` of one smoothing step of time ``step_time``.

    ``form="linear"`` is ``(1 - mu) / tau``, exact for a smoother ``I - tau L``; ``"log"`` is ``-log(mu) / tau``, exact
    for the heat semigroup ``exp(-tau L)``.

    >>> rayleigh(torch.tensor([1.0, 0.9]), 0.1)
    tensor([0.0000, 1.0000])
    """
    if not step_time > 0:
        raise InputError(f"expected a positive step time, got {step_time}")
    if form == "linear":
        return (1 - mu) / step_time
    if form == "log":
        if not bool((mu > 0).all()):
            raise InputError(f"the log form needs positive Rayleigh quotients, got one of {float(mu.min()):.3g}")
        return -mu.log() / step_time
    raise InputError(f"form must be 'linear' or 'log', got {form!r}")
