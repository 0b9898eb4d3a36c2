"""Quadrics through neighbours against numpy's least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.cloud.quadrics import fit_quadrics


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_points_of_a_quadric_have_no_deviation(scale: float, rng: np.random.Generator) -> None:
    """In any unit and pose, and the foot of the normal is the point itself."""
    plane = rng.uniform(-1, 1, (20, 2))
    bowl = np.column_stack([plane, plane**2 @ [0.2, -0.1]])
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found = fit_quadrics(torch.from_numpy(scale * bowl @ turn)[None])
    # The plane is that of the points, a little off the tangent plane: a cubic remainder.
    assert float(found.deviation[0]) < 0.01 * scale
    assert float(found.foot.norm()) < 0.01 * scale
    assert abs(turn[2] @ found.axes[0, :, 0].numpy()) > 0.99
    flat = fit_quadrics(torch.from_numpy(scale * np.pad(plane, ((0, 0), (0, 1))) @ turn)[None])
    assert float(flat.deviation[0]) < 1e-6 * scale


def test_a_fit_is_that_of_least_squares(rng: np.random.Generator) -> None:
    """Weighted by a Gaussian of the reach, the point itself among its neighbours; the deviation
    counts the freedom of six numbers."""
    offsets = rng.normal(size=(30, 18, 3)) * [1.0, 0.8, 0.2]
    found = fit_quadrics(torch.from_numpy(offsets))
    parts = (found.axes, found.coefficients, found.reach, found.deviation)
    for each, axes, c, reach, deviation in zip(offsets, *(p.numpy() for p in parts), strict=True):
        x = np.concatenate([np.zeros((1, 3)), each])
        np.testing.assert_allclose(reach, np.linalg.norm(each, axis=1).max())
        w = np.exp(-((x / reach) ** 2).sum(1) / 2)
        z, v, u = (x @ axes / reach).T
        terms = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], 1)
        root = np.sqrt(w)[:, None]
        expected = np.linalg.lstsq(root * terms, root[:, 0] * z, rcond=None)[0]
        np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-3)
        left = (w * (z - terms @ expected) ** 2).sum() / w.sum() * 19 / 13
        assert deviation == pytest.approx(reach * left**0.5, rel=1e-3)


def test_neighbours_that_are_not_real_do_not_count(rng: np.random.Generator) -> None:
    offsets = torch.from_numpy(rng.normal(size=(10, 24, 3)) * [1.0, 1.0, 0.1])
    real = torch.zeros(10, 24, dtype=torch.bool)
    real[:, :16] = True
    some, alone = fit_quadrics(offsets, real), fit_quadrics(offsets[:, :16])
    for one, other in zip(some, alone, strict=True):
        torch.testing.assert_close(one.abs(), other.abs(), atol=1e-9, rtol=1e-6)
