"""Clouds whose spectrum is known in closed form: even, independent random and unevenly sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from eigenprobe.cloud.farthest import farthest_points
from eigenprobe.neighbors.graph import Graph, build_graph
from eigenprobe.smoothers import Smoother, build_smoother

Draw = Callable[[int, np.random.Generator], np.ndarray]


def fibonacci_sphere(n: int) -> np.ndarray:
    place = np.arange(n) + 0.5
    height, angle = 1 - 2 * place / n, np.pi * (1 + 5**0.5) * place
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], 1)


def random_sphere(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def flat_torus(angles: np.ndarray) -> np.ndarray:
    """Angles (n, 2) to the flat torus in R^4."""
    return np.concatenate([np.cos(angles), np.sin(angles)], 1)


def grid(side: int, dimension: int = 2) -> np.ndarray:
    """Cell centres of the unit square or cube."""
    line = (np.arange(side) + 0.5) / side
    return np.stack(np.meshgrid(*[line] * dimension), -1).reshape(-1, dimension)


def even(draw: Draw, n: int, rng: np.random.Generator) -> np.ndarray:
    """Farthest points of five times as many random ones."""
    x = draw(5 * n, rng)
    return x[farthest_points(x, n, seed=0)]


def uneven(
    draw: Draw, density: Callable[[np.ndarray], np.ndarray], n: int, rng: np.random.Generator
) -> np.ndarray:
    """Random points kept in proportion to a density between 1 and 10."""
    x = draw(12 * n, rng)
    return x[rng.random(len(x)) * 10 < density(x)][:n]


def sphere_spectrum(k: int) -> np.ndarray:
    return np.concatenate([[degree * (degree + 1.0)] * (2 * degree + 1) for degree in range(20)])[
        :k
    ]


def torus_spectrum(k: int) -> np.ndarray:
    a = np.arange(-10, 11.0) ** 2
    return np.sort((a[:, None] + a).ravel())[:k]


def square_spectrum(k: int) -> np.ndarray:
    a = np.arange(20.0) ** 2 * np.pi**2
    return np.sort((a[:, None] + a).ravel())[:k]


def circle_spectrum(k: int) -> np.ndarray:
    return ((np.arange(k) + 1) // 2).astype(float) ** 2


def interval_spectrum(k: int) -> np.ndarray:
    return (np.pi * np.arange(k)) ** 2


def sphere_functions(x: np.ndarray) -> np.ndarray:
    """Spherical harmonics up to degree 3, not orthonormalised: (n, 16)."""
    a, b, c = x.T
    return np.stack(
        [np.ones_like(a), a, b, c, a * b, b * c, a * c, a * a - b * b, 3 * c * c - 1]
        + [
            a * (5 * c * c - 1),
            b * (5 * c * c - 1),
            c * (5 * c * c - 3),
            c * (a * a - b * b),
            a * b * c,
        ]
        + [a * (a * a - 3 * b * b), b * (3 * a * a - b * b)],
        1,
    )


def torus_functions(x: np.ndarray) -> np.ndarray:
    """The constant, the first and the mixed harmonics of the flat torus in R^4: eigenvalues 0, 1
    (4), 2 (4).
    """
    cos_u, cos_v, sin_u, sin_v = x.T
    mixed = [cos_u * cos_v, cos_u * sin_v, sin_u * cos_v, sin_u * sin_v]
    return np.stack([np.ones_like(cos_u), cos_u, sin_u, cos_v, sin_v, *mixed], 1)


def square_functions(x: np.ndarray) -> np.ndarray:
    """Neumann cosines of the unit square with eigenvalues 0, 1, 1, 2, 4, 4, 5, 5 times pi^2."""
    modes = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 1), (1, 2)]
    return np.stack(
        [np.cos(i * np.pi * x[:, 0]) * np.cos(j * np.pi * x[:, 1]) for i, j in modes], 1
    )


def alignment(vectors: np.ndarray, functions: np.ndarray, mass: np.ndarray) -> float:
    """Mean squared cosine of the principal angles between two spans, in the metric of the mass."""
    root = np.sqrt(mass)[:, None]
    cosines = np.linalg.svd(
        np.linalg.qr(vectors * root)[0].T @ np.linalg.qr(functions * root)[0], compute_uv=False
    )
    return float((cosines**2).mean())


def sphere_smoother(n: int = 120) -> Smoother:
    """The adaptive smoother of a small even sphere: all its matrices can be written out."""
    return build_smoother(torch.from_numpy(fibonacci_sphere(n)), "adaptive", k=12, dimension=2)


def stacked(graphs: Sequence[Graph]) -> Graph:
    """The graph of the same clouds, stacked."""
    points = torch.cat([graph.points for graph in graphs])
    return build_graph(points, graphs[0].k, clouds=tuple(graph.n for graph in graphs))
