"""The table of unseen shapes: levels against means of cosines, polynomials against powers written
out.
"""

from __future__ import annotations

import numpy as np
import torch

from eigenprobe_lab.evaluation.unseen import agreement_by_level, polynomials


def test_polynomials_are_monomials_by_degree(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(30, 3)))
    found = polynomials(x, 20)  # all monomials of degree 3 and less
    assert torch.allclose(found[:, 0], torch.ones(30, dtype=torch.float64))
    degree = torch.log2(
        polynomials(2 * x, 20) / found
    )  # doubling the points multiplies by 2^degree
    assert torch.allclose(
        degree, torch.tensor([0.0] + [1.0] * 3 + [2.0] * 6 + [3.0] * 10, dtype=torch.float64)
    )
    assert torch.linalg.matrix_rank(found) == 20


def test_levels_are_means_of_cosines(rng: np.random.Generator) -> None:
    truth, _ = np.linalg.qr(rng.normal(size=(80, 12)))
    signs = np.where(np.arange(12) % 2, 1, -1)
    assert np.allclose(list(agreement_by_level(truth * signs, truth).values()), 1)
    mixed = truth.copy()
    mixed[:, [1, 2]] = truth[:, [2, 1]]  # two vectors of five exchanged
    found = agreement_by_level(mixed, truth)
    assert list(found) == ["k<=5", "k<=10", "subspace 10"]
    assert found["subspace 10"] > 1 - 1e-9 and found["k<=10"] > found["k<=5"]
