"""Probes are smoothed noise: exact against a dense matrix, for numbers and for ranges."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.graph.neighbours import build_graph
from eigenprobe.probes.probes import Probes, _step, seed_signal


def cloud(n: int = 60, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(points: torch.Tensor, k: int, sigma: float) -> torch.Tensor:
    graph = build_graph(points, k)
    weights = torch.exp(-graph.distances.square() / sigma**2)
    matrix = torch.zeros(len(points), len(points), dtype=points.dtype).scatter_(1, graph.indices, weights)
    return matrix / matrix.sum(1, keepdim=True)


def test_draw_equals_the_dense_power():
    points, g = cloud(), torch.Generator()
    probes = Probes(7, steps=3, k=6, sigma=0.3).draw(points, g.manual_seed(1))
    seed = Probes(7, steps=0, k=6, sigma=0.3).draw(points, g.manual_seed(1))
    torch.testing.assert_close(probes, torch.linalg.matrix_power(dense(points, 6, 0.3), 3) @ seed)
    assert float(seed.abs().max()) <= 1


def test_ranges_are_drawn_per_field():
    points = cloud()
    probes = Probes(300, steps=4, k=6, sigma=(0.05, 0.6)).draw(points, torch.Generator().manual_seed(0))
    roughness = (probes - dense(points, 6, 0.3) @ probes).norm(dim=0) / probes.norm(dim=0)
    fixed = Probes(300, steps=4, k=6, sigma=0.3).draw(points, torch.Generator().manual_seed(0))
    same = (fixed - dense(points, 6, 0.3) @ fixed).norm(dim=0) / fixed.norm(dim=0)
    assert float(roughness.std()) > 1.5 * float(same.std())
    for vary in ("field", "step"):
        probes = Probes(5, steps=(2, 5), k=(3, 8), sigma=(0.1, 0.4), vary=vary).draw(points)
        assert probes.shape == (60, 5) and bool(probes.isfinite().all())


def test_random_steps_keep_short_fields():
    points = cloud()
    zero = Probes(400, steps=(0, 1), k=5, sigma=0.3).draw(points, torch.Generator().manual_seed(0))
    rough = (zero.var(0) > 0.25).float().mean()  # unsmoothed columns keep the variance of the seed, 1/3
    assert 0.35 < float(rough) < 0.65
    geometric = Probes(2000, steps=3, k=5, sigma=0.3, step_distribution="geometric")
    lengths = geometric._lengths(build_graph(points, 5), torch.Generator().manual_seed(0)).double()
    assert float(lengths.mean()) == pytest.approx(3, abs=0.3) and float(lengths.max()) <= 12


def test_batches_gaussian_seeds_and_reproducibility():
    batch = torch.stack([cloud(seed=1), cloud(seed=2)])
    probes = Probes(4, distribution="gaussian", k=5, steps=1)
    a, b = (probes.draw(batch, torch.Generator().manual_seed(3)) for _ in range(2))
    assert a.shape == (2, 60, 4) and torch.equal(a, b) and probes.variance == 1.0
    tiny = Probes(3, k=5, sigma=1e-6, steps=2).draw(cloud())  # weights underflow without the shift
    assert bool(tiny.isfinite().all())


def test_bad_input():
    with pytest.raises(InputError, match="at least one probe"):
        Probes(0)
    with pytest.raises(InputError, match="sigma"):
        Probes(3, sigma=(0.2, 0.1))
    with pytest.raises(InputError, match="geometric"):
        Probes(3, steps=(1, 2), step_distribution="geometric")
    with pytest.raises(InputError, match="neighbours"):
        Probes(3, k=9).draw(build_graph(cloud(), 5))


@pytest.mark.parametrize(
    "wrong",
    [{"steps": -1}, {"k": 0}, {"sigma": 0.0}, {"sigma": -1.0}, {"k": (3, 2)}, {"sigma": (0.0, 1.0)}, {"count": 0}]
    + [{"steps": (1, 2, 3)}, {"steps": (1, 4), "step_distribution": "geometric"}],
    ids=str,
)
def test_impossible_probes_are_refused(wrong):
    with pytest.raises(InputError, match=r"expected|geometric|must be"):
        Probes(**wrong)
    assert Probes(steps=0, k=1, sigma=1e-3).variance == pytest.approx(1 / 3)
    assert Probes(distribution="gaussian").variance == 1


def test_a_fused_smoothing_step_is_the_stored_one_and_the_matrix():
    points = cloud()
    probes = Probes(5, steps=4, k=7, sigma=(0.05, 0.4))
    graph, g = probes.graph(points), torch.Generator()
    stored = probes.draw(graph, g.manual_seed(1))
    signal = seed_signal(60, 5, "uniform", points, g.manual_seed(1))
    probes._lengths(graph, g)  # drawn before sigma
    exponents, sigma = probes._kernel(graph, 5, g)
    fields = zip(signal.T, sigma.tolist(), strict=True)
    last = torch.stack([torch.linalg.matrix_power(dense(points, 7, s), 4) @ f for f, s in fields], 1)
    for _ in range(4):
        signal = _step(signal, graph.indices, exponents, sigma)
    torch.testing.assert_close(signal, last, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(signal, stored, rtol=1e-12, atol=1e-12)


def test_the_graph_of_a_batch_holds_the_graphs_of_its_clouds():
    clouds = torch.stack([cloud(50, seed) for seed in range(3)])
    probes = Probes(5, k=6, self_loops=True)
    for part, one in zip(probes.graph(clouds).parts(), clouds, strict=True):
        alone = probes.graph(one)
        assert torch.equal(part.indices, alone.indices) and torch.equal(part.points, one)
        torch.testing.assert_close(part.distances, alone.distances)
