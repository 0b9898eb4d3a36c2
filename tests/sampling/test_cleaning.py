"""Cleaning: laws of the answer (pose, order, unit, stacks), what it leaves alone, and what it mends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenprobe.errors import InputError
from eigenprobe.sampling import cleaning
from eigenprobe.sampling.cleaning import (
    LEAST,
    NOT_A_STRAY,
    CleaningConfig,
    CleaningNetwork,
    clean,
    read_cleaning,
    write_cleaning,
)


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


def test_a_noisy_third_of_a_clean_cloud_is_cleaned() -> None:
    # As views are that do not fit each other: most points lie on one sheet, and the middle one does not move.
    generator = torch.Generator().manual_seed(4)
    x = normalize(torch.randn(4000, 3, generator=generator, dtype=torch.float64), dim=1)
    cap = x[:, 2] > 0.4
    height = 0.02 * torch.randn(4000, 1, generator=generator, dtype=torch.float64) * cap[:, None]
    cleaned, _ = clean(x * (1 + height))
    left = (cleaned.norm(dim=1) - 1).abs()
    assert float(left[cap].mean()) < 0.4 * float(height[cap].abs().mean())
    assert float(left[~cap].mean()) < 5e-4


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


@pytest.mark.parametrize("count", [1, 2, 8, 9, 27, 40])
def test_clouds_that_are_searched_together_lie_apart(count: int) -> None:
    centres = cleaning.apart(count, torch.device("cpu")).double()
    assert centres.shape == (count, 3) and bool((centres[0] == 0).all())
    lengths = torch.cdist(centres, centres).fill_diagonal_(torch.inf)
    assert count == 1 or float(lengths.min()) == cleaning.APART
    assert float(centres.max()) <= cleaning.APART * (count ** (1 / 3) + 1)


def test_principal_axes_are_a_rotation_with_positive_moments() -> None:
    for seed in range(6):
        x = torch.randn((80, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.float64).exp()
        x = (x - x.mean(0)) * torch.tensor([3.0, 2.0, 1.0]) * (1.0, 1e-3)[seed % 2]
        axes = cleaning._principal(x)
        torch.testing.assert_close(axes.T @ axes, torch.eye(3, dtype=x.dtype))
        assert float(torch.linalg.det(axes)) == pytest.approx(1)
        moments = x @ axes
        spread = moments.T @ moments
        assert float((spread - spread.diag().diag()).abs().max()) < 1e-9 * float(spread.max())
        assert bool((spread.diag().diff() > 0).all()) and bool((moments[:, :2].pow(3).sum(0) > 0).all())


def _network() -> CleaningNetwork:
    torch.manual_seed(0)
    config = CleaningConfig(width=8, edge=6, planes=3, rounds=1, heads=2, near=9, far=4)
    return CleaningNetwork(config).double().requires_grad_(False)


def test_neighbours_are_the_nearest_of_all_and_of_the_coarse_level() -> None:
    network, x = _network(), ellipsoid(90)
    coarse = torch.arange(0, 90, 7)
    index, unit = network.search(x, coarse)
    lengths = torch.cdist(x, x)
    order = lengths.argsort(1)
    assert torch.equal(index[:, :9], order[:, 1:10])
    torch.testing.assert_close(unit, lengths.gather(1, order)[:, 8])  # the eighth but itself
    assert torch.equal(index[:, 9:], coarse[lengths[:, coarse].argsort(1)[:, :4]])


def test_edges_are_offsets_in_units_their_lengths_and_the_units_of_both() -> None:
    network, x = _network(), ellipsoid(70)
    x[0] = 90  # farther than all alike
    index, unit = network.search(x, torch.arange(0, 70, 7))
    rows = torch.tensor([0, 5, 69])
    found = network._around(x, unit, index, rows)
    for place, i in enumerate(rows.tolist()):
        for column, j in enumerate(index[i].tolist()):
            offset = ((x[j] - x[i]) / unit[i]).clamp(-8, 8)
            parts = [*offset, offset.norm(), (unit[j] / unit[i]).log().clamp(-8, 8)]
            torch.testing.assert_close(found.offset[place, column], offset)
            torch.testing.assert_close(found.edges[place, column], network.encode_edge(torch.stack(parts)))
    assert torch.equal(found.rows, index[rows])


def test_attention_is_its_formula() -> None:
    """Head by head and edge by edge: keys, encoded edges and distances to planes weigh values, edges and distances."""
    network, generator = _network(), torch.Generator().manual_seed(1)
    layer, (n, m, k) = network.rounds[0], (20, 5, 7)
    memory, query, g, offset = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((n, 8 + 8 + 9), (m, 8 + 2 * 6), (m, k, 6), (m, k, 3))
    )
    rows = torch.randint(n, (m, k), generator=generator)
    found = layer._attend(query, memory, cleaning.Neighbourhood(rows, offset, g))
    for i in range(m):
        mixed, rest = [], []
        key, value, plane = memory[rows[i]].split([8, 8, 9], 1)
        t = torch.einsum("kpx,kx->kp", plane.view(k, 3, 3), offset[i])
        for head in range(2):
            own = slice(4 * head, 4 * head + 4)
            u = query[i, 8 + 6 * head : 14 + 6 * head]
            logits = key[:, own] @ query[i, own] / 4**0.5 + g[i] @ u / 6**0.5 + layer.plane(t.abs())[:, head]
            a = logits.softmax(0)
            mixed.append(a @ value[:, own])
            rest.append(a @ torch.cat([g[i], t], 1))
        torch.testing.assert_close(found[i], torch.cat(mixed + rest), rtol=1e-5, atol=1e-5)
    h = torch.randn((n, 8), generator=generator, dtype=torch.float64)
    blocks = [cleaning.Neighbourhood(rows[:2], offset[:2], g[:2]), cleaning.Neighbourhood(rows[2:], offset[2:], g[2:])]
    y = layer.norm(h)[:m]
    attended = torch.cat(
        [
            layer._attend(layer.query(y)[:2], layer.memory(layer.norm(h)), blocks[0]),
            layer._attend(layer.query(y)[2:], layer.memory(layer.norm(h)), blocks[1]),
        ]
    )
    between = h[:m] + layer.out(attended)
    whole = cleaning.Neighbourhood(rows.repeat(4, 1), offset.repeat(4, 1, 1), g.repeat(4, 1, 1))
    torch.testing.assert_close(layer(h, [whole])[:m], between + layer.feedforward(between))
    halves = [cleaning.Neighbourhood(*(each[part] for each in whole)) for part in (slice(0, 2), slice(2, 20))]
    torch.testing.assert_close(layer(h, halves), layer(h, [whole]))


@pytest.mark.parametrize("views", [1, 2, 4])
@pytest.mark.parametrize("factor", [0.01, 0.07, 0.1, 0.2])
def test_steps_of_a_known_network(views: int, factor: float) -> None:
    """It asks every point to move by a share of its place: twice, in all views alike, less where that is little."""

    class Known:
        config = CleaningConfig()

        def search(self, x: Tensor, coarse: Tensor) -> None:
            self.coarse = coarse

        def __call__(self, x: Tensor, found: Any) -> tuple[Tensor, Tensor, Tensor]:
            return -factor * x, 3 + 0 * x[:, 0], torch.full_like(x[:, 0], 0.5)

    x = ellipsoid(300) * 7 + 2
    known = Known()
    y, logits = clean(x, views=views, network=known)
    centred = x - x.mean(0)
    moves = (factor * centred / centred.norm(dim=1).max()).norm(dim=1).sort().values
    share = min(max((float(moves[269]) - 0.05) / 0.05, 0), 1)  # nine tenths of the points move less
    expected = x.mean(0) + centred * (1 - share * (1 - (1 - factor / 2) ** 2))
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, torch.full_like(logits, 3.0))
    assert 0 <= share <= 1 and torch.equal(known.coarse, torch.arange(0, 300, 300 // 64))
    assert torch.equal(y, x) == (factor == 0.01)
