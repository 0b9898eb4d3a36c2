"""One set of laws over every smoother, then what each adds; brute-force float64 references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.extensions import KernelExtension
from eigenprobe.graph import stack
from eigenprobe.graph.graph import build_graph, estimate_dimension
from eigenprobe.smoothers import KINDS, Smoother, build_smoother
from eigenprobe.smoothers.prepared import laplacian_stencil
from eigenprobe.smoothers.stencil import tangent_frames
from tests import clouds as c

N = 400
VARIANTS = [("row", {}), ("symmetric", {}), ("symmetric", {"self_loops": True}), ("symmetric", {"alpha": 0.0})] + [
    ("adaptive", {"balance": choice}) for choice in (True, False)
]


def cloud(n: int = N, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(c.random_sphere(n, np.random.default_rng(seed)))


@pytest.fixture(params=VARIANTS, ids=lambda v: f"{v[0]} {v[1]}")
def smoother(request: pytest.FixtureRequest) -> Smoother:
    kind, options = request.param
    return build_smoother(cloud(), kind, **options)


def test_laws_of_every_smoother(smoother: Smoother, generator: torch.Generator) -> None:
    dense = smoother.matrix.to_dense()
    x = torch.randn(N, 3, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(smoother.apply(x), dense @ x)
    torch.testing.assert_close(smoother.apply_transpose(x), dense.T @ x)
    torch.testing.assert_close(smoother.power(x[:, 0], 3), dense @ dense @ dense @ x[:, 0])
    assert (smoother.n, smoother.dtype) == (N, torch.float64)
    assert smoother.step_time > 0
    assert smoother.dimension == 2
    values = torch.linalg.eigvals(dense).real
    assert values.max() < 1 + 1e-10
    one = torch.ones(N, dtype=torch.float64)
    if not smoother.symmetric:
        torch.testing.assert_close(dense.sum(1), one)
        return
    torch.testing.assert_close(dense, dense.T)
    assert float(smoother.mass.sum()) == pytest.approx(1)
    assert bool((smoother.mass > 0).all())
    root = smoother.mass.sqrt()
    torch.testing.assert_close(smoother.apply(root), root)  # q_1 = sqrt(mass) exactly
    if smoother.kind == "adaptive":
        assert values.min() > -1e-10  # positive semi-definite


def test_precision_and_device_follow(smoother: Smoother) -> None:
    single = smoother.to(dtype=torch.float32)
    x = torch.randn(N, 2, dtype=torch.float64)
    torch.testing.assert_close(single.apply(x.float()).double(), smoother.apply(x), atol=1e-5, rtol=1e-5)
    assert single.dtype == torch.float32


def test_all_of_a_smoother_goes_along() -> None:
    graphs = [build_smoother(torch.from_numpy(c.fibonacci_sphere(n)), dimension=2).graph for n in (90, 130)]
    both = build_smoother(stack(graphs), dimension=2)  # type: ignore[arg-type]
    both = replace(both, density=torch.ones(220, dtype=torch.float64))
    moved = both.to("meta", torch.float32)
    for name in ("matrix", "mass", "leaving", "density", "step_time"):
        value = getattr(moved, name)
        assert value.device.type == "meta" and value.dtype == (torch.float64 if name == "step_time" else torch.float32)


def test_row_and_symmetric_against_the_formulas() -> None:
    x, k, sigma = cloud(60), 6, 0.5
    graph = build_graph(x, k)
    w = torch.zeros(60, 60, dtype=torch.float64)
    w[torch.arange(60)[:, None], graph.indices] = torch.exp(-(graph.distances**2) / sigma**2)
    row = build_smoother(graph, "row", bandwidth=sigma)
    torch.testing.assert_close(row.matrix.to_dense(), w / w.sum(1, keepdim=True))
    s = torch.maximum(w, w.T)
    d = s.sum(1)
    s = s / d[:, None] / d
    r = s.sum(1)
    symmetric = build_smoother(graph, "symmetric", bandwidth=sigma)
    torch.testing.assert_close(symmetric.matrix.to_dense(), s / (r[:, None] * r).sqrt())
    torch.testing.assert_close(symmetric.mass, r / r.sum())
    distance2 = torch.cdist(x, x) ** 2
    assert symmetric.step_time == pytest.approx(float((s * distance2).sum() / r.sum() / 4))


@pytest.mark.parametrize("dimension", [2, 3])
def test_weights_make_coordinates_harmonic(dimension: int, rng: np.random.Generator) -> None:
    x = torch.as_tensor(rng.random((1500, dimension)))
    stencil = laplacian_stencil(build_graph(x, 30), dimension)
    edges, weight = stencil.edges, stencil.weight
    chord = x[edges.tail] - x[edges.head]
    pull = edges.at_head(weight[:, None] * chord) - edges.at_tail(weight[:, None] * chord)
    size = edges.at(weight * stencil.length2.sqrt())
    inside = ((x > 0.15) & (x < 0.85)).all(1)
    imbalance = (pull.norm(dim=1) / size)[inside]
    assert bool((weight > 0).all())
    if dimension == 2:  # cells: exact but for those of very close pairs, of more neighbours than are looked at, or open
        assert float(imbalance.quantile(0.75)) < 1e-6 and float(imbalance.mean()) < 0.04
    else:
        assert float(imbalance.mean()) < 0.02
    # With the local time as mass, |x|^2 has the Laplacian 2 dim wherever the point is balanced.
    square = x.square().sum(1)
    lift = weight * (square[edges.tail] - square[edges.head])
    found = (edges.at_head(lift) - edges.at_tail(lift) - 2 * (x * pull).sum(1)) / stencil.mass
    # Edges of strays count as shorter than they are, and cells at the boundary have an area beyond their points.
    shortened = (stencil.length2 < (1 - 1e-9) * chord.square().sum(1)).to(x)
    plain = inside & (edges.at(shortened) == 0)
    assert float(plain.double().sum() / inside.sum()) > 0.98
    if dimension == 2:  # a tenth of the mass is shared: the mean is what it was
        whole = (found * stencil.mass)[inside].sum() / stencil.mass[inside].sum()
        assert float(whole) == pytest.approx(4, rel=0.02)
    else:
        torch.testing.assert_close(found[plain], torch.full_like(square, 6.0)[plain])


def test_frames_span_the_tangent_plane(rng: np.random.Generator) -> None:
    for ambient in (3, 20):  # the small covariance, and the small Gram matrix
        x = torch.zeros(800, ambient, dtype=torch.float64)
        x[:, :3] = torch.as_tensor(c.random_sphere(800, rng))
        graph = build_graph(x, 10)
        frames = tangent_frames(x[graph.indices] - x[:, None], graph.distances, 2)
        torch.testing.assert_close(frames.mT @ frames, torch.eye(2, dtype=x.dtype).expand(800, 2, 2), atol=1e-6, rtol=0)
        assert float((frames.mT @ x[..., None]).norm(dim=1).median()) < 0.1  # perpendicular to the normal


def test_a_gap_is_bridged_where_the_graph_allows(rng: np.random.Generator) -> None:
    x = torch.as_tensor(np.sort(np.concatenate([rng.random(100), 1.3 + rng.random(100)]))[:, None])
    graph = build_graph(x, 199)
    assert laplacian_stencil(graph, 1).edges.components[0] == 1


@pytest.mark.parametrize(
    ("expected", "make"),
    [
        (1, lambda r: c.flat_torus(np.stack([r.random(500) * 6, np.zeros(500)], 1))),
        (1, lambda r: r.random((300, 1))),
        (2, lambda r: c.random_sphere(500, r)),
        (2, lambda r: c.flat_torus(r.random((1000, 2)) * 6.28)),
        (3, lambda r: r.random((1000, 3))),
        (3, lambda r: c.grid(10, 3)),
    ],
)
def test_intrinsic_dimension(expected: int, make: object, rng: np.random.Generator) -> None:
    x = torch.as_tensor(make(rng))  # type: ignore[operator]
    assert estimate_dimension(build_graph(x, 30)) == expected


def test_intrinsic_dimension_of_embeddings(rng: np.random.Generator) -> None:
    flat = rng.normal(size=(2000, 6)) @ np.linalg.qr(rng.normal(size=(64, 6)))[0].T
    assert 4 < estimate_dimension(build_graph(torch.as_tensor(flat), 30)) < 7
    assert 3 < estimate_dimension(build_graph(torch.as_tensor(flat + 2), 30, metric="cosine")) < 8


def test_stacked_clouds_are_each_on_their_own() -> None:
    graphs = [build_graph(cloud(n, n), 30) for n in (90, 150)]
    *parts, whole = (build_smoother(graph, balance=False) for graph in (*graphs, stack(graphs)))
    x = torch.randn(240, 2, dtype=torch.float64)
    torch.testing.assert_close(whole.apply(x), torch.cat([parts[0].apply(x[:90]), parts[1].apply(x[90:])]))
    assert whole.mass is not None
    assert float(whole.mass.sum()) == pytest.approx(2)
    torch.testing.assert_close(whole.step_time, torch.tensor([part.step_time for part in parts], dtype=torch.float64))
    with pytest.raises(InputError, match="one metric and one number of neighbours"):
        stack([graphs[0], graphs[1].truncate(20)])


def test_unknown_kinds_and_coinciding_points() -> None:
    with pytest.raises(InputError, match=" or ".join(map(repr, KINDS))):
        build_smoother(cloud(), "other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="most points coincide"):
        build_smoother(torch.zeros(40, 2, dtype=torch.float64), "symmetric", dimension=2)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_extension(metric: str) -> None:
    x = torch.as_tensor(c.fibonacci_sphere(2000))
    values = torch.as_tensor(c.sphere_functions(x.numpy()))
    extension = KernelExtension(x, values, metric)  # type: ignore[arg-type]
    torch.testing.assert_close(extension(x), values, atol=1e-10, rtol=0)
    new = cloud(300, 7)
    found = extension(new)
    expected = torch.as_tensor(c.sphere_functions(new.numpy()))
    for j in range(1, 16):
        assert float(torch.corrcoef(torch.stack([found[:, j], expected[:, j]]))[0, 1]) > 0.999
    torch.testing.assert_close(torch.cat([extension(row[None]) for row in new[:20]]), found[:20], atol=1e-12, rtol=0)


def test_a_constant_is_the_first_vector_of_symmetric_smoothers_alone() -> None:
    """Unless something is known to vanish somewhere; the mass of a directed average is learned."""
    graph = build_graph(cloud(60), 8)
    for kind in KINDS:
        made = build_smoother(graph, kind)
        assert made.symmetric == made.fixes_mass == (kind != "row")
    assert not replace(made, lowest=0.5).fixes_mass
