"""Shift-and-invert: which problems it takes, its shift, repeated eigenvalues, and pairs against LAPACK."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import block_diag, csr_array, diags_array

from eigenprobe.eigen import inverse, nested, solve
from eigenprobe.eigen.problem import Problem, SparseOperator
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.search.layout import as_scipy
from eigenprobe.smoothers import build_smoother


def path(n: int, ring: bool = False) -> csr_array:
    """The Laplacian of a path or a ring."""
    off = np.ones(n - 1)
    weights = diags_array([off, off], offsets=[-1, 1]).tolil()
    if ring:
        weights[0, n - 1] = weights[n - 1, 0] = 1
    weights = weights.tocsr()
    return csr_array(diags_array(np.asarray(weights.sum(1)).ravel()) - weights)


def asked(entries: int, n: int = 100, known: int = 1, **options: object) -> Problem:
    operator = SparseOperator(torch.eye(n, dtype=torch.float64).to_sparse_csr())
    operator.__class__ = type("Counted", (SparseOperator,), {"entries": entries})
    given = {"bounded": True, **options}
    return Problem(operator, torch.zeros((n, known)), 3, 4, 1e-6, 50, torch.Generator(), **given)  # type: ignore[arg-type]


def test_which_problems_have_small_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    start = torch.zeros((100, 2))
    assert inverse.suits(asked(400)) and inverse.suits(asked(400, start=start))  # chains, whatever is known before
    assert inverse.suits(asked(1600)) and not inverse.suits(asked(1601))  # surfaces, and what fills up
    assert not inverse.suits(asked(401, start=start))
    assert inverse.suits(asked(1600, known=0, start=start)) and not inverse.suits(asked(1601, known=0))
    assert not inverse.suits(asked(400, bounded=False))
    monkeypatch.setattr(inverse, "INVERSION", inverse.Inversion(most=99))
    assert inverse.suits(asked(400)) and not inverse.suits(asked(401))
    monkeypatch.setattr(inverse, "INVERSION", inverse.Inversion(most=100))
    assert inverse.suits(asked(401))
    other = asked(400)
    other.operator = SimpleNamespace(n=100, device=torch.device("cpu"))  # type: ignore[assignment]
    assert not inverse.suits(other)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("n", [40, 300])
def test_pairs_are_lapacks(n: int, ring: bool) -> None:
    laplacian, known = path(n, ring), np.full((n, 1), n**-0.5)
    exact = np.linalg.eigvalsh(laplacian.toarray())
    values, found = inverse.smallest_pairs(laplacian, 6, pole=-1e-9, known=known)
    np.testing.assert_allclose(values, exact[1:7], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found.T @ found, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(laplacian @ found, found * values, atol=1e-8)
    np.testing.assert_allclose(known.T @ found, 0, atol=1e-9)
    values, found = inverse.smallest_pairs(laplacian, 4, pole=-1e-6)  # without known vectors: from zero on
    np.testing.assert_allclose(values, np.maximum(exact[:4], 0), rtol=1e-6, atol=1e-12)
    assert (values >= 0).all()


def test_where_lapack_takes_the_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    factors: list[float] = []
    real = inverse._factor
    monkeypatch.setattr(inverse, "_factor", lambda matrix, pole: factors.append(pole) or real(matrix, pole))
    for n, count in ((47, 0), (48, 1)):  # eight rows per wanted vector
        factors.clear()
        values, _ = inverse.smallest_pairs(path(n), 6, pole=-1e-7)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(path(n).toarray())[:6].clip(0), rtol=1e-6, atol=1e-10)
        assert len(factors) == count


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_known_vectors_are_left_out_of_a_small_matrix_in_any_unit(unit: float, rng: np.random.Generator) -> None:
    laplacian = csr_array(unit * path(30).toarray())
    exact, vectors = np.linalg.eigh(laplacian.toarray())
    for known in (vectors[:, :1], vectors[:, :3], np.linalg.qr(vectors[:, :3] @ rng.normal(size=(3, 3)))[0]):
        count = known.shape[1]
        values, found = inverse.smallest_pairs(laplacian, 5, pole=-1e-9 * unit, known=known)
        np.testing.assert_allclose(values, exact[count : count + 5], rtol=1e-9)
        np.testing.assert_allclose(np.abs(found.T @ vectors[:, count : count + 5]), np.eye(5), atol=1e-7)
        assert np.abs(known.T @ found).max() < 1e-10


@pytest.mark.parametrize("copies", [3, 5, 8])
def test_more_copies_of_an_eigenvalue_than_a_block_has_columns(copies: int) -> None:
    matrix = csr_array(block_diag([path(60)] * copies + [2.5 * path(60)]))
    exact = np.linalg.eigvalsh(matrix.toarray()).clip(0)
    for k in (copies + 1, 2 * copies + 3):
        values, found = inverse.smallest_pairs(matrix, k, pole=-1e-7)
        np.testing.assert_allclose(values, exact[:k], rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-8)


def test_as_many_copies_as_a_block_finds_are_searched_again() -> None:
    for values, again in (
        ([2.0, 3.0, 4.0, 5.0], False),
        ([2.0, 2.0, 3.0, 4.0], False),
        ([2.0, 2.0, 2.0, 3.0], True),
        ([1.0, 4.999, 4.9992, 4.9994], True),  # within a ten-thousandth of value and pole
        ([1.0, 4.999, 4.9992, 4.9996], False),
        ([1.0, 2.0, 3.0, 3.0, 3.0], True),
    ):
        for pole in (-1e-3, 1e-3):
            assert inverse._repeated(torch.tensor(values, dtype=torch.float64), pole) == again


def test_the_shift_is_a_hundredth_of_the_first_eigenvalue() -> None:
    for n in (200, 2000):
        laplacian, known = path(n) / 4, np.full((n, 1), n**-0.5)
        first = (2 - 2 * np.cos(np.pi / n)) / 4
        assert 0.005 * first < inverse._shift(laplacian, known) < 0.02 * first
    complete = csr_array(np.eye(12) - 1 / 12)  # all others are 1: two steps find it, but for what rounding leaves
    assert inverse._shift(complete, np.full((12, 1), 12**-0.5)) == pytest.approx(0.01, rel=1e-6)
    known = np.full((50, 1), 50**-0.5)
    for unit in (1e-16, 1e-30):  # whatever the unit of the matrix
        tiny = csr_array(unit * path(50).toarray())
        assert inverse._shift(tiny, known) == pytest.approx(unit * inverse._shift(path(50), known), rel=0.01, abs=0)
    broken = path(50).tolil()
    broken[24, 25] = broken[25, 24] = -1e-20
    broken[24, 24] = broken[25, 25] = 1 + 1e-20
    with pytest.warns(EigenprobeWarning, match="lost in rounding"):  # the mean of the diagonal is two but for four ends
        assert inverse._shift(csr_array(broken), known) == pytest.approx(1e-15 * 96 / 50, rel=0.01, abs=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_line_with_spacings_of_all_sizes(seed: int) -> None:
    """Points at t^3: gaps of 1e-21 and less, which a shift of 1e-15 could not tell apart, without a word."""
    x = np.sort(np.random.default_rng(seed).uniform(0, 1, 2000)) ** 3
    smoother = build_smoother(torch.from_numpy(np.stack([x, 0 * x, 0 * x], 1)), dimension=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EigenprobeWarning)
        pairs = solve(smoother, 6)
    values = pairs.gaps[1:] / float(smoother.step_time) * (x[-1] - x[0]) ** 2 / np.pi**2
    np.testing.assert_allclose(values, np.arange(1, 6) ** 2, rtol=0.01)


@pytest.mark.parametrize("nesting", [False, True])
def test_a_disk_with_spacings_of_all_sizes(nesting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Radii of six decades: the eigenvalues of both solvers were wrong by their own size and more, without a word."""
    rng = np.random.default_rng(0)
    radius, angle = 10 ** (-6 * rng.random(2000)), 2 * np.pi * rng.random(2000)
    disk = torch.from_numpy(np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], 1))
    smoother = build_smoother(disk, dimension=2)
    assert smoother.mass is not None
    laplacian = as_scipy(SparseOperator(smoother.matrix, None, smoother.leaving).laplacian())
    known = smoother.mass.sqrt()[:, None].numpy()
    exact, _ = inverse.smallest_pairs(laplacian, 5, known=known, pole=-inverse._shift(laplacian, known))
    if nesting:
        monkeypatch.setattr(inverse, "INVERSION", inverse.Inversion(most=0))
        monkeypatch.setattr(nested, "NESTING", nested.Nesting(points=1000))
    for k in (6, 40):
        with warnings.catch_warnings():
            warnings.simplefilter("error", EigenprobeWarning)
            gaps = solve(smoother, k).gaps[1:6].numpy()
        np.testing.assert_allclose(gaps, exact, rtol=1e-6)


