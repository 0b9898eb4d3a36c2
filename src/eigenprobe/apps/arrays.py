"""One backend inside, the caller's outside: tensors to compute with, and the way back to what the basis holds."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..annotations import as_array
from ..basis import Basis
from ..errors import InputError

Array = Any  # np.ndarray or torch.Tensor, as the basis holds


def tensors(basis: Basis) -> tuple[Tensor, Tensor, Tensor]:
    """V (n, K), mass (n,) and eigenvalues (K,), non-negative, as tensors on the basis' device."""
    vectors = torch.as_tensor(basis.vectors)
    mass = torch.as_tensor(basis.mass).to(vectors)
    return vectors, mass, torch.as_tensor(basis.eigenvalues).to(vectors).clamp_min(0)


def like(basis: Basis, values: Tensor) -> Array:
    """`values` as the kind of array that `basis` holds."""
    return values.detach().cpu().numpy() if isinstance(basis.normalized, np.ndarray) else values


def positive(eigenvalues: Tensor) -> Tensor:
    """Mask (K,) of the eigenvalues that are not numerically zero (each component of the cloud has one that is)."""
    return eigenvalues > 1e-6 * eigenvalues.max()


def rows(sources: Any, n: int, device: torch.device) -> Tensor:
    """Point indices (s,) from an int or a sequence of ints; an error names the range."""
    given = as_array(sources)
    if given.ndim > 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(f"expected point indices (an int or a list of ints), got {given.dtype} of shape {given.shape}")
    index = torch.as_tensor(given.astype(np.int64), device=device).reshape(-1)
    if index.numel() == 0 or int(index.min()) < 0 or int(index.max()) >= n:
        raise InputError(f"expected point indices in 0..{n - 1}, got {index.tolist()[:5]}")
    return index
