"""Tests of `smoothers.smoother` and `smoothers.balanced` on small graphs: separate parts, blocks of
the balance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.errors import EigenprobeWarning
from eigenprobe.neighbors.graph import Edges
from eigenprobe.smoothers import laplacian_smoother


def test_parts_are_said_with_their_sizes(rng: np.random.Generator) -> None:
    def parts(sizes: list[int]) -> Any:
        heads = [torch.arange(size - 1) + sum(sizes[:i]) for i, size in enumerate(sizes)]
        head = torch.cat(heads)
        edges = Edges(head, head + 1, sum(sizes))
        ones = torch.ones(len(head), dtype=torch.float64)
        return laplacian_smoother(
            edges, ones, torch.ones(sum(sizes), dtype=torch.float64), None, 1.0
        )

    with pytest.warns(
        EigenprobeWarning, match=r"has 2 separate parts \(5, 3 points\): 2 eigenvalues are 0"
    ):
        assert parts([3, 5]).warn_of_parts() == 2
    with pytest.warns(
        EigenprobeWarning, match=r"6 separate parts \(7, 6, 5, 4, 3, \.\.\. points\)"
    ):
        assert parts([2, 3, 4, 5, 6, 7]).warn_of_parts() == 6
    with pytest.warns(EigenprobeWarning, match=r"5 separate parts \(6, 5, 4, 3, 2 points\)"):
        parts([2, 3, 4, 5, 6]).warn_of_parts()
    assert parts([9]).warn_of_parts() == 1
    stacked = replace(parts([4, 5]), clouds=(4, 5))  # as many as there are clouds
    assert stacked.warn_of_parts() == 2
    assert replace(stacked, edges=None).components[0] == 2
