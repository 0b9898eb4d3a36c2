"""Tests of `networks.transformer`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe import networks
from tests.networks.test_presets import points


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
