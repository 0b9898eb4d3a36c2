"""Tests of `host.device`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.host.device import fused, graphed, resolved


@pytest.mark.skipif(torch.cuda.is_available(), reason="there the passes are captured")
def test_a_machine_that_captures_no_graph_goes_on_without():
    with pytest.warns(UserWarning, match="CUDA graphs are not used"):
        assert graphed(torch.square, torch.ones(2)) is None


def test_a_fused_function_is_the_function_on_the_host():
    @fused
    def double(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 2 * x + y

    assert double(torch.ones(2), torch.ones(2)).tolist() == [3, 3] and double.__name__ == "double"


def test_auto_is_a_gpu_where_there_is_one():
    assert resolved("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert resolved("cpu") == torch.device("cpu") == resolved(torch.device("cpu"))
