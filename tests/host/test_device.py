"""Tests of `host.device`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.host.device import PIECE, fused, graphed, moved, resolved


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


def test_a_tensor_that_is_where_it_should_be_is_not_copied():
    x = torch.ones(3, 2, requires_grad=True)
    assert moved(x, "cpu") is x and moved(x, torch.device("cpu")) is x


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_much_memory_comes_back_from_a_gpu_as_it_is(dtype: torch.dtype):
    x = torch.randn(5 * PIECE // 24 + 7, 3, device="cuda").mul(1000).to(dtype)
    y = x * 2  # still being computed when it is asked for
    assert torch.equal(moved(y, "cpu"), y.to("cpu")) and torch.equal(
        moved(y[:, 1], "cpu"), y[:, 1].to("cpu")
    )
    assert moved(torch.ones((), device="cuda"), "cpu") == 1


@pytest.mark.parametrize("name", ["meta", "toaster", "", "cuda:77"])
def test_a_device_that_holds_no_numbers_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"device '{name}' cannot be used here"):
        resolved(name)
