"""Probes are smoothed noise: exact against a dense matrix, for numbers and for ranges."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.probes.probes import Probes, seed_signal


def cloud(n: int = 60, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(points: torch.Tensor, k: int, sigma: float) -> torch.Tensor:
    graph = build_graph(points, k)
    weights = torch.exp(-graph.distances.square() / sigma**2)
    matrix = torch.zeros(len(points), len(points), dtype=points.dtype).scatter_(
        1, graph.indices, weights
    )
    return matrix / matrix.sum(1, keepdim=True)


def test_draw_equals_the_dense_power():
    points, g = cloud(), torch.Generator()
    probes = Probes(7, steps=3, k=6, sigma=0.3).draw(points, g.manual_seed(1))
    seed = Probes(7, steps=0, k=6, sigma=0.3).draw(points, g.manual_seed(1))
    torch.testing.assert_close(probes, torch.linalg.matrix_power(dense(points, 6, 0.3), 3) @ seed)
    assert float(seed.abs().max()) <= 1


def test_batches_gaussian_seeds_and_reproducibility():
    batch = torch.stack([cloud(seed=1), cloud(seed=2)])
    probes = Probes(4, distribution="gaussian", k=5, steps=1)
    a, b = (probes.draw(batch, torch.Generator().manual_seed(3)) for _ in range(2))
    assert a.shape == (2, 60, 4) and torch.equal(a, b)
    tiny = Probes(3, k=5, sigma=1e-6, steps=2).draw(cloud())  # weights underflow without the shift
    assert bool(tiny.isfinite().all())


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": -1},
        {"k": 0},
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"k": (3, 2)},
        {"sigma": (0.0, 1.0)},
        {"count": 0},
    ]
    + [{"steps": (1, 2, 3)}],
    ids=str,
)
def test_impossible_probes_are_refused(wrong):
    with pytest.raises(InputError, match=r"expected|must be"):
        Probes(**wrong)


def column(
    points: torch.Tensor, k: int, sigma: float, steps: int, seed: torch.Tensor
) -> torch.Tensor:
    return torch.linalg.matrix_power(dense(points, k, sigma), steps) @ seed


def test_ranges_are_drawn_for_every_field_with_both_ends():
    points, g = cloud(), torch.Generator()
    probes = Probes(40, steps=(1, 3), k=(3, 6), sigma=(0.1, 0.4)).draw(points, g.manual_seed(7))
    g.manual_seed(7)
    seed = 2 * torch.rand(60, 40, generator=g, dtype=torch.float64) - 1
    lengths = torch.randint(1, 4, (40,), generator=g)
    sigma = 0.1 + 0.3 * torch.rand(40, generator=g, dtype=torch.float64)
    counts = torch.randint(3, 7, (40,), generator=g)
    assert set(lengths.tolist()) == {1, 2, 3} and set(counts.tolist()) == {3, 4, 5, 6}
    for j in range(40):
        expected = column(points, int(counts[j]), float(sigma[j]), int(lengths[j]), seed[:, j])
        torch.testing.assert_close(probes[:, j], expected)


def test_ranges_of_steps_are_shared_by_all_fields():
    points, g = cloud(), torch.Generator()
    probes = Probes(4, steps=3, k=(3, 6), sigma=(0.1, 0.4), vary="step").draw(
        points, g.manual_seed(8)
    )
    g.manual_seed(8)
    signal = 2 * torch.rand(60, 4, generator=g, dtype=torch.float64) - 1
    torch.randint(3, 4, (4,), generator=g)
    for _ in range(3):
        sigma = 0.1 + 0.3 * torch.rand(1, generator=g, dtype=torch.float64)
        signal = dense(points, int(torch.randint(3, 7, (1,), generator=g)), float(sigma)) @ signal
    torch.testing.assert_close(probes, signal)


@pytest.mark.parametrize("k", [4, 9, 10, 13])
def test_the_default_width_is_the_median_distance_to_the_tenth(k):
    points, g = cloud(), torch.Generator()
    sigma = float(build_graph(points, min(k, 10)).distances[:, -1].median())
    usual, given = (
        Probes(3, steps=2, k=k, sigma=s).draw(points, g.manual_seed(2)) for s in (None, sigma)
    )
    torch.testing.assert_close(usual, given)


def test_batches_are_their_clouds():
    batch, g = torch.stack([cloud(seed=1), 3 * cloud(seed=2)]), torch.Generator()
    for sigma in (None, 0.3):
        probes = Probes(4, k=5, steps=2, sigma=sigma)
        drawn = probes.draw(batch, g.manual_seed(3))
        assert drawn.shape == (2, 60, 4)
        flat = Probes(4, k=5, steps=0, sigma=0.3).draw(batch, g.manual_seed(3))
        for i in range(2):
            width = sigma or float(build_graph(batch[i], 5).distances[:, 4].median())
            if sigma is None:
                flat = torch.stack(
                    [Probes(4, k=5, steps=0).draw(x, g) for x in (g.manual_seed(3) and batch)]
                )
            torch.testing.assert_close(drawn[i], column(batch[i], 5, width, 2, flat[i]))
    array = Probes(4, k=5, steps=2, sigma=0.3).draw(batch.numpy(), g.manual_seed(3))
    torch.testing.assert_close(torch.from_numpy(array), drawn)
    graph = build_graph(cloud(), 9)
    wide, exact = (
        Probes(4, k=5, steps=2).draw(each, g.manual_seed(3))
        for each in (graph, build_graph(cloud(), 5))
    )
    torch.testing.assert_close(wide, exact)  # a wider graph is cut
    loops = Probes(2, k=5, steps=1, sigma=0.3, self_loops=True).graph(cloud())
    assert loops.self_loops and not Probes(2, k=5).graph(cloud()).self_loops


def test_smoothed_noise_of_a_ready_smoother():
    from eigenprobe.probes.families import family
    from eigenprobe.smoothers import build_smoother

    smoother, g = build_smoother(cloud(), "symmetric", k=6, dimension=3), torch.Generator()
    seed = 3**0.5 * seed_signal(60, 3, "uniform", smoother.mass, g.manual_seed(1))
    found = family("heat").draw(smoother, 3, 4, generator=g.manual_seed(1))
    torch.testing.assert_close(
        found, torch.linalg.matrix_power(smoother.matrix.to_dense(), 4) @ seed
    )
    with pytest.raises(
        InputError, match="distribution must be 'uniform' or 'gaussian', got 'other'"
    ):
        seed_signal(3, 2, "other", seed)


def test_a_decomposition_takes_a_distribution_of_probes():
    from eigenprobe import decompose

    points, probes = cloud().numpy(), Probes(80, steps=6, k=8, sigma=0.3)
    basis = decompose(points, k=4, probes=probes)
    drawn = probes.draw(points, torch.Generator().manual_seed(0))
    given = decompose(points, k=4, probes=drawn)
    torch.testing.assert_close(torch.from_numpy(basis.vectors), torch.from_numpy(given.vectors))
    left = drawn - basis.reconstruct(basis.project(drawn))
    usual = decompose(points, k=4)
    assert (left**2).sum() < ((drawn - usual.reconstruct(usual.project(drawn))) ** 2).sum()


def test_a_draw_in_two_halves_is_a_draw():
    """The second half in half precision, as a device replays it."""
    probes, g = Probes(5, steps=3, k=7, sigma=(0.05, 0.4)), torch.Generator()
    graph = probes.graph(cloud())
    drawn = probes.draw(graph, g.manual_seed(1))
    torch.testing.assert_close(
        probes.smooth(*probes.seeds(graph, g.manual_seed(1))), drawn, rtol=0, atol=2e-3
    )
    with pytest.raises(InputError, match="neighbours"):
        Probes(3, k=9).draw(build_graph(cloud(), 5))
