"""From a span to a basis: orthonormal columns, widened spans, Ritz values, signs and order, against dense algebra."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.eigen.span import ritz
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c


@pytest.fixture(scope="module")
def sphere() -> Smoother:
    return build_smoother(torch.from_numpy(c.fibonacci_sphere(120)), "adaptive", k=12, dimension=2)


@pytest.mark.parametrize("power", [1, 3])
@pytest.mark.parametrize("known", [0, 1])
def test_ritz_gives_ascending_gaps_and_their_vectors(sphere: Smoother, power: int, known: int) -> None:
    mu, u = torch.linalg.eigh(sphere.matrix.to_dense().double())
    mu, u = mu.flip(0)[:6], u.flip(1)[:, :6]
    turn = torch.linalg.qr(
        torch.randn(6 - known, 6 - known, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    q = torch.cat([u[:, :known], u[:, known:] @ turn], 1)
    gaps, rotation = ritz(q, sphere, power=power, known=known)
    torch.testing.assert_close(gaps, 1 - mu, atol=1e-7, rtol=1e-6)
    vectors = q @ rotation
    image = sphere.apply(vectors.to(sphere.dtype)).double()
    torch.testing.assert_close(image, (1 - gaps) * vectors, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(6, dtype=torch.float64), atol=1e-8, rtol=1e-8)
