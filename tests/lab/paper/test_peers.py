"""Tests of `paper.peers`: manifold-learning methods behind one call: ours and the five the paper compares with."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe_lab.paper.peers import DeviceTsne, TsneGradient, embed


@pytest.mark.parametrize("k", [2, 5])
def test_the_gradient_of_t_sne_for_all_points_is_that_of_the_library(k):
    from sklearn.manifold import _t_sne

    rng, n = np.random.default_rng(0), 40
    joint, flat = rng.random(n * (n - 1) // 2), rng.normal(size=n * k)
    joint /= 2 * joint.sum()
    gradient = TsneGradient("cpu")
    for factor in (12.0, 1.0):  # exaggerated first
        error, found = gradient(flat, factor * joint, k - 1, n, k)
        expected = _t_sne._kl_divergence(flat, factor * joint, k - 1, n, k)
        assert error == pytest.approx(expected[0])
        np.testing.assert_allclose(found, expected[1], atol=1e-14)


def test_t_sne_on_a_device_is_that_of_the_library(monkeypatch):
    from sklearn.manifold import TSNE, _t_sne

    monkeypatch.setattr(DeviceTsne, "device", "cpu")
    monkeypatch.setattr(_t_sne, "_kl_divergence", TsneGradient("cpu"))  # rounding would grow in 300 steps
    rows = np.random.default_rng(0).normal(size=(60, 5))
    options = {"init": "pca", "random_state": 0, "method": "exact", "perplexity": 10, "max_iter": 300}
    ours, theirs = DeviceTsne(4, **options), TSNE(4, **options)
    np.testing.assert_allclose(ours.fit_transform(rows), theirs.fit_transform(rows))
    assert ours.n_iter_ == theirs.n_iter_ and ours.kl_divergence_ == pytest.approx(theirs.kl_divergence_)


@pytest.mark.parametrize("name", ["pca", "isomap", "laplacian_sphere"])
def test_a_nested_embedding_is_that_of_its_own_size(name):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 5)) * [5, 4, 3, 2, 1]
    both, alone = embed(name, rows, (2, 4), 0)[0], embed(name, rows, (2,), 0)[0]
    sign = np.sign((both[2] * alone[2]).sum(0))
    np.testing.assert_allclose(both[2] * sign, alone[2], atol=1e-4)
