"""Eigenpairs of a smoother on a curve, by inverse iteration.

    L = I - A,   X <- (L + s)^-1 X,   then Rayleigh-Ritz on the span;     X (n, p), p = K + guard

The graph of a curve is a chain or a ring: its factor has hardly more entries than the matrix, whereas the ratio of the
largest to the wanted eigenvalues grows like n^2 (n^3 on random points), far beyond polynomial filters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

ACCURACY = 1e-5  # largest residual of a pair, relative to its distance 1 - mu from the top
SWEEPS = 100


def solve_chain(gap: Any, known: Tensor, wanted: int, guard: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The ``wanted`` lowest eigenpairs of ``gap`` = I - A (scipy CSR) that are orthogonal to the ``known`` vectors."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    n = gap.shape[0]
    factor = splu(csc_array(gap + 1e-12 * eye_array(n)))
    top = np.linalg.qr(known.cpu().double().numpy())[0]
    width = min(wanted + guard, n - top.shape[1])
    block = torch.randn(n, width, dtype=torch.float64, generator=generator, device=generator.device).cpu().numpy()
    for _ in range(SWEEPS):
        for _ in range(2):  # the known vectors come back amplified by 1e12: once is not enough to be rid of them
            block = block - top @ (top.T @ block)
        block = np.linalg.qr(block)[0]
        image = gap @ block
        values, rotation = np.linalg.eigh(block.T @ image)
        block, image = block @ rotation, image @ rotation
        residual = np.linalg.norm(image - block * values, axis=0)
        if np.all(residual[:wanted] <= ACCURACY * np.abs(values[:wanted])):
            break
        block = factor.solve(block)
    pair = torch.from_numpy(np.ascontiguousarray(block[:, :wanted])), torch.from_numpy(values[:wanted].copy())
    return pair[0].to(known), pair[1].to(known.device)
