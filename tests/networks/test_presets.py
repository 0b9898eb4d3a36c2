"""Networks: presets, padding, and context attention that makes every row its own."""

from __future__ import annotations

import json

import pytest
import torch

from eigenprobe import networks
from eigenprobe.errors import InputError


def points(n: int, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


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
    ("preset", "millions"), [("overfit", 3.3), ("generalisation", 50), ("images-clip", 2.5), ("images-dinov2", 0.65)]
)
def test_paper_presets_have_the_paper_sizes(preset, millions):
    with torch.device("meta"):
        net = networks.from_config(networks.config(preset))
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, rel=0.15)


@pytest.mark.parametrize("preset", ["cpu", "tiny"])
def test_new_points_do_not_depend_on_their_batch(preset):
    net = networks.build(preset, 3, 5, torch.Generator().manual_seed(0)).eval()
    cloud, new = points(50), points(30, seed=1)
    with torch.no_grad():
        context = net.context(cloud)
        together = net.query(new, context)
        alone = torch.cat([net.query(x[None], context) for x in new])
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(net.query(cloud, context), net(cloud), atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing_and_attention_sees_the_whole_cloud():
    net = networks.build("tiny", 3, 5, torch.Generator().manual_seed(0)).eval()
    a, b = points(12), points(20, seed=1)
    batch, mask = torch.full((2, 20, 3), 9.0), torch.zeros(2, 20, dtype=torch.bool)
    batch[0, :12], batch[1] = a, b
    mask[0, :12], mask[1] = True, True
    with torch.no_grad():
        out = net(batch, mask)
        torch.testing.assert_close(out[0, :12], net(a), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(out[1], net(b), atol=1e-5, rtol=1e-5)
        assert bool((out[0, 12:] == 0).all())
        order = torch.randperm(20, generator=torch.Generator().manual_seed(2))
        torch.testing.assert_close(net(b[order]), net(b)[order], atol=1e-5, rtol=1e-5)
        assert not torch.allclose(net(torch.cat([a, b]))[:12], net(a), atol=1e-3)


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
