"""Tests of `shortcuts.network`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.cloud.test_cuts import sheets

from eigenprobe.cloud.edges import Suspects, find_suspects, shipped
from eigenprobe.cloud.network import ShortcutConfig, ShortcutNetwork, read_shortcut, write_shortcut
from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import build_graph


def test_weights_survive_their_file(tmp_path: Path) -> None:
    write_shortcut(tmp_path / "w", shipped(), {})
    again = read_shortcut(tmp_path / "w")
    for a, b in zip(shipped().state_dict().values(), again.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b)
    (tmp_path / "w" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="short-cut network"):
        read_shortcut(tmp_path / "w")


def _tiny() -> tuple[ShortcutNetwork, Suspects]:
    """A small network of random weights, and the suspicious part of two sheets."""
    torch.manual_seed(0)
    network = ShortcutNetwork(
        ShortcutConfig(width=16, pair=8, rounds=4, heads=2, depth=2, views=2)
    ).eval()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    x = torch.from_numpy(sheets(1.5, m=12))
    suspects = find_suspects(build_graph(x + 0.1 * x[:, :1] ** 2, 30))
    assert suspects is not None
    network.normalise_by(suspects)
    return network, suspects


@torch.no_grad()
def test_logits_follow_the_order_of_points_and_edges_and_not_their_ends() -> None:
    network, s = _tiny()
    logits = network(s)
    turned = replace(s, edges=replace(s.edges, head=s.edges.tail, tail=s.edges.head))
    torch.testing.assert_close(network(turned), logits, atol=1e-4, rtol=1e-4)
    generator = torch.Generator().manual_seed(1)
    edges, nodes = (torch.randperm(count, generator=generator) for count in (len(s), len(s.nodes)))
    rank = nodes.argsort()
    moved = replace(
        s,
        nodes=s.nodes[nodes],
        points=s.points[nodes],
        owner=s.owner[nodes],
        landmarks=rank[s.landmarks],
        edges=replace(s.edges, head=rank[s.edges.head[edges]], tail=rank[s.edges.tail[edges]]),
        message=s.message[edges],
        pairs=s.pairs[edges],
    )
    torch.testing.assert_close(network(moved), logits[edges], atol=1e-4, rtol=1e-4)
