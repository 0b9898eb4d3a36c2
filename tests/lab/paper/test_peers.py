"""Tests of `paper.peers`: manifold-learning methods behind one call: ours and the five the paper compares with."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe_lab.paper.peers import embed


@pytest.mark.parametrize("name", ["pca", "isomap", "laplacian_sphere"])
def test_a_nested_embedding_is_that_of_its_own_size(name):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 5)) * [5, 4, 3, 2, 1]
    both, alone = embed(name, rows, (2, 4), 0)[0], embed(name, rows, (2,), 0)[0]
    sign = np.sign((both[2] * alone[2]).sum(0))
    np.testing.assert_allclose(both[2] * sign, alone[2], atol=1e-4)
