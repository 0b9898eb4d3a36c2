"""Options together: whatever is asked for, an answer keeps the laws of a basis or is refused in one
line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eigenprobe as ep
from tests import clouds as c

pytestmark = pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")


def answer(points: np.ndarray, k: int = 3, **options: Any) -> ep.Basis | None:
    """The basis, checked; None where it was refused."""
    try:
        basis = ep.decompose(points, k=k, **options)
    except ep.InputError as error:
        assert "\n" not in str(error)
        return None
    assert np.isfinite(basis.vectors).all() and np.isfinite(basis.eigenvalues).all()
    assert basis.mass.min() >= 0 and basis.mass.sum() == pytest.approx(1)
    lost = {*basis.info.get("strays", []), *basis.info.get("left_out", [])}
    assert set(np.flatnonzero(basis.mass == 0)) <= lost
    assert np.diff(basis.eigenvalues).min() >= -1e-9 * abs(basis.eigenvalues).max()
    if options.get("smoother") != "row":
        gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
        np.testing.assert_allclose(gram, np.eye(k), atol=1e-6)
    return basis


def clouds(rng: np.random.Generator) -> dict[str, np.ndarray]:
    angle = 2 * np.pi * np.arange(100) / 100
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    return {
        "circle": circle,
        "ring in space": np.pad(circle, ((0, 0), (0, 1))),
        "interval": rng.random((80, 1)),
        "square": rng.random((200, 2)),
        "sphere": c.random_sphere(300, rng),
        "ball": rng.normal(size=(200, 3)),
        "table": rng.normal(size=(150, 5)),
        "lattice": c.grid(6, 3),
        "few places": rng.normal(size=(12, 3))[rng.integers(12, size=300)],
        "near copies": c.random_sphere(20, rng)[rng.integers(20, size=300)]
        + 1e-9 * rng.normal(size=(300, 3)),
        "two parts": np.concatenate([c.random_sphere(150, rng), c.random_sphere(90, rng) + 9]),
        **{f"{n} points": c.random_sphere(n, rng) for n in (4, 5, 6, 9)},
    }


def drawn(x: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Two to four options at random."""
    n, any_of = len(x), lambda *values: values[rng.integers(len(values))]
    options = {
        "neighbours": any_of(2, 3, 5, 12, "plain", "learned"),
        "dimension": any_of(1, 1.5, 2, 2.5, 3, 4),
        "smoother": any_of("adaptive", "symmetric", "row"),
        "measure": any_of(0.0, 0.5, -2.0, rng.random(n) + 0.01, 10.0 ** rng.uniform(-4, 4, n)),
        "potential": any_of(rng.random(n), 100 * rng.normal(size=n)),
        "boundary": any_of("dirichlet", rng.random(n) < 0.2),
        "anisotropy": any_of(0.3, 3.0, rng.normal(size=x.shape)),
        "metric": any_of("euclidean", "cosine", "scale-invariant"),
        "bandwidth": any_of(0.05, 0.5),
        "resolution": any_of("all", 100, 2),
        "parts": any_of("all", "largest"),
    }
    names = rng.choice(list(options), rng.integers(2, 5), replace=False)
    return {name: options[name] for name in names}


@pytest.mark.parametrize("seed", range(8))
def test_options_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    answered = 0
    for name, x in clouds(rng).items():
        for _ in range(3):
            options = drawn(x, rng)
            try:
                answered += answer(x, min(3, len(x) - 2), **options) is not None
            except Exception as error:
                raise AssertionError(f"{name} {options}: {error}") from error
    assert answered > 5


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_anisotropy_of_curves_and_few_points(strength: float, rng: np.random.Generator) -> None:
    for name, x in clouds(rng).items():
        for dimension in (None, 1, 2):
            answer(x, 2, anisotropy=strength, dimension=dimension)
            found = answer(x, 2, anisotropy=rng.normal(size=x.shape), dimension=dimension)
            assert found is not None or name not in ("square", "sphere")


@pytest.mark.parametrize("neighbours", [1, 2, 3])
def test_few_neighbours_with_a_dimension(neighbours: int, rng: np.random.Generator) -> None:
    for x in clouds(rng).values():
        for dimension in (1, 1.5, 2, 3):
            answer(x, 2, neighbours=neighbours, dimension=dimension)


@pytest.mark.parametrize("places", [3, 4, 8, 17, 20, 40])
def test_points_at_few_places(places: int, rng: np.random.Generator) -> None:
    for d in (1, 2, 3, 4):
        x = rng.normal(size=(places, d))[rng.integers(places, size=300)]
        for jitter in (0.0, 1e-12, 1e-6):
            answer(x + jitter * rng.normal(size=x.shape), 2)


@pytest.mark.parametrize("name", ["sphere", "square", "ball", "table", "two parts"])
def test_measures_keep_vectors_orthonormal(name: str, rng: np.random.Generator) -> None:
    x = clouds(rng)[name]
    for measure in (0.0, -3.0, 5.0, rng.random(len(x)) + 0.1, 10.0 ** rng.uniform(-6, 6, len(x))):
        for smoother in ("adaptive", "symmetric"):
            assert answer(x, 20, measure=measure, smoother=smoother) is not None


@pytest.mark.parametrize("name", ["sphere", "square", "ball", "circle"])
def test_vectors_of_the_papers_smoother_are_orthonormal(
    name: str, rng: np.random.Generator
) -> None:
    """In the mass that was learned; one vector is the constant."""
    x = clouds(rng)[name]
    for k in (3, 10, 20):
        basis = ep.decompose(x, k=k, smoother="row")
        gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
        np.testing.assert_allclose(gram, np.eye(k), atol=1e-6)


@pytest.mark.parametrize("dimension", [0.5, 1.5, 2.5])
def test_dimensions_between_whole_ones_have_a_mass(
    dimension: float, rng: np.random.Generator
) -> None:
    for name, x in clouds(rng).items():
        basis = answer(x, 2, dimension=dimension)
        assert basis is not None or name in ("4 points", "5 points", "6 points", "9 points")
    mass = ep.laplacian(c.random_sphere(300, rng), dimension=dimension)[1].diagonal()
    assert mass.min() > 0 and np.isfinite(mass).all()


def test_a_sample_with_fewer_points_than_vectors_is_refused(rng: np.random.Generator) -> None:
    groups = rng.normal(size=(200, 1, 3)) + 1e-3 * rng.normal(size=(200, 3, 3))
    for x, k, options in (
        (groups.reshape(-1, 3), 599, {}),
        (rng.random((600, 3)), 299, {"resolution": 5}),
    ):
        with pytest.raises(ep.InputError, match=f"k={k} needs at least {k + 1} sampled points"):
            ep.decompose(x, k, **options)


def test_a_basis_of_probes_has_no_working_sample(rng: np.random.Generator) -> None:
    with pytest.raises(ep.InputError, match="not taken together with a resolution"):
        ep.decompose(rng.random((600, 2)), 5, resolution=400, probes="features")


def test_no_anisotropy_is_the_plain_operator_where_cells_have_no_edges() -> None:
    """Points that share no edge with any cell had frames that were no numbers."""
    x = np.random.default_rng(2).random((80, 3))
    found = ep.decompose(x, 20, anisotropy=np.zeros((80, 3)), resolution="all", parts="all")
    assert np.isfinite(found.vectors).all()
    plain = ep.decompose(x, 20, resolution="all", parts="all")
    # arcs in place of chords, of points that are farther apart than the cube is thick
    np.testing.assert_allclose(found.eigenvalues, plain.eigenvalues, rtol=0.1, atol=1e-8)
