"""Every family of `shapes.artefacts`: finite clouds, the same for the same seed, others for another."""

from __future__ import annotations

import pytest
import torch

from eigenprobe_lab.shapes import FAMILIES, ProceduralShapes
from eigenprobe_lab.shapes import artefacts as families

NAMES = [name for name, (draw, _) in FAMILIES.items() if draw.__module__ == families.__name__]


@pytest.mark.parametrize("name", NAMES)
def test_family(name: str) -> None:
    first, again, other = (ProceduralShapes(seed=seed, families=[name]).draw(2, 200) for seed in (3, 3, 4))
    assert len(first) == 2
    for cloud, same, different in zip(first, again, other, strict=True):
        assert cloud.shape[1] == 3 and len(cloud) == 200 and bool(torch.isfinite(cloud).all())
        assert torch.equal(cloud, same) and not torch.equal(cloud, different)
        assert torch.linalg.matrix_rank(cloud - cloud.mean(0)) == 3  # a surface in space, not a sheet


def test_families_are_known() -> None:
    assert NAMES
