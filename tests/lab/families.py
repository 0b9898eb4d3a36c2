"""What every family of procedural shapes must do."""

from __future__ import annotations

from types import ModuleType

import torch

from eigenprobe_lab.shapes import FAMILIES, ProceduralShapes


def families_of(module: ModuleType) -> list[str]:
    """The families that a module draws; there are some."""
    found = [name for name, (draw, _) in FAMILIES.items() if draw.__module__ == module.__name__]
    assert found
    return found


def check_family(name: str) -> None:
    """Finite clouds in space, the same for the same seed, others for another."""
    first, again, other = (
        ProceduralShapes(seed=seed, families=[name]).draw(2, 200) for seed in (3, 3, 4)
    )
    assert len(first) == 2
    for cloud, same, different in zip(first, again, other, strict=True):
        assert cloud.shape[1] == 3 and len(cloud) == 200 and bool(torch.isfinite(cloud).all())
        assert torch.equal(cloud, same) and not torch.equal(cloud, different)
        assert (
            torch.linalg.matrix_rank(cloud - cloud.mean(0)) == 3
        )  # a surface in space, not a sheet
