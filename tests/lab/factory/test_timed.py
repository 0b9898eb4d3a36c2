"""Tests of `factory.timed`."""

from __future__ import annotations

import torch

from eigenprobe.host.weights import drawing
from eigenprobe_lab.factory.schedule import Schedule
from eigenprobe_lab.factory.timed import MuonAdamW


def linear(generator) -> tuple[torch.nn.Linear, torch.Tensor, torch.Tensor]:
    with drawing(0):
        layer = torch.nn.Linear(6, 4)
    x = torch.randn(64, 6, generator=generator)
    return layer, x, x @ torch.randn(6, 4, generator=generator)


def test_a_step_without_a_finite_gradient_changes_nothing(generator):
    layer, x, target = linear(generator)
    optimiser = MuonAdamW([layer.weight], [layer.bias], Schedule(weight_decay=0.1))

    def step(value: float | None) -> None:
        optimiser.zero_grad()
        (layer(x) - target).square().mean().backward()
        if value is not None:
            layer.weight.grad.fill_(value)
            layer.bias.grad.fill_(value)
        optimiser.found_inf = torch.tensor(float(value is not None))
        optimiser.step()

    def everything() -> list[torch.Tensor]:
        moments = [
            v for p in (layer.weight, layer.bias) for _, v in sorted(optimiser.state[p].items())
        ]
        return [t.detach().clone() for t in (layer.weight, layer.bias, *moments)]

    weight = layer.weight.detach().clone()
    step(torch.nan)  # the first step of all
    assert torch.equal(layer.weight.detach(), weight)
    for _ in range(3):
        step(None)
    before = everything()
    assert len(before) > 4 and all(bool(t.isfinite().all()) for t in before)
    for value in (torch.nan, torch.inf):
        step(value)
        assert all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))
    step(None)
    assert not torch.equal(before[0], layer.weight.detach())
