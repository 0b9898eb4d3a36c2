"""Eigenvalue estimators on covariances whose spectrum is known."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.probes import estimates as spectrum
from eigenprobe.probes.objective import expected_errors, prefix_errors


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
