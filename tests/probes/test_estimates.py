"""Eigenvalue estimators on covariances whose spectrum is known."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.eigen.span import rotate
from eigenprobe.errors import InputError
from eigenprobe.probes import estimates as spectrum
from eigenprobe.probes.objective import expected_errors, prefix_errors
from eigenprobe.smoothers import build_smoother


def test_worst_is_the_min_max_theorem():
    # On the ellipsoid |f|_L <= 1 the worst error of k eigenvectors is 1 / lambda_{k+1}, reached at
    # an axis.
    values = torch.tensor([1.0, 2.0, 5.0, 7.0, 11.0], dtype=torch.float64)
    axes = torch.diag(values.rsqrt())
    errors = prefix_errors(torch.eye(5, 4, dtype=torch.float64), axes)
    found = spectrum.from_errors(errors.amax(-1))
    torch.testing.assert_close(found[1:], values[1:4])
    assert float(found[0]) == 0


def test_mean_inverts_the_tail_of_the_covariance():
    variances = torch.tensor([8.0, 4.0, 2.0, 1.0], dtype=torch.float64)
    covariance = torch.diag(variances)
    errors = expected_errors(
        torch.eye(4, 3, dtype=torch.float64), lambda x: covariance @ x, covariance.trace()
    )
    expected = torch.tensor([0.0, 1 / 7, 1 / 3], dtype=torch.float64)
    torch.testing.assert_close(spectrum.from_errors(errors), expected)


def test_bad_input():
    with pytest.raises(InputError, match="positive reconstruction errors"):
        spectrum.from_errors(torch.zeros(3, 2))


@pytest.mark.parametrize("kind", ["mean", "worst", "rayleigh"])
def test_a_basis_of_the_constant_alone_keeps_its_eigenvalue(kind):
    """No vectors before it leave an error to estimate by."""
    points = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    smoother = build_smoother(points, "symmetric", k=8, dimension=3)
    rotation = rotate(smoother.mass.sqrt()[:, None], smoother, 1)
    assert spectrum.with_eigenvalues(rotation, smoother, kind) is rotation


def test_probes_are_independent_above_rounding():
    """Of the largest singular value, in units of eps times the longer side."""
    smoother = build_smoother(
        torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).double(), "symmetric"
    )
    root = smoother.mass.double().sqrt()[:, None]
    u = torch.linalg.qr(torch.randn(200, 3, generator=torch.Generator().manual_seed(1)).double()).Q
    eps = torch.finfo(torch.float64).eps
    for times, rank in ((1.6, 3), (0.6, 2)):
        functions = u * torch.tensor([1.0, 1.0, times * 200 * eps]) / root
        if rank == 3:
            rotation, facts = spectrum.best_basis(functions, smoother, 3)
            assert rotation.q.shape == (200, 3) and facts["explained"][:2] == pytest.approx(
                [0.5, 0.5]
            )
        else:
            with pytest.raises(
                InputError, match=r"expected at least 3 independent probes, got 2 \(of 3\)"
            ):
                spectrum.best_basis(functions, smoother, 3)
