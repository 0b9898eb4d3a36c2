"""Two even clouds, a sphere and an ellipsoid, and their smoother."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.cloud.farthest import farthest_points
from eigenprobe.networks.spectral import diffusion
from tests.pretrained.conftest import folder  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def clouds() -> torch.Tensor:
    x = torch.nn.functional.normalize(
        torch.randn(2, 2400, 3, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    x = x * torch.tensor([[[1.0, 1.0, 1.0]], [[1.5, 0.8, 0.6]]])
    return x.gather(1, farthest_points(x, 600, start=0)[..., None].expand(-1, -1, 3))


@pytest.fixture(scope="module")
def smoother(clouds):
    return diffusion(clouds)
