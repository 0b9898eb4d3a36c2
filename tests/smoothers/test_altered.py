"""Altered operators against dense matrices: potentials, boundaries, measures, in the units of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.graph.arranged import Arranged, arrange
from eigenprobe.smoothers import Smoother, build_smoother
from eigenprobe.smoothers.altered import Alteration, alter, numbers, vanishing, with_potential
from eigenprobe.smoothers.balanced import BALANCE, EXACT, FIRM
from tests import clouds as c


@pytest.fixture(scope="module")
def sphere() -> Smoother:
    return build_smoother(torch.from_numpy(c.fibonacci_sphere(120)), "adaptive", k=12, dimension=2)


def walk(smoother: Smoother) -> torch.Tensor:
    """``M^-1/2 A M^1/2``, whose rows sum to 1 where nothing is lost."""
    assert smoother.mass is not None
    root = smoother.mass.double().sqrt()
    return smoother.matrix.to_dense().double() / root[:, None] * root


def test_a_potential_is_added_to_the_laplacian_and_the_step_is_the_largest_safe_one(sphere: Smoother) -> None:
    potential = torch.linspace(-1, 3, sphere.n, dtype=torch.float64)
    altered = with_potential(sphere, potential)
    eye = torch.eye(sphere.n, dtype=torch.float64)
    plain, changed = (eye - walk(sphere)) / float(sphere.step_time), (eye - walk(altered)) / float(altered.step_time)
    torch.testing.assert_close(changed + altered.lowest * eye, plain + torch.diag(potential), atol=1e-8, rtol=1e-8)
    off = walk(altered).sum(1) - walk(altered).diagonal()
    assert float((walk(altered).diagonal() - off).min()) == pytest.approx(0, abs=1e-12)  # Gershgorin: A >= 0, just so
    assert Alteration().fixes_constant and Alteration(measure=0.5).fixes_constant
    assert not Alteration(potential=potential).fixes_constant and not Alteration(boundary="dirichlet").fixes_constant
