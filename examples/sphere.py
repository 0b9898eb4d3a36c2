"""The sphere's spectrum from random points: 0, then 2 three times, 6 five times, 12 seven times:
l(l+1).
"""

from __future__ import annotations

import numpy as np

import eigenprobe as ep


def main() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    basis = ep.decompose(points, k=16)
    exact = np.repeat([0, 2, 6, 12], [1, 3, 5, 7])
    for degree in range(4):
        found = basis.eigenvalues[exact == degree * (degree + 1)]
        print(
            f"l={degree}: exact {degree * (degree + 1):2d}, found {found.mean():6.2f} +- "
            f"{np.ptp(found) / 2:.2f}"
        )


if __name__ == "__main__":
    main()
