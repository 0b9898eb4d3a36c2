"""Which edges the balanced weights take: parts stay parts, gaps are bridged, a stray point changes
nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers.prepared import laplacian_stencil
from eigenprobe.smoothers.stencil import Stencil
from tests import clouds as c


def stencil(points: np.ndarray, dimension: int = 2, k: int = 30) -> Stencil:
    x = torch.as_tensor(points)
    graph = build_graph(x, k)
    return laplacian_stencil(graph, dimension)


def sheets(gap: float, rng: np.random.Generator, n: int = 600) -> np.ndarray:
    """Two even parallel squares, ``gap`` spacings apart."""
    parts = [c.even(lambda m, r: r.random((m, 2)), n, rng) for _ in range(2)]
    return np.concatenate(
        [np.c_[part, np.full(n, level * gap / n**0.5)] for level, part in enumerate(parts)]
    )


@pytest.mark.parametrize("gap", [4, 5])
def test_parallel_sheets_are_two_parts(gap: float, rng: np.random.Generator) -> None:
    count, labels = stencil(sheets(gap, rng)).edges.components
    assert count == 2
    assert torch.equal(labels, torch.arange(2).repeat_interleave(600))


def test_two_objects_are_said_once(rng: np.random.Generator) -> None:
    sphere, gap = c.fibonacci_sphere(700), 2.5 * (4 * np.pi / 700) ** 0.5
    turned = c.fibonacci_sphere(700) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    with pytest.warns(EigenprobeWarning, match=r"2 separate parts \(700, 700 points\)") as said:
        basis = ep.decompose(np.concatenate([sphere, turned + [2 + gap, 0, 0]]), k=8)
    assert len(said) == 1
    assert np.allclose(basis.eigenvalues[:2], 0, atol=1e-8)
    assert np.allclose(basis.eigenvalues[2:], 2, rtol=0.02)


@pytest.mark.parametrize("shape", ["plane", "tube"])
def test_a_gap_in_one_sheet_is_bridged(shape: str, rng: np.random.Generator) -> None:
    n, spacing = 700, 700**-0.5
    x = c.even(lambda m, r: r.random((m, 2)), n, rng)
    x[:, 0] += 2.3 * spacing * (x[:, 0] > 0.5)
    if shape == "plane":
        points = np.c_[x, 0.2 * x[:, 0] ** 2]
    else:  # rings, whose own frames do not see the way along the tube
        angle, place = np.meshgrid(
            np.arange(12) * np.pi / 6, np.arange(40) * 0.3 + 0.4 * (np.arange(40) > 20)
        )
        points = np.c_[0.4 * np.cos(angle).ravel(), 0.4 * np.sin(angle).ravel(), place.ravel()]
    assert stencil(points).edges.components[0] == 1
