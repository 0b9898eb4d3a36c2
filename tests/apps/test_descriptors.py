"""Signatures against their formulas and against pyFM, on the same eigenpairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.apps import hks, shape_dna, shape_dna_distance, wks
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError


def test_heat_signature_is_the_diagonal_of_the_heat_kernel(basis: Basis) -> None:
    times = [0.01, 0.3]
    v, values = basis.vectors, basis.eigenvalues
    expected = np.stack([np.diag(v @ np.diag(np.exp(-t * values)) @ v.T) for t in times], 1)
    np.testing.assert_allclose(hks(basis, times), expected, atol=1e-10)


def test_signatures_match_pyfm(basis: Basis) -> None:
    pyfm = pytest.importorskip("pyFM.signatures.HKS_functions", reason="pyfmaps is not installed")
    waves = pytest.importorskip("pyFM.signatures.WKS_functions")
    v, values = basis.vectors, basis.eigenvalues
    above = values[1:]
    times = np.geomspace(4 * np.log(10) / above.max(), 4 * np.log(10) / above.min(), 9)
    np.testing.assert_allclose(hks(basis, times), pyfm.HKS(values, v, times), atol=1e-5)
    np.testing.assert_allclose(
        hks(basis, times, scaled=True), pyfm.HKS(values, v, times, scaled=True), atol=1e-5
    )
    np.testing.assert_allclose(hks(basis, 9, scaled=True), pyfm.auto_HKS(values, v, 9), atol=1e-5)
    np.testing.assert_allclose(wks(basis, 30), waves.auto_WKS(values, v, 30), atol=1e-5)
    energies = np.linspace(0.5, 4, 12)
    np.testing.assert_allclose(
        wks(basis, energies, sigma=0.4, scaled=False),
        waves.WKS(values, v, energies, 0.4),
        atol=1e-5,
    )


def test_signatures_from_sources_match_pyfm(basis: Basis) -> None:
    pyfm = pytest.importorskip("pyFM.signatures.HKS_functions", reason="pyfmaps is not installed")
    waves = pytest.importorskip("pyFM.signatures.WKS_functions")
    sources = [3, 40, 7]
    ours = hks(basis, 5, sources=sources, scaled=True)
    np.testing.assert_allclose(
        ours, pyfm.auto_HKS(basis.eigenvalues, basis.vectors, 5, landmarks=sources), atol=1e-5
    )
    ours = wks(basis, 20, sources=sources)
    np.testing.assert_allclose(
        ours, waves.auto_WKS(basis.eigenvalues, basis.vectors, 20, landmarks=sources), atol=1e-5
    )


def test_torch_in_torch_out_with_the_same_numbers(basis: Basis) -> None:
    for signature in (hks, wks):
        tensor = signature(basis.torch(), 6)
        assert isinstance(tensor, torch.Tensor)
        array = signature(basis, 6)
        assert isinstance(array, np.ndarray)
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-12)


def test_signatures_ignore_signs(basis: Basis, rng: np.random.Generator) -> None:
    flipped = Basis(basis.normalized * rng.choice([-1, 1], basis.k), basis.mass, basis.eigenvalues)
    np.testing.assert_allclose(wks(flipped, 8), wks(basis, 8))
    np.testing.assert_allclose(hks(flipped, 8), hks(basis, 8))


def test_shape_dna_forgets_scale_and_tells_shapes_apart(basis: Basis, other: Basis) -> None:
    bigger = Basis(basis.normalized, basis.mass, basis.eigenvalues / 9.0)
    for normalise in ("first", "slope"):
        np.testing.assert_allclose(
            shape_dna(bigger, normalise=normalise), shape_dna(basis, normalise=normalise)
        )
    assert shape_dna(basis, 5)[0] == 1.0
    assert shape_dna_distance(basis, bigger) < 1e-12
    assert shape_dna_distance(basis, other, 10) > 1e-3
    np.testing.assert_allclose(shape_dna(basis, 4, normalise="none"), basis.eigenvalues[1:5])


def test_the_slope_of_shape_dna_is_that_of_the_line_through_the_origin(basis: Basis) -> None:
    straight = Basis(
        basis.normalized, basis.mass, 7.0 * np.arange(basis.k)
    )  # Weyl's law, 4 pi / area = 7
    np.testing.assert_allclose(shape_dna(straight, normalise="slope"), np.arange(1, basis.k))
    values = basis.eigenvalues[1:]
    slope = np.linalg.lstsq(np.arange(1.0, basis.k)[:, None], values, rcond=None)[0]
    np.testing.assert_allclose(shape_dna(basis, normalise="slope"), values / slope)
    other = Basis(
        basis.normalized, basis.mass, np.concatenate([[0], 1.1 * np.arange(1.0, basis.k)])
    )
    assert shape_dna_distance(straight, other, normalise="none") == pytest.approx(
        5.9
    )  # the same at every index


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: hks(b, [1.0], sources=[b.n]), "point indices in 0..299"),
        (lambda b: hks(b, [1.0], sources=[0.5]), "point indices"),
        (lambda b: wks(b, [1.0]), "sigma"),
        (lambda b: wks(b, 0), "expected 1 to 10000 energies"),
        (lambda b: wks(b, [1.0], sigma=0.0), "sigma > 0"),
        (lambda b: wks(b.truncate(2), 4), "two eigenvalues above zero, got 1"),
        (lambda b: hks(b, [1.0, -0.5]), "at least 0, got -0.5"),
        (lambda b: hks(b, [np.nan]), "finite numbers, got .* with NaN"),
        (lambda b: hks(b, 0), "expected 1 to 10000 times, got 0"),
        (lambda b: shape_dna(b, 99), "1 <= count <= 23"),
        (lambda b: shape_dna(b, normalise="area"), "normalise"),
    ],
)
def test_bad_input_is_one_clear_line(basis: Basis, call, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call(basis)
    assert "\n" not in str(caught.value)
