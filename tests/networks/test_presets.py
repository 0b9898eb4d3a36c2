"""Networks: presets, padding, and context attention that makes every row its own."""

from __future__ import annotations

import json

import pytest
import torch

from eigenprobe import networks
from eigenprobe.errors import InputError


def points(n: int, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


IMAGES = {"point": (), "layers": 6, "outputs": 11}
SMALL = {"toy": {}, "cpu": {}, "tiny": {}, "overfit": {"layers": 1}}


@pytest.mark.parametrize("preset", sorted(SMALL))
def test_shapes_rebuild_and_seed(preset):
    g = torch.Generator()
    net, again = (networks.build(preset, 3, 7, g.manual_seed(1), **SMALL[preset]) for _ in range(2))
    x = points(20)
    assert net(x).shape == (20, 7) and net(x[None]).shape == (1, 20, 7)
    torch.testing.assert_close(net(x), again(x))
    copy = networks.described(json.loads(json.dumps(net.describe())))
    copy.load_state_dict(net.state_dict())
    torch.testing.assert_close(copy(x), net(x))


@pytest.mark.parametrize(
    ("preset", "sizes", "millions"),
    [
        ("overfit", {}, 3.3),
        ("generalisation", {}, 50),
        ("overfit", {"inputs": 512, "head": (64,), **IMAGES}, 2.5),
        ("overfit", {"inputs": 384, "width": 128, "feedforward": 128, **IMAGES}, 0.65),
    ],
)
def test_paper_presets_have_the_paper_sizes(preset, sizes, millions):
    with torch.device("meta"):
        net = networks.from_config(networks.config(preset, **sizes))
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, rel=0.15)


def test_bad_input():
    with pytest.raises(InputError, match="preset must be one of"):
        networks.build("huge", 3, 5)
    with pytest.raises(InputError, match="has no size"):
        networks.config("toy", heads=3)
    with pytest.raises(InputError, match="multiple of heads"):
        networks.build("tiny", 3, 5, heads=5)
    with pytest.raises(InputError, match="coordinates"):
        networks.build("tiny", 3, 5)(points(4, 2))
    with pytest.raises(InputError, match="kind"):
        networks.described({"kind": "cnn"})