def test_rows_that_are_orthogonal_to_others() -> None:
    g = torch.Generator().manual_seed(0)
    rows = torch.linalg.qr(torch.randn(20, 4, generator=g, dtype=torch.float64)).Q.T
    block = torch.randn(3, 20, generator=g, dtype=torch.float64)
    found = inverse._apart(block, rows)
    torch.testing.assert_close(found @ found.T, torch.eye(3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(found @ rows.T, torch.zeros(3, 4, dtype=torch.float64), atol=1e-14, rtol=0)
    rest = block - (block @ rows.T) @ rows
    torch.testing.assert_close((rest @ found.T) @ found, rest, atol=1e-12, rtol=0)


def test_a_space_that_holds_all_it_can_reach_goes_on() -> None:
    """Three eigenvalues only: a Krylov space of a block ends after nine dimensions, twelve vectors are asked for."""
    matrix = csr_array(np.diag(np.repeat([0.1, 0.5, 2.0], 40)))
    values, found = inverse.smallest_pairs(matrix, 12, pole=-1e-3)
    np.testing.assert_allclose(values, 0.1, rtol=1e-9)
    np.testing.assert_allclose(found.T @ found, np.eye(12), atol=1e-8)


def test_accuracy_is_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    real = inverse.smallest_pairs

    def spy(laplacian: object, k: int, **named: object) -> object:
        seen.append((named["pole"], named["accuracy"]))  # type: ignore[arg-type]
        return real(laplacian, k, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(inverse, "smallest_pairs", spy)
    n = 300
    dense = torch.eye(n, dtype=torch.float64) - torch.from_numpy(path(n).toarray()) / 4
    known = torch.full((n, 1), n**-0.5, dtype=torch.float64)
    chain = Problem(SparseOperator(dense.to_sparse_csr()), known, 5, 4, 1e-6, 50, torch.Generator(), bounded=True)
    pairs = inverse.solve(chain)
    exact = (2 - 2 * np.cos(np.pi * np.arange(1, 6) / n)) / 4
    np.testing.assert_allclose(pairs.gaps.numpy(), exact, rtol=1e-9)
    assert seen[-1][1] == 1e-12 and 0.005 * exact[0] < -seen[-1][0] < 0.02 * exact[0]
    wide = dense @ dense @ dense  # seven entries per row
    surface = Problem(SparseOperator(wide.to_sparse_csr()), known, 5, 4, 1e-5, 50, torch.Generator(), bounded=True)
    pairs = inverse.solve(surface)
    assert seen[-1] == (pytest.approx(-2e-4 / float((1 / (1 - wide.diagonal())).sum())), 1e-5)
    np.testing.assert_allclose(pairs.gaps.numpy(), 1 - (1 - exact) ** 3, rtol=1e-4)


def test_copies_that_are_little_larger_than_the_last_one_found() -> None:
    values = np.concatenate([np.full(8, 0.1), np.full(3, 0.12), np.linspace(0.2, 2, 189)])
    found, vectors = inverse.smallest_pairs(csr_array(np.diag(values)), 6, pole=-1e-3)
    np.testing.assert_allclose(found, 0.1, rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-8)
    lifted = np.diag(np.linspace(0.0, 1, 40)) @ np.eye(40)  # known vectors are lifted beyond all others
    known = np.eye(40)[:, :2]
    small, _ = inverse.smallest_pairs(csr_array(lifted), 38, pole=-1e-3, known=known)
    np.testing.assert_allclose(small, np.linspace(0, 1, 40)[2:], atol=1e-9)


def test_a_krylov_space_is_looked_at_when_it_may_be_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """First at five halves of the wanted vectors, then a block to half of them later; three solves a vector suffice."""
    side = np.arange(36)
    weights = path(36).toarray()
    grid = csr_array(np.kron(weights, np.eye(36)) + np.kron(np.eye(36), 1.3 * weights)) / 12
    sizes: list[int] = []
    real = inverse.small_ritz
    monkeypatch.setattr(inverse, "small_ritz", lambda small, *more: sizes.append(len(small)) or real(small, *more))
    values, _ = inverse.smallest_pairs(grid, 30, pole=-1e-9, known=np.full((36 * 36, 1), 1 / 36), accuracy=1e-6)
    one = 2 - 2 * np.cos(np.pi * side / 36)
    exact = np.sort((one[:, None] + 1.3 * one).ravel())[1:31] / 12
    np.testing.assert_allclose(values, exact, rtol=1e-5)
    looks = list(sizes)
    assert looks[0] == 75 and looks[-1] <= 3 * 30 + 45
    assert all(3 <= after - before <= 15 for before, after in pairwise(looks))
    assert len(looks) <= 6
    sizes.clear()
    pole = float(exact[19:21].mean())
    values, _ = inverse.smallest_pairs(grid, 30, pole=pole, known=np.full((36 * 36, 1), 1 / 36), accuracy=1e-6)
    np.testing.assert_allclose(values, exact, rtol=1e-5)
    assert sizes[0] == 63 and sizes[-1] < looks[-1]  # amid the wanted values: 2.1 times as many, fewer in the end


def test_what_the_pivots_count_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that has lost a vector below the pole goes on, whether or not eigenvalues repeat."""
    laplacian, lost = path(200), [False]
    exact = np.linalg.eigvalsh(laplacian.toarray())
    real = inverse._smallest

    def careless(solve: object, pole: float, known: torch.Tensor, k: int, *more: object) -> object:
        if lost[0]:
            return real(solve, pole, known, k, *more)  # type: ignore[arg-type]
        lost[0] = True
        values, found, left = real(solve, pole, known, k + 1, *more)  # type: ignore[arg-type]
        kept = torch.tensor([i for i in range(k + 1) if i != 2])
        return values[kept], found[kept], left

    monkeypatch.setattr(inverse, "_smallest", careless)
    for known in (None, np.full((200, 1), 200**-0.5)):
        lost[0], first = False, 0 if known is None else 1
        values, found = inverse.smallest_pairs(laplacian, 12, pole=float(exact[6:8].mean()), known=known)
        np.testing.assert_allclose(values, exact[first : 12 + first], atol=1e-9)
        np.testing.assert_allclose(found.T @ found, np.eye(12), atol=1e-8)


def test_a_pole_amid_the_wanted_values() -> None:
    """The signs of the pivots count what is below; poles above too many of the wanted values are given up."""
    laplacian = path(200)
    exact = np.linalg.eigvalsh(laplacian.toarray())
    for count in (1, 4, 9):
        pole = float(exact[count - 1 : count + 1].mean())
        for most, taken in ((count, True), (count - 1, False)):
            factor, at, below = inverse._counted(laplacian, pole, most)
            assert (at, below) == ((pole, count) if taken else (-1e-4 * pole, 0))
            x = np.ones(200)
            np.testing.assert_allclose(laplacian @ factor.solve(x) - at * factor.solve(x), x, atol=1e-5)
    assert inverse._counted(laplacian, -0.5, 0)[1:] == (-0.5, 0)
    values, found = inverse.smallest_pairs(laplacian, 12, pole=float(exact[6:8].mean()))
    np.testing.assert_allclose(values, exact[:12], atol=1e-9)
    np.testing.assert_allclose(found.T @ found, np.eye(12), atol=1e-8)
    known = np.full((200, 1), 200**-0.5)
    values, _ = inverse.smallest_pairs(laplacian, 12, pole=float(exact[6:8].mean()), known=known)
    np.testing.assert_allclose(values, exact[1:13], atol=1e-9)
    for value, below in ((0.1, 5), (0.3, 40)):  # copies on either side of the pole: all that the pivots count are found
        copies = csr_array(np.diag(np.concatenate([np.full(5, 0.05), np.full(35, 0.2), np.linspace(1, 2, 300)])))
        assert inverse._counted(copies, value, 99)[2] == below
        values, _ = inverse.smallest_pairs(copies, 40, pole=value)
        np.testing.assert_allclose(values, np.repeat([0.05, 0.2], [5, 35]), rtol=1e-8)


def test_many_vectors_of_a_surface_have_a_pole_by_weyls_law(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    real = inverse.smallest_pairs

    def spy(laplacian: object, k: int, **named: object) -> object:
        seen.append(named["pole"])  # type: ignore[arg-type]
        return real(laplacian, k, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(inverse, "smallest_pairs", spy)
    n = 400
    dense = torch.eye(n, dtype=torch.float64) - torch.from_numpy(path(n, ring=True).toarray()) / 8
    dense = torch.linalg.matrix_power(dense, 3)
    known = torch.full((n, 1), n**-0.5, dtype=torch.float64)
    for wanted, amid in ((31, False), (32, True)):
        operator = SparseOperator(dense.to_sparse_csr())
        asked = Problem(operator, known, wanted, 4, 1e-6, 50, torch.Generator(), bounded=True)
        inverse.solve(asked)
        expected = 2.0 * (wanted if amid else -1e-4) / float((1 / (1 - dense.diagonal())).sum())
        assert seen[-1] == pytest.approx(expected)
        asked.known = known[:, :0]
        inverse.solve(asked)
        assert seen[-1] == pytest.approx(-2e-4 / float((1 / (1 - dense.diagonal())).sum()))


def test_a_full_space_says_which_residual_it_reached() -> None:
    """Two thousand eigenvalues within a thousandth: no space of that size holds the first four to twelve digits."""
    exact = np.linspace(1, 1.001, 2000)
    with pytest.warns(EigenprobeWarning, match=r"filled its space of vectors") as told:
        values, found = inverse.smallest_pairs(csr_array(np.diag(exact)), 4, pole=-1e-9)
    ((times, asked),) = re.findall(r"at (\S+) times the residual (\S+) asked for", str(told[0].message))
    residual = np.linalg.norm(exact[:, None] * found - found * values, axis=0).max()  # of H, whose norm is one
    assert float(asked) == 1e-12 and 1 <= float(times) * float(asked) / residual < 2  # searches for copies add a little
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inverse.smallest_pairs(path(300, True), 6, pole=-1e-9, known=np.full((300, 1), 300**-0.5))


def test_the_shift_of_a_definite_matrix_is_a_hundredth_of_its_first_eigenvalue() -> None:
    """Nothing is known of it; one that all have is found at once."""
    for value in (1e-3, 1.0, 3.0):
        shift = inverse._shift(csr_array(value * np.eye(40)), np.empty((40, 0)))
        assert shift == pytest.approx(0.01 * value, rel=1e-9)


def test_values_that_a_second_search_finds_take_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those below the last one found replace it; a search that finds none below it is the last."""
    laplacian = csr_array(np.diag(np.arange(1.0, 61.0)))
    rows = torch.eye(60, dtype=torch.float64)
    finds = [[0, 1, 4], [2, 8], [9, 10]]
    asked: list[int] = []

    def smallest(_inverse, _pole, known, k, *_):  # type: ignore[no-untyped-def]
        asked.append(len(known))
        chosen = finds[len(asked) - 1]
        return torch.tensor([1.0 + i for i in chosen], dtype=torch.float64), rows[chosen], 0.0

    monkeypatch.setattr(inverse, "_smallest", smallest)
    monkeypatch.setattr(inverse, "_repeated", lambda values, pole: True)
    values, vectors = inverse.smallest_pairs(laplacian, 3, pole=-0.1)
    assert asked == [0, 3, 5]
    np.testing.assert_allclose(values, [1, 2, 3])
    np.testing.assert_allclose(np.abs(vectors), np.eye(60)[:, :3], atol=1e-12)


@pytest.mark.parametrize("amid", [False, True])
def test_what_is_enough_for_the_inverse(amid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amid the wanted values the accuracy over the largest ``|(H - pole) x|`` of a block, .05 at least; else it."""
    laplacian = path(200)
    exact = np.linalg.eigvalsh(laplacian.toarray())
    pole = float(exact[6:8].mean()) if amid else -0.01
    told: list[float] = []
    real = inverse._smallest

    def spy(solve_: object, at: float, known: torch.Tensor, k: int, enough: object, draw: torch.Generator) -> object:
        for block in (torch.eye(200).double()[3:7], torch.full((1, 200), 200**-0.5).double()):
            image = laplacian.toarray() @ block.numpy().T - pole * block.numpy().T
            largest = np.linalg.svd(image, compute_uv=False).max()
            told.append(largest)
            assert enough(block) == pytest.approx(1e-9 / max(0.05, largest) if amid else 1e-9)  # type: ignore[operator]
        return real(solve_, at, known, k, enough, draw)  # type: ignore[arg-type]

    monkeypatch.setattr(inverse, "_smallest", spy)
    values, _ = inverse.smallest_pairs(laplacian, 12, pole=pole, accuracy=1e-9)
    np.testing.assert_allclose(values, exact[:12], atol=1e-8)
    assert told[1] < 0.05 < told[0]
