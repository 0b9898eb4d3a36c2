"""From a span to a basis: orthonormal columns, widened spans, Ritz values, signs and order, against
dense algebra.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.eigen.span import RitzPairs, canonical_signs, orthonormalise, rotate, sweep, widen
from eigenprobe.errors import RankError
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c
from tests.clouds import stacked


@pytest.fixture(scope="module")
def sphere() -> Smoother:
    return build_smoother(torch.from_numpy(c.fibonacci_sphere(120)), "adaptive", k=12, dimension=2)


def columns(n: int, k: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("weighted", [False, True])
def test_orthonormal_columns_and_their_triangle(weighted: bool) -> None:
    x = torch.stack([columns(15, 4), columns(15, 4, 1)]) * torch.tensor([1.0, 1e-3, 50.0, 2.0])
    mass = (
        torch.rand(2, 15, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        if weighted
        else None
    )
    q, r = orthonormalise(x, mass)
    gram = q.mT @ (q if mass is None else mass[..., None] * q)
    torch.testing.assert_close(
        gram, torch.eye(4, dtype=torch.float64).expand(2, 4, 4), atol=1e-12, rtol=0
    )
    torch.testing.assert_close(q @ r, x, atol=1e-11, rtol=1e-11)
    assert bool((r.tril(-1).abs() < 1e-12).all()) and bool((r.diagonal(dim1=1, dim2=2) > 0).all())
    with pytest.raises(RankError, match="5 independent columns need at least 5 rows, got 4"):
        orthonormalise(columns(4, 5))
    orthonormalise(columns(4, 4))
    with pytest.raises(RankError, match="expected 5 independent columns"):
        orthonormalise(torch.cat([x, x.sum(-1, keepdim=True)], -1), mass)


def test_a_widened_span_holds_what_is_new() -> None:
    first, more = columns(20, 3), columns(20, 4, 1) * torch.tensor([1e-6, 1.0, 30.0, 1.0])
    more[:, 3] = first @ torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)  # nothing new
    q, present = widen(first, more)
    assert present.tolist().count(True) == 6 and present[:3].all()
    kept = q[:, present]
    torch.testing.assert_close(kept.T @ kept, torch.eye(6, dtype=torch.float64), atol=1e-12, rtol=0)
    assert float(q[:, ~present].norm()) < 1e-9
    torch.testing.assert_close(q[:, :3], orthonormalise(first)[0])
    every = orthonormalise(torch.cat([first, more[:, :3] / more[:, :3].norm(dim=0)], 1))[0]
    torch.testing.assert_close(kept @ kept.T, every @ every.T, atol=1e-9, rtol=0)
    none = widen(first, torch.zeros(20, 2, dtype=torch.float64))
    assert bool(none[0].isfinite().all()) and not bool(none[1][3:].any())
    many = widen(torch.stack([first, first]), torch.stack([more, more]))
    for one, other in zip(many, (q, present), strict=True):
        torch.testing.assert_close(one[1], other)


@pytest.mark.parametrize("unit", [1e-24, 1e-12, 1.0, 1e12])
def test_orthonormal_columns_in_any_unit_of_mass(unit: float) -> None:
    x, mass = columns(15, 4).float(), unit * torch.linspace(1, 2, 15, dtype=torch.float64)
    q, r = orthonormalise(x, mass)
    torch.testing.assert_close(
        q.T @ (mass[:, None] * q), torch.eye(4, dtype=torch.float64), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(q @ r, x.double(), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kind", ["adaptive", "symmetric"])
@pytest.mark.parametrize("steps", [1, 4])
def test_a_sweep_is_a_chebyshev_polynomial_of_the_lowest_quotient(kind: str, steps: int) -> None:
    # type: ignore[arg-type]
    smoother = build_smoother(torch.from_numpy(c.fibonacci_sphere(120)), kind, k=12, dimension=2)
    mu, u = torch.linalg.eigh(smoother.matrix.to_dense())
    q = orthonormalise(u[:, -6:] + 0.05 * columns(120, 6))[0]
    lowest = -1.0 if kind == "symmetric" else 0.0
    edge = float((q * (smoother.matrix @ q)).sum(0).min())
    position = ((2 * mu - edge - lowest) / (edge - lowest)).numpy()
    factor = torch.from_numpy(np.polynomial.chebyshev.chebval(position, [0] * steps + [1]))
    expected = orthonormalise(u @ (factor[:, None] * (u.T @ q)))[0]
    found = sweep(q, smoother, steps)
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-8, rtol=0)
    torch.testing.assert_close(sweep(q, smoother), sweep(q, smoother, 4))


def test_signs_follow_the_third_moment_or_the_largest_entry() -> None:
    skew = torch.tensor(
        [[3.0], [-2.0], [-2.0], [-1.5]], dtype=torch.float64
    )  # 27 - 8 - 8 - 3.4 > 0
    even = torch.tensor([[-2.0], [2.0], [1.0], [-1.0]], dtype=torch.float64)
    nearly = torch.tensor([[-2.0], [2.0 - 1e-5], [1.0], [-1.0]], dtype=torch.float64)
    both = torch.cat([skew, -skew, even, -even, nearly, -nearly], 1)
    assert canonical_signs(both).tolist() == [1, -1, -1, 1, -1, 1]
    weights = torch.tensor([0.1, 1.0, 1.0, 1.0], dtype=torch.float64)
    assert canonical_signs(skew, weights).tolist() == [-1]
    stacked = canonical_signs(torch.stack([both, -both]), torch.ones(2, 4, dtype=torch.float64))
    assert stacked.tolist() == [[1, -1, -1, 1, -1, 1], [-1, 1, 1, -1, 1, -1]]


def test_columns_are_kept_turned_or_widened(sphere: Smoother) -> None:
    root = sphere.mass.double().sqrt()
    mu, u = torch.linalg.eigh(sphere.matrix.to_dense())
    given = torch.cat([root[:, None], columns(120, 5)], 1)
    kept = rotate(given, sphere, 6, turn=False)
    q, _ = orthonormalise(given)
    quotient = (q * (q - sphere.apply(q))).sum(0)
    order = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + quotient[1:].argsort()])
    torch.testing.assert_close(kept.q.abs(), q[:, order].abs(), atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(kept.eigenvalues[1:], quotient[order][1:] / float(sphere.step_time))
    turned = rotate(given, sphere, 4)
    small = q[:, 1:].T @ (q[:, 1:] - sphere.apply(q[:, 1:]))
    torch.testing.assert_close(turned.gaps[1:], torch.linalg.eigvalsh(small)[:3])
    torch.testing.assert_close(turned.vectors[:, 0], torch.ones(120, dtype=torch.float64))
    assert float(turned.eigenvalues[0]) == 0 and turned.q.shape == (120, 4)
    leading = rotate(given, sphere, 3, leading=3)  # three, and what the others add to their span
    torch.testing.assert_close(leading.gaps, turned.gaps[:3], atol=1e-9, rtol=1e-8)
    repeated = torch.cat([given, given[:, 1:3]], 1)
    torch.testing.assert_close(
        rotate(repeated, sphere, 4, leading=6).gaps, turned.gaps, atol=1e-9, rtol=1e-8
    )
    with pytest.raises(RankError):
        rotate(repeated, sphere, 4)
    better = rotate(given, sphere, 4, sweeps=3)
    assert float(better.gaps.sum()) < float(turned.gaps.sum()) and better.q.shape == (120, 4)
    torch.testing.assert_close(
        better.q.T @ better.q, torch.eye(4, dtype=torch.float64), atol=1e-9, rtol=0
    )
    known = rotate(u.flip(1)[:, :5], sphere, 4, gaps=1 - mu.flip(0)[:5])  # eigenvectors already
    torch.testing.assert_close(known.gaps[1:], 1 - mu.flip(0)[1:4], atol=1e-9, rtol=1e-7)
    torch.testing.assert_close(known.q.abs(), u.flip(1)[:, :4].abs(), atol=1e-9, rtol=1e-6)
    moments = (known.vectors**3 * sphere.mass[:, None]).sum(0)
    assert bool(
        (moments[1:] > -1e-3 * (known.vectors.abs() ** 3 * sphere.mass[:, None]).sum(0)[1:]).all()
    )
    parts = (known.q, known.mass, known.gaps, known.gaps)
    half = RitzPairs(*(torch.stack([part, part]) for part in parts))
    one = half.of(1, 50)
    assert one.q.shape == (50, 4) and one.mass.shape == (50,) and torch.equal(one.gaps, known.gaps)


def test_a_lowest_eigenvalue_that_is_not_zero(sphere: Smoother) -> None:
    from eigenprobe.smoothers.alteration import with_potential

    v = torch.linspace(-1, 3, 120, dtype=torch.float64)
    altered = with_potential(sphere, v)
    mu, u = torch.linalg.eigh(altered.matrix.to_dense())
    exact = -1 + (1 - mu.flip(0)[:5]) / float(altered.step_time)
    scrambled = u.flip(1)[:, [3, 0, 4, 1, 2]] * torch.tensor([1.0, -1, 1, -1, 1])
    rotation = rotate(scrambled, altered, 5)
    torch.testing.assert_close(rotation.eigenvalues, exact, atol=1e-9, rtol=1e-8)
    assert float(rotation.q[:, 0].sum()) > 0  # the first is not the constant, and is positive
    torch.testing.assert_close(rotation.q[:, 0].abs(), u.flip(1)[:, 0].abs(), atol=1e-7, rtol=0)


def test_a_learned_mass_is_the_square_of_the_first_column() -> None:
    smoother = build_smoother(torch.from_numpy(c.fibonacci_sphere(90)), "row", k=9, dimension=2)
    first = torch.rand(90, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5
    q = orthonormalise(torch.cat([-first[:, None], columns(90, 3)], 1))[0]
    rotation = rotate(q, smoother, 4)
    root = q[:, 0].abs()
    torch.testing.assert_close(rotation.mass, root.square() / root.square().sum())
    s = smoother.matrix.to_dense()
    quotients = torch.stack(
        [v @ (torch.diag(root**2) @ (v - s @ v)) for v in (q[:, 1:] / root[:, None]).T]
    )
    torch.testing.assert_close(rotation.gaps[1:], quotients.sort().values, atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(rotation.q[:, 0], root)
    torch.testing.assert_close(
        rotation.eigenvalues[1:], rotation.gaps[1:].clamp_min(0) / float(smoother.step_time)
    )


def test_stacked_clouds_are_rotated_each() -> None:
    from eigenprobe.neighbors.graph import build_graph

    x = [
        torch.from_numpy(s * c.fibonacci_sphere(90) @ np.diag([1.0, t, 0.8]))
        for s, t in ((3.0, 0.7), (1.0, 1.2))
    ]
    graphs = [build_graph(each, 12) for each in x]
    *alone, together = (
        build_smoother(g, dimension=2, balance=False) for g in (*graphs, stacked(graphs))
    )
    given = []
    for i, each in enumerate(alone):
        given.append(torch.cat([-each.mass.sqrt()[:, None], columns(90, 6, i)], 1))
    given[0][:, 6] = given[0][:, 1] - given[0][:, 2]  # nothing new in the first cloud
    spans, wide = torch.stack(given)[..., :5], torch.stack(given)
    for options in ({}, {"turn": False}, {"sweeps": 2}):
        both = rotate(spans, together, 4, leading=3, **options)  # type: ignore[arg-type]
        for i, each in enumerate(alone):
            one = rotate(spans[i], each, 4, leading=3, **options)  # type: ignore[arg-type]
            found = both.of(i, 90)
            torch.testing.assert_close(found.q, one.q, atol=1e-7, rtol=1e-6)
            torch.testing.assert_close(found.mass, one.mass)
            torch.testing.assert_close(found.eigenvalues, one.eigenvalues, atol=1e-7, rtol=1e-6)
    both = rotate(wide, together, 6, leading=3)
    for i, each in enumerate(alone):  # a column that a cloud does not need is last there
        one = rotate(wide[i], each, 6, leading=3)
        torch.testing.assert_close(
            both.of(i, 90).eigenvalues[:6], one.eigenvalues[:6], atol=1e-7, rtol=1e-6
        )
        assert one.q.shape == (90, 6)
    known = rotate(spans, together, 4, gaps=torch.rand(2, 5).double())
    assert known.q.shape == (2, 90, 4) and known.gaps.shape == (2, 4)
