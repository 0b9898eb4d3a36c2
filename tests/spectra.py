"""Spectra known in closed form: Neumann eigenvalues of solids, repeated by multiplicity,
ascending.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import spherical_jn


def cube_neumann(k: int, side: float = 1.0) -> np.ndarray:
    squares = np.arange(12) ** 2 * (np.pi / side) ** 2
    return np.sort((squares[:, None, None] + squares[:, None] + squares).ravel())[:k]


def ball_neumann(k: int) -> np.ndarray:
    """Unit ball: squares of the zeros of j_l', each 2l + 1 times, and zero."""
    found = [(0.0, 1)]
    grid = np.linspace(0.2, 15, 3000)
    for degree in range(14):
        slope = spherical_jn(degree, grid, derivative=True)
        for i in np.flatnonzero(slope[:-1] * slope[1:] < 0):
            root = brentq(
                lambda x, d=degree: spherical_jn(d, x, derivative=True), grid[i], grid[i + 1]
            )
            found.append((root**2, 2 * degree + 1))
    return np.concatenate([[value] * times for value, times in sorted(found)])[:k]
