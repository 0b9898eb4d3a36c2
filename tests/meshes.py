"""Tiny meshes made by code: the shapes every geometry and evaluation test starts from."""

from __future__ import annotations

import numpy as np


def tetrahedron() -> tuple[np.ndarray, np.ndarray]:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    return vertices, faces


def cube(n: int = 1, side: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A closed cube of 6 n^2 squares, outward faces, vertices shared."""
    vertices: dict[tuple[int, int, int], int] = {}
    faces = []

    def number(*corner: int) -> int:
        return vertices.setdefault(corner, len(vertices))

    for axis in range(3):
        for end in (0, n):
            for i in range(n):
                for j in range(n):
                    quad = []
                    for a, b in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)):
                        corner = [a, b]
                        corner.insert(axis, end)
                        quad.append(number(*corner))
                    outward = quad if (end == n) ^ (axis == 1) else quad[::-1]
                    faces += [
                        [outward[0], outward[1], outward[2]],
                        [outward[0], outward[2], outward[3]],
                    ]
    return np.array(list(vertices), dtype=float) * side / n, np.array(faces)


def sphere(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """The cube blown up to the unit sphere: 6 n^2 + 2 vertices, nearly even."""
    vertices, faces = cube(n, 2.0)
    vertices = np.tan((vertices - 1.0) * np.pi / 4)
    return vertices / np.linalg.norm(vertices, axis=1, keepdims=True), faces


def torus(major: int = 60, minor: int = 24, radius: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    u, v = np.meshgrid(np.arange(major), np.arange(minor), indexing="ij")
    a, b = 2 * np.pi * u / major, 2 * np.pi * v / minor
    ring = 1 + radius * np.cos(b)
    vertices = np.stack([ring * np.cos(a), ring * np.sin(a), radius * np.sin(b)], -1).reshape(-1, 3)
    one, two = u * minor + v, ((u + 1) % major) * minor + v
    three, four = ((u + 1) % major) * minor + (v + 1) % minor, u * minor + (v + 1) % minor
    faces = np.stack([np.stack([one, two, three], -1), np.stack([one, three, four], -1)]).reshape(
        -1, 3
    )
    return vertices, faces


def blob(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """A sphere without symmetries, so that its eigenvalues are simple."""
    vertices, faces = sphere(n)
    x, y, z = vertices.T
    bump = 1 + 0.25 * np.sin(2 * x + 1) + 0.2 * np.cos(3 * y - 0.5) + 0.15 * z
    return vertices * bump[:, None] * [1.0, 1.3, 0.8], faces
