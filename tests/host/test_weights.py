"""Tests of `host.weights`: weights as files, and parameters that are drawn without touching the
global generator.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from eigenprobe.errors import InputError
from eigenprobe.host.weights import check_sizes, drawing, read_weights, with_weights, write_weights


@dataclass(frozen=True)
class Sizes:
    width: int = 8


class Net(nn.Linear):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes.width, 3)


def test_drawn_parameters_follow_the_seed_and_leave_the_generator_alone() -> None:
    state = torch.get_rng_state()
    found = []
    for seed in (1, 1, 2):
        with drawing(seed):
            found.append(nn.Linear(4, 4).weight)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert torch.equal(torch.get_rng_state(), state)
    with drawing(torch.Generator().manual_seed(5)):
        first = torch.rand(3)
    with drawing(torch.Generator().manual_seed(5)):
        assert torch.equal(torch.rand(3), first)


def test_files_hold_the_weights_to_half_precision(tmp_path: Path) -> None:
    with drawing(0):
        network = Net(Sizes())
    write_weights(tmp_path, network, asdict(Sizes()), {"steps": 7})
    again, facts = read_weights(tmp_path, Sizes, Net, "weights")
    assert facts == {"steps": 7}
    for name, value in network.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value.half().float(), rtol=0, atol=0)


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    network = Net(Sizes())
    with pytest.raises(InputError, match="size mismatch for weight"):
        with_weights(lambda: Net(Sizes(9)), network.state_dict(), "elsewhere")
    with pytest.raises(InputError, match="finite"):
        bad = {name: value.detach() * torch.nan for name, value in network.state_dict().items()}
        with_weights(lambda: Net(Sizes()), bad, "elsewhere")
    with pytest.raises(InputError, match="expected width of a network from 0 to 65536, got -1"):
        check_sizes({"width": -1})
