"""Named responses against V diag(g) V^T M f written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.apps import RESPONSES, apply_filter, heat_kernel, response
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError

PARAMETERS = {
    "lowpass": ({"cutoff": 20.0}, lambda x: x <= 20),
    "highpass": ({"cutoff": 20.0}, lambda x: x > 20),
    "band": ({"low": 10.0, "high": 30.0}, lambda x: (x >= 10) & (x <= 30)),
    "heat": ({"time": 0.1}, lambda x: np.exp(-0.1 * x)),
    "resolvent": ({"cutoff": 5.0}, lambda x: 1 / (1 + x / 5)),
    "butterworth": ({"cutoff": 5.0, "order": 3}, lambda x: 1 / (1 + (x / 5) ** 6)),
    "bump": ({"centre": 12.0, "width": 4.0}, lambda x: np.exp(-((x - 12) ** 2) / 32)),
}


def test_every_response_is_checked() -> None:
    assert set(PARAMETERS) == set(RESPONSES)


@pytest.mark.parametrize("name", list(RESPONSES))
def test_filters_match_the_dense_formula(basis: Basis, rng: np.random.Generator, name: str) -> None:
    parameters, formula = PARAMETERS[name]
    f = rng.normal(size=(basis.n, 3))
    v = basis.vectors
    expected = v @ (formula(basis.eigenvalues)[:, None] * (v.T @ (basis.mass[:, None] * f)))
    np.testing.assert_allclose(apply_filter(basis, f, name, **parameters), expected, atol=1e-10)
    np.testing.assert_allclose(apply_filter(basis, f[:, 0], name, **parameters), expected[:, 0], atol=1e-10)
    tensor = apply_filter(basis.torch(), torch.as_tensor(f), name, **parameters)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), expected, atol=1e-10)


def test_low_and_high_pass_and_the_rest_add_up(basis: Basis, rng: np.random.Generator) -> None:
    f = rng.normal(size=basis.n)
    low = apply_filter(basis, f, "lowpass", cutoff=15.0)
    high = apply_filter(basis, f, "highpass", cutoff=15.0, outside=1.0)
    np.testing.assert_allclose(low + high, f, atol=1e-10)


def test_a_callable_works_too(basis: Basis, rng: np.random.Generator) -> None:
    f = rng.normal(size=basis.n)
    np.testing.assert_allclose(
        apply_filter(basis, f, lambda values: values * 0 + 1), basis.reconstruct(basis.project(f)), atol=1e-12
    )


def test_heat_kernel_conserves_heat_and_is_a_semigroup(basis: Basis) -> None:
    kernel = heat_kernel(basis, 4, 0.05)
    np.testing.assert_allclose((basis.mass * kernel).sum(), 1.0, rtol=1e-10)
    later = apply_filter(basis, kernel, "heat", time=0.1)
    np.testing.assert_allclose(later, heat_kernel(basis, 4, 0.15), atol=1e-10)


def test_bad_input(basis: Basis) -> None:
    with pytest.raises(InputError, match="lowpass, highpass"):
        response("blur")
    with pytest.raises(InputError, match="'band' takes low, high; got cutoff"):
        response("band", cutoff=1.0)
    with pytest.raises(InputError, match="source must be a whole number"):
        heat_kernel(basis, [1, 2], 0.1)
