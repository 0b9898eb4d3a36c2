"""Damage of samples: each kind is what its name says."""

from __future__ import annotations

from dataclasses import replace

import torch

from eigenprobe_lab.shapes.damage import Damage, damaged

NONE = Damage(lines=0, step=0, isotropic=0, along=0, shifted=0, voxels=0)


def sphere(b: int = 2, n: int = 4000) -> torch.Tensor:
    x = torch.randn((b, n, 3), generator=torch.Generator().manual_seed(0))
    return x / x.norm(dim=2, keepdim=True)


def test_each_damage_is_what_its_name_says() -> None:
    x, m = sphere(), 1000
    order = torch.arange(4000).expand(2, 4000)

    def made(**shares: float) -> tuple[torch.Tensor, ...]:
        return damaged(x, x, order, m, replace(NONE, **shares), torch.Generator().manual_seed(1))

    rows, y, keep = made()
    torch.testing.assert_close(y, x.gather(1, rows[..., None].expand(-1, -1, 3)))
    assert bool(keep.all())
    for kind in ("isotropic", "along", "shifted"):
        off = (made(**{kind: 1.0})[1].norm(dim=2) - 1).abs()
        assert 0 < float(off.mean()) < 0.05, kind
    _, y, keep = made(voxels=1.0)
    for cloud, kept in zip(y, keep, strict=True):
        assert len(cloud.unique(dim=0)) == int(kept.sum()) == len(cloud[kept].unique(dim=0)) < m
    assert all(
        len(set(rows.tolist())) == m
        for kind in ("lines", "step")
        for rows in made(**{kind: 1.0})[0]
    )
