"""Cleaning: laws of the answer (pose, order, unit, stacks), what it leaves alone, and what it mends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenprobe.errors import InputError
from eigenprobe.sampling.cleaning import LEAST, NOT_A_STRAY, clean, read_cleaning, write_cleaning


def ellipsoid(n: int = 1000, noise: float = 0.0, seed: int = 0) -> Tensor:
    """Independent points of a sphere, stretched so that its axes are unique, with noise."""
    generator = torch.Generator().manual_seed(seed)
    x, e = torch.randn((2, n, 3), generator=generator, dtype=torch.float64)
    return normalize(x, dim=1) * torch.tensor([1.0, 0.8, 0.6]) + noise * e


def height(x: Tensor) -> Tensor:
    """Distance to the ellipsoid, to first order."""
    axes = torch.tensor([1.0, 0.8, 0.6], dtype=x.dtype)
    return ((x / axes).square().sum(1) - 1).abs() / (2 * (x / axes.square()).norm(dim=1))


def test_noise_becomes_less_than_half() -> None:
    for noise in (0.01, 0.02, 0.03):
        x = ellipsoid(noise=noise)
        y, logits = clean(x)
        assert y.shape == x.shape and y.dtype == x.dtype and logits.shape == (len(x),)
        assert float(height(y).mean()) < 0.5 * float(height(x).mean())
        assert float((logits > 0).double().mean()) < 0.005


def test_a_clean_cloud_moves_less_than_two_percent_of_its_spacing() -> None:
    t = torch.arange(30, dtype=torch.float64) / 30
    grid = torch.stack(torch.meshgrid(t, t, indexing="ij"), -1).flatten(0, 1)
    plane = torch.cat([grid + 0.008 * torch.randn_like(grid), torch.zeros(len(grid), 1)], 1)
    for x in (ellipsoid(), plane):
        spacing = torch.cdist(x, x).topk(2, largest=False).values[:, 1].mean()
        assert float((clean(x)[0] - x).norm(dim=1).mean()) < 0.02 * float(spacing)


def test_the_answer_follows_pose_unit_and_order() -> None:
    x = ellipsoid(noise=0.02)
    y, logits = clean(x)
    turn = torch.linalg.qr(torch.randn((3, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64))[0]
    turn = turn * torch.linalg.det(turn)  # a rotation
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(2))
    moved, others = clean((7 * x @ turn)[order] + 3)
    torch.testing.assert_close(moved, (7 * y @ turn)[order] + 3, atol=1e-4, rtol=0)
    torch.testing.assert_close(others, logits[order], atol=1e-3, rtol=0)
    assert torch.equal(clean(x)[0], y)


def test_a_cloud_is_cleaned_alike_alone_and_in_a_stack() -> None:
    clouds = [ellipsoid(600, 0.02), ellipsoid(900, seed=1), 5 * ellipsoid(700, 0.01, seed=2) + 2]
    y, logits = clean(torch.cat(clouds), tuple(map(len, clouds)))
    alone = [clean(x) for x in clouds]
    torch.testing.assert_close(y, torch.cat([a for a, _ in alone]), atol=1e-4, rtol=0)
    torch.testing.assert_close(logits, torch.cat([z for _, z in alone]), atol=1e-2, rtol=0)
    assert torch.equal(y[600:1500], clouds[1])


def test_strays_are_told_from_the_surface() -> None:
    x = ellipsoid(2000, 0.005)
    box = 2.2 * torch.rand((100, 3), generator=torch.Generator().manual_seed(3), dtype=torch.float64) - 1.1
    far = height(box) > 0.1
    logits = clean(torch.cat([x, box]))[1]
    assert float((logits[:2000] > 0).double().mean()) < 0.005
    assert float((logits[2000:][far] > 0).double().mean()) > 0.9


def test_other_points_come_back_as_they_are() -> None:
    for x in (torch.rand(200, 2), torch.rand(200, 5), ellipsoid(LEAST - 1)):
        y, logits = clean(x)
        assert y is x and bool((logits == NOT_A_STRAY).all())
    copies = ellipsoid(100).repeat(20, 1).float()
    assert bool(torch.isfinite(clean(copies)[0]).all())


def test_large_clouds_encode_edges_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ellipsoid(300, 0.02)
    y = clean(x)[0]
    monkeypatch.setattr("eigenprobe.sampling.cleaning.KEPT", 100)
    torch.testing.assert_close(clean(x)[0], y)


def test_weights_survive_their_file(tmp_path) -> None:
    network = read_cleaning()
    write_cleaning(tmp_path / "w", network, {})
    for a, b in zip(network.parameters(), read_cleaning(tmp_path / "w").parameters(), strict=True):
        torch.testing.assert_close(a, b)
    (tmp_path / "w" / "model.safetensors").write_bytes(b"nonsense")
    read_cleaning.cache_clear()
    with pytest.raises(InputError, match="cleaning network"):
        read_cleaning(tmp_path / "w")
