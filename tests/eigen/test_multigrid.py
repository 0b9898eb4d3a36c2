"""The multigrid hierarchy and the nested iteration, level by level against dense matrices."""

import math

import numpy as np
import pytest
import torch

from eigenprobe.eigen import multigrid, nested
from eigenprobe.eigen.multigrid import Coarsening, aggregate, cycle, hierarchy, inverse
from eigenprobe.eigen.nested import Goal, Nesting, _Problem, improve, nested_start
from eigenprobe.eigen.problem import Problem, SparseOperator
from eigenprobe.smoothers import build_smoother
from tests import clouds as c


@pytest.fixture(scope="module")
def sphere() -> tuple[torch.Tensor, torch.Tensor]:
    """``H = I - A`` (900, 900) of a sphere and its null vector."""
    x = c.fibonacci_sphere(900) * (1 + 0.2 * np.sin(np.arange(900)))[:, None]
    smoother = build_smoother(torch.from_numpy(x), dimension=2)
    return SparseOperator(smoother.matrix, None, smoother.leaving).laplacian(), smoother.mass.sqrt()[:, None]


def test_levels_are_their_formulas(sphere: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=20))
    laplacian, known = sphere
    levels = hierarchy(laplacian, known, 4)
    assert len(levels) == 3
    h, g, null = laplacian.to_dense(), torch.eye(900, dtype=torch.float64), known
    for i, level in enumerate(levels):
        torch.testing.assert_close(level.laplacian.to_dense(), h, atol=1e-10, rtol=1e-8)
        assert (level.gram is None) == (i == 0)
        if level.gram is not None:
            torch.testing.assert_close(level.gram.to_dense(), g, atol=1e-10, rtol=1e-8)
        torch.testing.assert_close(level.known, null, atol=1e-10, rtol=1e-8)
        root = h.diagonal().rsqrt()
        s = root[:, None] * h * root
        torch.testing.assert_close(level.scale[:, 0], root.float(), rtol=1e-5, atol=0)
        torch.testing.assert_close(level.scaled.to_dense(), s.float(), atol=1e-5, rtol=1e-4)
        if i == len(levels) - 1:
            break
        labels, count = aggregate(level.laplacian)
        weight = (null[:, 0] / root).abs()
        tentative = torch.zeros(len(h), count, dtype=torch.float64)
        tentative[torch.arange(len(h)), labels] = weight
        tentative = tentative / tentative.norm(dim=0)
        p = (torch.eye(len(h), dtype=torch.float64) - 2 / 3 * s) @ tentative
        torch.testing.assert_close(level.up.to_dense(), p.float(), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(level.down.to_dense(), p.T.float(), atol=1e-5, rtol=1e-4)
        first = 2 * 1.05 / (2 * 1.05**2 - 0.85**2)  # the second Chebyshev iterate on [0.2, 1.9]
        smooth = 2 * first * torch.eye(len(h), dtype=torch.float64) - first / 1.05 * s
        torch.testing.assert_close(level.smooth.to_dense(), smooth.float(), atol=1e-4, rtol=1e-4)
        x = torch.randn(count, 2, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(level.prolong(x), (root[:, None] * (p @ x.double())).float(), atol=1e-4, rtol=1e-4)
        h, null = p.T @ s @ p, tentative.T @ (null / root[:, None])
        scaled = root[:, None] * p
        g = scaled.T @ (g if i else torch.eye(900, dtype=torch.float64)) @ scaled
    assert float((h @ null).norm()) < 1e-9  # the constant stays one
    exact = torch.linalg.pinv(s, rtol=1e-9, hermitian=True)
    torch.testing.assert_close(levels[-1].inverse, exact.float(), atol=1e-2, rtol=1e-3)
    few = hierarchy(laplacian, known, 400)  # no level of fewer than one and a half times the columns
    assert len(few) == 1 and few[0].inverse is not None
    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=900))
    assert len(hierarchy(laplacian, known, 4)) == 1
    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=20, slowest=0.01))
    assert len(hierarchy(laplacian, known, 4)) == 1
    count = aggregate(laplacian)[1]
    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=20))
    assert (
        len(hierarchy(laplacian, known, 2 * count // 3)) > 1
        and len(hierarchy(laplacian, known, 2 * count // 3 + 1)) == 1
    )


def test_aggregates_are_roots_and_their_rings(sphere: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Every group has a root to which all others are neighbours, and no two roots are neighbours."""
    laplacian, _ = sphere
    labels, count = aggregate(laplacian)
    joined = laplacian.to_dense() != 0
    assert set(labels.tolist()) == set(range(count)) and 900 / 16 < count < 900 / 4
    for group in range(count):
        inside = (labels == group).nonzero()[:, 0]
        assert bool(joined[inside][:, inside].all(1).any())
    assert torch.equal(aggregate(laplacian)[0], labels)
    key = torch.arange(900)
    for factor in (1_103_515_245, 747_796_405):
        key = (key * factor) & 0x7FFFFFFF
        key = key ^ (key >> 15)
    assert len(key.unique()) == 900
    open_, roots = key + 1, torch.zeros(900, dtype=torch.bool)
    while bool((open_ > 0).any()):  # Luby's rounds, by dense matrices
        largest = torch.where(joined | torch.eye(900, dtype=torch.bool), open_, 0).amax(1)
        roots |= (open_ > 0) & (largest == open_)
        open_ = torch.where((joined & roots).any(1) | roots, 0, open_)
    number = torch.where(roots, roots.cumsum(0), 0)
    expected = torch.where(roots, number, torch.where(joined, number, 0).amax(1)) - 1
    assert torch.equal(labels, expected)


def test_every_point_of_a_small_graph_has_a_group(rng: np.random.Generator) -> None:
    """Also the point whose key is the least, 0, where its neighbours have joined others before its turn."""
    for n in (1, 2, 3, 3, 3, 3, 3, 3, 5, 8, 8, 8):
        order = rng.permutation(n)
        joined = torch.eye(n, dtype=torch.float64)
        joined[order[:-1], order[1:]] = joined[order[1:], order[:-1]] = 1  # a path
        labels, count = aggregate(joined.to_sparse_csr())
        assert set(labels.tolist()) == set(range(count))
        for group in range(count):
            inside = (labels == group).nonzero()[:, 0]
            assert bool((joined[inside][:, inside] > 0).all(1).any())


def test_sweeps_end_after_three_without_gain(
    sphere: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preconditioner that finds nothing: the residuals stay, and the fourth look at them is the last."""
    laplacian, known = sphere
    levels = hierarchy(laplacian, known, 12)
    calls: list[int] = []
    monkeypatch.setattr(nested, "inverse", lambda levels, residual, at: calls.append(at) or 0 * residual)
    start = torch.randn(900, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = improve(levels, 0, start.clone(), Goal(4, 1e-9, 1e-9), 0)
    found = improve(levels, 0, start.clone(), Goal(4, 1e-9, 1e-9), 20, torch.zeros(4, dtype=torch.float64))
    assert len(calls) == 3
    torch.testing.assert_close(found.g, before.g)


@pytest.mark.parametrize("accuracy", [1e-4, 1e-6, 1e-8])
def test_single_precision_goes_on_to_the_accuracy_that_it_can_reach(
    sphere: tuple[torch.Tensor, torch.Tensor], accuracy: float
) -> None:
    """Errors of eigenvalues are squares of residuals: the least is the square of 6e-7."""
    levels = hierarchy(*sphere, 12)
    start = torch.randn(900, 12, generator=torch.Generator().manual_seed(0))
    found = improve(levels, 0, start, Goal(6, math.inf, accuracy), 40)
    if accuracy > 1e-7:  # of values near .003 that is their last digit
        assert bool((found.error <= (accuracy * found.g[:6]).clamp_min(3.6e-13)).all())
    exact = torch.linalg.eigvalsh(sphere[0].to_dense())[1:7]
    torch.testing.assert_close(found.g[:6], exact, atol=2e-7, rtol=accuracy)


@pytest.mark.parametrize(
    ("dtype", "error", "swept"),
    [(torch.float32, 3e-13, 0), (torch.float32, 4e-13, 1), (torch.float64, 3e-13, 1), (torch.float64, 1e-16, 0)],
)
def test_errors_that_rounding_makes_are_not_swept(
    sphere: tuple[torch.Tensor, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    error: float,
    swept: int,
) -> None:
    """A ten-billionth of eigenvalues of a few thousandths is asked for; single precision is content with (6e-7)^2."""
    levels, calls = hierarchy(*sphere, 12), [0][:0]
    vectors = torch.linalg.eigh(sphere[0].to_dense()).eigenvectors[:, 1:13]
    real = nested.inverse
    monkeypatch.setattr(nested, "inverse", lambda *given: calls.append(1) or real(*given))
    given = torch.full((6,), error, dtype=torch.float64)
    improve(levels, 0, vectors.to(dtype), Goal(6, math.inf, 1e-12), 1, given)
    assert len(calls) == swept


def test_a_cycle_is_symmetric_and_halves_errors(
    sphere: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=20))
    laplacian, known = sphere
    levels = hierarchy(laplacian, known, 4)
    b = cycle(levels, torch.eye(900))
    torch.testing.assert_close(b, b.T, atol=2e-3, rtol=1e-3)
    s, null = levels[0].scaled.to_dense().double(), known / levels[0].scale.double()
    null = null / null.norm()
    away = torch.eye(900, dtype=torch.float64) - null @ null.T
    values = torch.linalg.eigvals(away @ (torch.eye(900, dtype=torch.float64) - b.double() @ s) @ away).abs()
    assert float(values.max()) < 0.55
    twice = inverse(levels, torch.eye(900)).double()
    torch.testing.assert_close(twice, (2 * b.double() - b.double() @ s @ b.double()), atol=5e-3, rtol=1e-2)
    # one level by hand: smooth, correct by the coarse level in its own scale, smooth again
    fine, coarse = levels[0], levels[1]
    r = torch.randn(900, 1, generator=torch.Generator().manual_seed(0))
    x = fine.smooth @ r
    below = coarse.scale * cycle(levels, coarse.scale * (fine.down @ (r - fine.scaled @ x)), 1)
    x = x + fine.up @ below
    x = x + fine.smooth @ (r - fine.scaled @ x)
    torch.testing.assert_close(cycle(levels, r), x, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("at", [0, 1])
def test_sweeps_of_a_level_reach_its_eigenvectors(
    sphere: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    from scipy.linalg import eigh

    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=20))
    laplacian, known = sphere
    levels = hierarchy(laplacian, known, 12)
    level = levels[at]
    g = np.eye(level.n) if level.gram is None else level.gram.to_dense().numpy()
    exact = eigh(level.laplacian.to_dense().numpy(), g, eigvals_only=True)[1:7]
    start = torch.randn(level.n, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = improve(levels, at, start.clone(), Goal(6, 1e-7, 1e-9), 60)
    np.testing.assert_allclose(found.g[:6].numpy(), exact, rtol=1e-6)
    x = found.x[:, :6]
    image = torch.from_numpy(g) @ x
    torch.testing.assert_close(x.T @ image, torch.eye(6, dtype=torch.float64), atol=1e-6, rtol=0)
    residual = level.laplacian @ x - image * found.g[:6]
    torch.testing.assert_close(found.norms, residual.norm(dim=0), atol=1e-9, rtol=1e-2)
    assert float(found.norms.max()) <= 1e-7
    assert float((level.known.T @ image).abs().max()) < 1e-6
    before = improve(levels, at, start.clone(), Goal(6, 1e-7, 1e-9), 0)
    problem = _Problem(level, torch.float64)
    span = problem.project(start.clone()).numpy()
    ritz = eigh(span.T @ level.laplacian.to_dense().numpy() @ span, span.T @ g @ span, eigvals_only=True)
    np.testing.assert_allclose(before.g.numpy(), ritz, rtol=1e-6)
    assert bool(torch.isinf(before.error).all())
    once = improve(levels, at, start.clone(), Goal(6, 1e-7, 1e-9), 1)
    assert float(once.g[:6].sum()) < 0.9 * float(before.g[:6].sum()) and bool(torch.isfinite(once.error).all())
    loose = improve(levels, at, found.x.clone(), Goal(6, 1e-3, math.inf), 5, torch.zeros(6, dtype=torch.float64))
    torch.testing.assert_close(loose.g, found.g, atol=1e-9, rtol=1e-7)


def test_which_problems_are_nested(monkeypatch: pytest.MonkeyPatch, sphere: tuple[torch.Tensor, torch.Tensor]) -> None:
    laplacian, known = sphere
    eye = torch.eye(900, dtype=torch.float64)
    operator = SparseOperator((eye - laplacian.to_dense()).to_sparse_csr())

    def asked(**options: object) -> Problem:
        given = {"known": known, "start": None, **options}
        return Problem(operator, wanted=6, guard=6, tol=1e-6, max_sweeps=9, generator=torch.Generator(), **given)  # type: ignore[arg-type]

    least = operator.entries / 900 + 0.01
    for points, most, fits in ((900, 24, True), (901, 24, False), (900, least, True), (900, least - 0.02, False)):
        monkeypatch.setattr(nested, "NESTING", Nesting(points=points, entries=most))  # type: ignore[arg-type]
        assert nested.suits(asked()) == fits
    monkeypatch.setattr(nested, "NESTING", Nesting(points=900))
    assert not nested.suits(asked(start=known)) and not nested.suits(asked(known=known[:, :0]))
    monkeypatch.setattr(multigrid, "COARSENING", Coarsening(smallest=20))
    pairs = nested.solve(asked())
    exact = torch.linalg.eigvalsh(laplacian.to_dense())[1:7]
    torch.testing.assert_close(pairs.gaps, exact, atol=0, rtol=1e-6)
    residual = laplacian @ pairs.vectors - pairs.vectors * pairs.gaps
    assert float(residual.norm(dim=0).max()) <= 1e-6 and pairs.vectors.shape == (900, 6)
    levels = multigrid.hierarchy(laplacian, known, 13)
    start = nested_start(levels, 12, Goal(6, 1e-5, 1e-4))
    assert len(levels) == 2 and start.x.shape == (900, 12) and start.x.dtype == torch.float32
    np.testing.assert_allclose(start.g[:6].numpy(), exact.numpy(), rtol=1e-3)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_points_without_edges_have_a_scale(unit: float) -> None:
    """The root of 1e-24 of the largest entry of the diagonal stands for theirs, in any unit."""
    dense, known = torch.zeros((21, 21), dtype=torch.float64), torch.zeros((21, 2), dtype=torch.float64)
    rows = torch.arange(19)
    dense[rows, rows + 1] = dense[rows + 1, rows] = -unit  # a path of 20 points, and one alone
    dense += torch.diag(-dense.sum(1))
    known[:20, 0], known[20, 1] = 20**-0.5, 1
    (level,) = hierarchy(dense.to_sparse_csr(), known, 4)
    torch.testing.assert_close(level.scale[:, 0], dense.diagonal().clamp_min(2e-24 * unit).rsqrt().float())
