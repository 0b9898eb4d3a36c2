"""The kernel extension against its two lines of formula, and how far it is from the true
function.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.extensions import KernelExtension
from eigenprobe.extensions.functions import NEIGHBOURS, packed, unpacked
from eigenprobe.neighbors.search import Metric
from tests import clouds as c


def brute(points: np.ndarray, values: np.ndarray, new: np.ndarray, metric: str) -> np.ndarray:
    """``s N(x) + sum_j p_j (v_j - s N(x_j))`` with every distance written out."""

    def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if metric == "cosine":
            return 1 - (a @ b.T) / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)
        return ((a[:, None] - b) ** 2).sum(-1)

    def near(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        d = np.maximum(squared(x, points), 0)
        index = np.argsort(d, 1)[:, :NEIGHBOURS]
        return index, np.take_along_axis(d, index, 1)

    def smooth(x: np.ndarray) -> np.ndarray:
        index, d = near(x)
        g = np.exp(-d / d.mean(1, keepdims=True))
        return np.einsum("ij,ijk->ik", g / g.sum(1, keepdims=True), values[index])

    at_points = smooth(points)
    scale = (at_points * values).sum(0) / (at_points**2).sum(0)
    index, d = near(new)
    p = 1 / d
    rest = values - scale * at_points
    return scale * smooth(new) + np.einsum("ij,ijk->ik", p / p.sum(1, keepdims=True), rest[index])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_extension_is_the_formula(metric: str, rng: np.random.Generator) -> None:
    points, new = rng.normal(size=(120, 4)), rng.normal(size=(15, 4))
    values = np.stack([np.ones(120), points[:, 0], np.sin(2 * points[:, 1])], 1)
    # type: ignore[arg-type]
    extension = KernelExtension(torch.from_numpy(points), torch.from_numpy(values), metric)
    np.testing.assert_allclose(
        extension(torch.from_numpy(new)).numpy(), brute(points, values, new, metric), atol=1e-10
    )
    alone = torch.cat([extension(torch.from_numpy(new[i : i + 1])) for i in range(15)])
    np.testing.assert_allclose(alone.numpy(), extension(torch.from_numpy(new)).numpy(), atol=1e-12)


def test_harmonics_keep_their_size_at_new_points(rng: np.random.Generator) -> None:
    """Averages shrink a function; its scale undoes that, so that nothing is lost but a few per cent
    of the details.
    """
    x, new = c.fibonacci_sphere(2000), c.random_sphere(400, rng)
    found = KernelExtension(torch.from_numpy(x), torch.from_numpy(c.sphere_functions(x)))(
        torch.from_numpy(new)
    )
    wanted = c.sphere_functions(new)
    slope = (found.numpy() * wanted).sum(0) / (wanted**2).sum(0)
    np.testing.assert_allclose(slope, 1, atol=5e-3)
    assert np.abs(found.numpy() - wanted).max() < 0.06


def test_a_file_holds_all_of_it(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(30, 3)))
    extension = KernelExtension(x, x[:, :2])
    again = unpacked(*packed(extension))
    assert torch.equal(again(x[:4] + 0.1), extension(x[:4] + 0.1))
    assert extension(x[:0]).shape == (0, 2)


def test_stored_extensions_must_fit_together(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(30, 3)))
    tensors, facts = packed(KernelExtension(x, x[:, :2]))
    for name in ("points", "values"):
        for spoiled in (tensors[name][:-1], tensors[name][..., None], tensors[name].float()):
            with pytest.raises(InputError, match="of one cloud"):
                unpacked({**tensors, name: spoiled}, facts)


def test_size_does_not_matter(rng: np.random.Generator) -> None:
    """Squares of distances of 1e-170 are 0 in double precision; values are those of the same cloud
    of size one.
    """
    x, new = torch.from_numpy(rng.normal(size=(60, 3))), torch.from_numpy(rng.normal(size=(9, 3)))
    values = x[:, :2].sin()
    expected = KernelExtension(x, values)(new)
    for scale in (1e-120, 1e120):
        torch.testing.assert_close(KernelExtension(scale * x, values)(scale * new), expected)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_fitted_points_have_their_values_bit_by_bit(
    metric: Metric, rng: np.random.Generator
) -> None:
    x, values = (
        torch.from_numpy(rng.normal(size=(50, 4))),
        torch.from_numpy(rng.normal(size=(50, 3))),
    )
    x[20:40] = (
        torch.from_numpy(rng.integers(0, 3, (20, 4)).astype(float)) + 5
    )  # many at equal distances
    unit = x / x.norm(dim=1, keepdim=True) if metric == "cosine" else x
    first = np.unique(unit.numpy().round(9), axis=0, return_index=True)[1]
    extension = KernelExtension(x[first], values[first], metric)
    assert torch.equal(extension(x[first]), values[first])
    assert not torch.equal(extension(x[first] + 1e-3), values[first])
