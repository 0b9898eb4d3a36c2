"""Named responses against V diag(g) V^T M f written out."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.apps import RESPONSES, apply_filter, heat_kernel, response
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError

PARAMETERS = {
    "lowpass": ({"cutoff": 20.0}, lambda x: x <= 20),
    "highpass": ({"cutoff": 20.0}, lambda x: x > 20),
    "band": ({"low": 10.0, "high": 30.0}, lambda x: (x >= 10) & (x <= 30)),
    "heat": ({"time": 0.1}, lambda x: np.exp(-0.1 * x)),
    "resolvent": ({"cutoff": 5.0}, lambda x: 1 / (1 + x / 5)),
    "butterworth": ({"cutoff": 5.0, "order": 3}, lambda x: 1 / (1 + (x / 5) ** 6)),
    "bump": ({"centre": 12.0, "width": 4.0}, lambda x: np.exp(-((x - 12) ** 2) / 32)),
}


def test_every_response_is_checked() -> None:
    assert set(PARAMETERS) == set(RESPONSES)


@pytest.mark.parametrize("name", list(RESPONSES))
def test_filters_match_the_dense_formula(basis: Basis, rng: np.random.Generator, name: str) -> None:
    parameters, formula = PARAMETERS[name]
    f = rng.normal(size=(basis.n, 3))
    v = basis.vectors
    expected = v @ (formula(basis.eigenvalues)[:, None] * (v.T @ (basis.mass[:, None] * f)))
    np.testing.assert_allclose(apply_filter(basis, f, name, **parameters), expected, atol=1e-10)
    np.testing.assert_allclose(
        apply_filter(basis, f[:, 0], name, **parameters), expected[:, 0], atol=1e-10
    )
    tensor = apply_filter(basis.torch(), torch.as_tensor(f), name, **parameters)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), expected, atol=1e-10)


def test_low_and_high_pass_and_the_rest_add_up(basis: Basis, rng: np.random.Generator) -> None:
    f = rng.normal(size=basis.n)
    low = apply_filter(basis, f, "lowpass", cutoff=15.0)
    high = apply_filter(basis, f, "highpass", cutoff=15.0, outside=1.0)
    np.testing.assert_allclose(low + high, f, atol=1e-10)


def test_a_callable_works_too(basis: Basis, rng: np.random.Generator) -> None:
    f = rng.normal(size=basis.n)
    np.testing.assert_allclose(
        apply_filter(basis, f, lambda values: values * 0 + 1),
        basis.reconstruct(basis.project(f)),
        atol=1e-12,
    )


def test_heat_kernel_conserves_heat_and_is_a_semigroup(basis: Basis) -> None:
    kernel = heat_kernel(basis, 4, 0.05)
    np.testing.assert_allclose((basis.mass * kernel).sum(), 1.0, rtol=1e-10)
    later = apply_filter(basis, kernel, "heat", time=0.1)
    np.testing.assert_allclose(later, heat_kernel(basis, 4, 0.15), atol=1e-10)


def test_bad_input(basis: Basis) -> None:
    with pytest.raises(InputError, match="lowpass, highpass"):
        response("blur")
    with pytest.raises(InputError, match="'band' takes low, high; got cutoff"):
        response("band", cutoff=1.0)
    with pytest.raises(InputError, match="source must be a whole number"):
        heat_kernel(basis, [1, 2], 0.1)


def _tree(rng: np.random.Generator, columns: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy rows along the branches of a binary tree with straight edges in random directions, and
    the path from 0.
    """
    rows, paths = [], []

    def grow(start: np.ndarray, path: float, level: int) -> None:
        length, direction = rng.uniform(0.6, 1.4), rng.normal(size=columns)
        direction /= np.linalg.norm(direction)
        s = np.sort(rng.random(int(200 * length))) * length
        rows.append(start + s[:, None] * direction)
        paths.append(path + s)
        for _ in range(2 if level < depth else 0):
            grow(start + length * direction, path + length, level + 1)

    grow(np.zeros(columns), 0.0, 0)
    x = np.concatenate(rows)
    return x + 0.1 / np.sqrt(columns) * rng.normal(size=x.shape), np.concatenate(paths)


@pytest.mark.parametrize(("columns", "depth"), [(10, 1), (10, 2), (30, 2), (100, 3)])
@pytest.mark.parametrize("seed", [0, 3])
def test_pseudotime_grows_along_the_branches_of_a_tree(columns: int, depth: int, seed: int) -> None:
    """By commute times of 15 modes four of 16 trees were below .95, one at .65."""
    x, path = _tree(np.random.default_rng([seed, columns + depth]), columns, depth)
    root = int(path.argmin())
    model = ep.Eigenmaps(15, metric="euclidean", random_state=0).fit(x)
    time = ep.apps.pseudotime(model.basis_, root=root)
    assert time[root] == 0 and time.max() == 1 and np.corrcoef(time, path)[0, 1] >= 0.97


def test_pseudotime_along_copies_and_without_a_graph(rng: np.random.Generator) -> None:
    """Copies of a point have its time; a basis whose graph is not known has commute times."""
    t = np.sort(rng.random(200))
    x = np.column_stack([t, t**2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        basis = ep.decompose(np.concatenate([x, x[50:60]]), 12)
    time = ep.apps.pseudotime(basis, 0)
    np.testing.assert_allclose(time[200:], time[50:60])
    steps = np.linalg.norm(np.diff(x, axis=0), axis=1)
    np.testing.assert_allclose(
        time[:200] * steps.sum(), np.concatenate([[0], steps.cumsum()]), rtol=0.05, atol=0.02
    )
    bare = replace(basis, source=None)
    np.testing.assert_allclose(ep.apps.pseudotime(bare, 0), ep.apps.pseudotime(basis, 0, "commute"))


def test_pseudotime_of_other_parts_is_infinite(rng: np.random.Generator) -> None:
    line = np.linspace(0, 1, 150)[:, None] * [1.0, 0.3] + 1e-3 * rng.normal(size=(150, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        basis = ep.decompose(np.concatenate([line, line + 50]), k=12)
    for kind in ("path", "commute"):  # of which the second knows the vectors only
        time = ep.apps.pseudotime(basis, 0, kind)
        assert np.isinf(time[150:]).all() and time[149] > 0.9 and time[:150].max() == 1
    for wrong in (-1, 300):
        with pytest.raises(ep.InputError, match="expected a root between 0 and 299"):
            ep.apps.pseudotime(basis, root=wrong)
