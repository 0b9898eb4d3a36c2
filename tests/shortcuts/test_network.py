"""Tests of `shortcuts.network`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import silu

from eigenprobe.errors import InputError
from eigenprobe.graph.graph import build_graph, stack
from eigenprobe.shortcuts.cuts import Suspects, find_suspects, shipped
from eigenprobe.shortcuts.network import (
    RANK,
    SUSPICION,
    SUSPICIOUS,
    ShortcutConfig,
    ShortcutNetwork,
    _Attention,
    _Round,
    read_shortcut,
    write_shortcut,
)
from tests.lab.factory.test_neighbours import sheets


def test_weights_survive_their_file(tmp_path) -> None:
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
    network = ShortcutNetwork(ShortcutConfig(width=16, pair=8, rounds=4, heads=2, depth=2, views=2)).eval()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    x = sheets(1.5, m=12)
    suspects = find_suspects(build_graph(x + 0.1 * x[:, :1] ** 2, 30))
    assert suspects is not None
    network.normalise_by(suspects)
    return network, suspects


@torch.no_grad()
def test_inputs_are_normalised_and_bounded() -> None:
    """By mean and deviation of a first batch: the same numbers in other units are the same, six deviations are most."""
    network, s = _tiny()
    logits = network(s)
    assert float(logits.std()) > 0.05
    for name in ("points", "pairs"):
        buffer, values = getattr(network, f"{name[:-1]}_scale"), getattr(s, name)
        torch.testing.assert_close(buffer[0], values.mean(0))
        torch.testing.assert_close(buffer[1], values.std(0).clamp_min(1e-3))
        kept = buffer.clone()
        buffer[0], buffer[1] = 3 * kept[0] + 1, 3 * kept[1]
        torch.testing.assert_close(network(replace(s, **{name: 3 * values + 1})), logits, atol=1e-3, rtol=1e-3)
        buffer.copy_(kept)
        one, far = (values.clone() for _ in range(2))
        column = int((values.std(0) > 0.1).nonzero()[0, 0])
        one[:, column], far[:, column] = (kept[0, column] + t * kept[1, column] for t in (6, 600))
        torch.testing.assert_close(network(replace(s, **{name: one})), network(replace(s, **{name: far})))
        one[:, column], far[:, column] = (kept[0, column] + t * kept[1, column] for t in (-6, -600))
        torch.testing.assert_close(network(replace(s, **{name: one})), network(replace(s, **{name: far})))
        for sign in (-1, 1):  # below six they differ
            one[:, column], far[:, column] = (kept[0, column] + sign * t * kept[1, column] for t in (5.5, 6))
            apart = network(replace(s, **{name: one})) - network(replace(s, **{name: far}))
            assert float(apart.abs().max()) > 1e-5


def test_suspicious_points_and_the_nearest_are_read_from_the_inputs() -> None:
    _, s = _tiny()
    points, pairs = s.points.clone(), s.pairs.clone()
    points[:, SUSPICIOUS] = (torch.arange(len(points)) % 3 == 0).float()
    rank = torch.arange(len(pairs)) % SUSPICION.judged  # 0: the nearest
    pairs[:, RANK] = rank / SUSPICION.judged
    s = replace(s, points=points, pairs=pairs)
    assert torch.equal(s.suspicious, torch.arange(len(points)) % 3 == 0)
    for nearest in (1, 4, 9):
        assert torch.equal(s.among(nearest), rank < nearest)


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


@torch.no_grad()
def test_a_round_is_its_formula() -> None:
    """Gated means of what the edges of a point tell it, edge by edge."""
    torch.manual_seed(1)
    turn = _Round(6, 4).eval()
    x, y, ends = torch.randn(5, 6), torch.randn(7, 4), torch.tensor([[0, 0, 1, 2, 3, 1, 4], [1, 2, 2, 3, 4, 3, 0]])
    a, b, extra = turn.meeting.ends(x).split([4, 4, 4], 1)
    told, weight, mixed = torch.zeros(5, 4), torch.zeros(5, 4), []
    for e, (i, j) in enumerate(ends.T.tolist()):
        own = turn.meeting.pair(y[e])
        met = silu(own + a[i] + b[j]) + silu(own + a[j] + b[i])
        made, gate = turn.mix(met).chunk(2)
        gate = gate.sigmoid()
        mixed.append(made)
        for here, there in ((i, j), (j, i)):
            told[here] += gate * (extra[there] + made)
            weight[here] += gate
    news = torch.cat([x, told / (weight + 0.01), weight.log1p()], 1)
    points, pairs = turn(x, y, ends)
    torch.testing.assert_close(points, turn.norm_point(x + turn.update(news)))
    torch.testing.assert_close(pairs, turn.norm_pair(y + torch.stack(mixed)))


def test_a_network_is_written_over_an_earlier_one(tmp_path: Path) -> None:
    for _ in range(2):
        write_shortcut(tmp_path / "a" / "b", shipped(), {"steps": 1})
    assert read_shortcut(tmp_path / "a" / "b").describe() == shipped().describe()


def test_every_layer_has_a_say() -> None:
    """Rounds of messages, and views of the landmarks after every second one: each weight moves the logits."""
    network, suspects = _tiny()
    network(suspects).square().sum().backward()
    idle = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not [name for name in idle if name.startswith(("rounds", "views", "shape", "encode", "meeting", "out"))], (
        idle
    )


@torch.no_grad()
def test_views_come_after_every_second_round() -> None:
    network, suspects = _tiny()
    seen = []
    for kind in ("rounds", "views"):
        for number, layer in enumerate(getattr(network, kind)):
            layer.register_forward_hook(lambda *_, place=(kind, number): seen.append(place))
    network(suspects)
    rounds = [("rounds", i) for i in range(4)]
    assert seen == [*rounds[:2], ("views", 0), *rounds[2:], ("views", 1)]


@torch.no_grad()
def test_attention_is_its_formula() -> None:
    """x + W softmax(q k / sqrt(size)) v, head by head, and a perceptron of its norm, each added."""
    torch.manual_seed(2)
    layer = _Attention(8, 2).eval()
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    torch.testing.assert_close(layer(x, memory), x + layer.feedforward(layer.norm_after(x)))  # nothing at the start
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    key, value = layer.key_value(layer.norm_memory(memory)).chunk(2, -1)
    query, heads = layer.query(layer.norm(x)), []
    for own in (slice(0, 4), slice(4, 8)):
        likely = (query[..., own] @ key[..., own].mT / 2).softmax(-1)
        heads.append(likely @ value[..., own])
    attended = x + layer.out(torch.cat(heads, -1))
    torch.testing.assert_close(layer(x, memory), attended + layer.feedforward(layer.norm_after(attended)))


@torch.no_grad()
def test_logits_are_the_layers_one_after_the_other() -> None:
    """Of one cloud, written out: landmarks see each other, points exchange messages and look at the landmarks."""
    network, s = _tiny()
    points = ((s.points - network.point_scale[0]) / network.point_scale[1]).clamp(-6, 6)
    pairs = ((s.pairs - network.pair_scale[0]) / network.pair_scale[1]).clamp(-6, 6)
    shape = network.encode_landmark(points[s.landmarks])
    for layer in network.shape:
        shape = layer(shape, shape)
    used = torch.cat([s.edges.head, s.edges.tail]).unique()
    ends = torch.stack([torch.searchsorted(used, each) for each in (s.edges.head, s.edges.tail)])
    x, y = network.encode_point(points[used]), network.encode_pair(pairs)
    assert 0 < int(s.message.sum()) < len(s) and s.landmarks.shape[0] == 1
    for i, turn in enumerate(network.rounds):
        x, y[s.message] = turn(x, y[s.message], ends[:, s.message])
        if i in (1, 3):
            x = network.views[i // 2](x[None], shape)[0]
    expected = network.out(network.meeting(x, y, ends)[0])[:, 0]
    torch.testing.assert_close(network(s), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_clouds_of_a_stack_have_the_logits_of_each_alone() -> None:
    network, _ = _tiny()
    graphs = [build_graph(x + 0.1 * x[:, :1] ** 2, 30) for x in (sheets(1.5, m=12), sheets(1.4, m=14, seed=4))]
    each = [find_suspects(graph) for graph in graphs]
    both = find_suspects(stack(graphs))
    assert both is not None and all(each)
    alone = torch.cat([network(s) for s in each])
    torch.testing.assert_close(network(both), alone, rtol=1e-3, atol=1e-3)
