"""The probability that an edge of a neighbour graph is a short-cut: near in space, far on the
surface.

    x_i, y_e     points and edges, encoded from numbers that no rotation, scale or order changes
    landmarks    a transformer over a few hundred far-apart points: the shape as a whole
    rounds       y_e <- y_e + f(x_i, x_j, y_e)
                 x_i <- x_i + g(x_i, sum_j gate_e (V x_j + y_e))
                 x_i <- x_i + attention of x_i to the landmarks
    answer       logit_e = h(x_i, x_j, y_e), the same whichever end comes first

Shapes: `a` points that take part, `e` undirected edges, `b` clouds of `L` landmarks; points have
`H` channels, edges the fewer `P`, because there are several times as many.  The cost is linear in
the number of edges that are looked at.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from ..host.weights import read_weights, write_weights
from ..layers import Attention
from ..neighbors.graph import Edges
from ..neighbors.layout import Segments, rows_at_once


@dataclass(frozen=True)
class Suspicion:
    """Where to look, and what the network was trained with."""

    judged: int = 18  # nearest neighbours that are judged: stencils keep at most 16
    # smallest over largest variance of the neighbours below which they are one sheet
    flat: float = 0.02
    # of the spacing: rms distance from the quadric above which a point is suspicious
    residual: float = 0.2
    # the same above which it is strongly so: a suspicious point is looked at if ...
    strong: float = 0.3
    together: int = 3  # ... so many of itself and its neighbours are
    message: int = 10  # neighbours between which messages are passed
    landmarks: int = 192  # far-apart points that see the shape as a whole


SUSPICION = Suspicion()
NODE, EDGE = 36, 22  # numbers per point and per edge
SUSPICIOUS = 12  # the number that says whether a point is


@dataclass(frozen=True)
class Suspects:
    """The edges to be judged, and what is known about them and about the points that take part.

    Points are rows of ``nodes``; edge ends count in that numbering. ``owner`` is the cloud of every
    point, ``landmarks (b, L)`` are the places of far-apart points.
    """

    nodes: Tensor  # (a,) rows of the graph, ascending
    edges: Edges  # (e,) between places 0 .. a - 1
    message: Tensor  # (e,) bool: among the nearest few of either end
    points: Tensor  # (a, NODE)
    pairs: Tensor  # (e, EDGE)
    owner: Tensor  # (a,)
    landmarks: Tensor  # (b, L)
    entry: Tensor  # (n, judged) the edge of every entry of the graph, -1 where it is not judged

    def __len__(self) -> int:
        return len(self.edges)

    @property
    def suspicious(self) -> Tensor:
        """Which of the points are suspicious themselves, ``(a,)``."""
        return self.points[:, SUSPICIOUS] > 0.5


@dataclass(frozen=True)
class ShortcutConfig:
    """Sizes of a `ShortcutNetwork`."""

    width: int = 96  # channels of points
    pair: int = 32  # channels of edges
    rounds: int = 6
    heads: int = 4
    depth: int = 3  # layers of the landmarks' transformer
    views: int = 2  # every so many rounds the points look at the landmarks


class ShortcutNetwork(nn.Module):
    """Logits of short-cuts; `config` rebuilds it."""

    kind = "shortcut"

    def __init__(self, config: ShortcutConfig | None = None) -> None:
        super().__init__()
        self.config = config or ShortcutConfig()
        width, pair, heads = self.config.width, self.config.pair, self.config.heads
        self.point_scale: Tensor
        self.pair_scale: Tensor
        self.register_buffer("point_scale", torch.stack([torch.zeros(NODE), torch.ones(NODE)]))
        self.register_buffer("pair_scale", torch.stack([torch.zeros(EDGE), torch.ones(EDGE)]))
        self.encode_point = _perceptron(NODE, width, width)
        self.encode_pair = _perceptron(EDGE, pair, pair)
        self.encode_landmark = nn.Linear(NODE, width)
        self.shape = nn.ModuleList(_Attention(width, heads) for _ in range(self.config.depth))
        self.rounds = nn.ModuleList(_Round(width, pair) for _ in range(self.config.rounds))
        self.views = nn.ModuleList(
            _Attention(width, heads) for _ in range(self.config.rounds // self.config.views)
        )
        self.meeting = _Meeting(width, pair)
        self.out = nn.Linear(pair, 1)

    def normalise_by(self, suspects: Suspects) -> None:
        """Take mean and deviation of the inputs from a first batch."""
        for buffer, values in (
            (self.point_scale, suspects.points),
            (self.pair_scale, suspects.pairs),
        ):
            buffer[0], buffer[1] = values.mean(0), values.std(0).clamp_min(1e-3)

    def forward(self, s: Suspects) -> Tensor:
        """Logits ``(e,)`` of the edges of a suspicious part."""
        points = ((s.points - self.point_scale[0]) / self.point_scale[1]).clamp(-6, 6)
        pairs = ((s.pairs - self.pair_scale[0]) / self.pair_scale[1]).clamp(-6, 6)
        shape = self.encode_landmark(points.index_select(0, s.landmarks.flatten())).unflatten(
            0, s.landmarks.shape
        )
        for layer in self.shape:
            shape = layer(shape, shape)  # (b, L, H)
        at_edge = torch.zeros_like(s.owner, dtype=torch.bool)  # the others are landmarks alone
        at_edge[s.edges.head] = at_edge[s.edges.tail] = True
        used, place = at_edge.nonzero()[:, 0], at_edge.cumsum(0) - 1
        x, y = self.encode_point(points.index_select(0, used)), self.encode_pair(pairs)
        ends = torch.stack([place[s.edges.head], place[s.edges.tail]])  # (2, e)
        clouds = Segments(
            tuple(torch.bincount(s.owner[used], minlength=len(s.landmarks)).tolist()), x.device
        )
        near = s.message.nonzero()[:, 0]
        joined, close = ends.index_select(1, near), y.index_select(0, near)
        for i, turn in enumerate(self.rounds):
            x, close = turn(x, close, joined)
            if i % self.config.views == self.config.views - 1:
                x = clouds.stacked(self.views[i // self.config.views](clouds.padded(x), shape))
        y, at_ends = y.index_copy(0, near, close.to(y.dtype)), self.meeting.ends(x)
        size = rows_at_once(x.device, 2 * at_ends.shape[1])
        parts = zip(y.split(size), ends.split(size, 1), strict=True)
        logits = [self.out(self.meeting(at_ends, *part)[0]) for part in parts]
        return torch.cat(logits)[:, 0].float()

    def describe(self) -> dict[str, Any]:
        """The configuration as JSON-able facts."""
        return {"kind": self.kind, **asdict(self.config)}


class _Meeting(nn.Module):
    """What an edge makes of its two ends ``(2, e)``, whichever comes first, ``(e, P)``; `extra`
    more of either end. `at_ends` is ``self.ends(x)``.
    """

    def __init__(self, width: int, pair: int, extra: int = 0) -> None:
        super().__init__()
        self.sizes = [pair, pair, extra]
        self.ends, self.pair = nn.Linear(width, sum(self.sizes)), nn.Linear(pair, pair)

    def forward(self, at_ends: Tensor, y: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        # `index_select`, not brackets: their gradient sorts the indices.
        both = at_ends.index_select(0, ends.flatten()).unflatten(0, ends.shape)  # (2, e, ...)
        first, second, extra = both.split(self.sizes, 2)
        met = self.pair(y) + first
        met[0] += second[1]
        met[1] += second[0]
        return silu(met).sum(0), extra


class _Round(nn.Module):
    """One exchange between edges and points; as many edges at once as fit where memory is fast."""

    def __init__(self, width: int, pair: int) -> None:
        super().__init__()
        self.meeting, self.mix = _Meeting(width, pair, pair), nn.Linear(pair, 2 * pair)
        self.norm_pair, self.norm_point = nn.LayerNorm(pair), nn.LayerNorm(width)
        self.update = _perceptron(width + 2 * pair, width, width)

    def forward(self, x: Tensor, y: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        sums = torch.zeros((len(x), y.shape[1]), dtype=torch.float32, device=x.device)
        weight = torch.zeros_like(sums)
        at_ends, edges = self.meeting.ends(x), []
        size = rows_at_once(x.device, 2 * at_ends.shape[1])
        for near, pair in zip(ends.split(size, 1), y.split(size), strict=True):
            met, extra = self.meeting(at_ends, pair, near)
            mixed, gate = self.mix(met).chunk(2, 1)
            gate = torch.sigmoid(gate)
            told = (gate * (extra + mixed)).flatten(0, 1).float()
            sums.index_add_(0, near.flip(0).flatten(), told)
            weight.index_add_(0, near[0], gate.float()).index_add_(0, near[1], gate.float())
            edges.append(self.norm_pair(pair + mixed))
        news = torch.cat([x, (sums / (weight + 1e-2)).to(x.dtype), weight.log1p().to(x.dtype)], 1)
        return self.norm_point(x + self.update(news)), torch.cat(edges)


class _Attention(Attention):
    """Pre-norm attention of ``x (b, n, H)`` to ``memory (b, L, H)`` and a perceptron, each
    added.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.norm, self.norm_memory, self.norm_after = (nn.LayerNorm(width) for _ in range(3))
        self.feedforward = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = x + self.attend(self.norm(x), self.memory(self.norm_memory(memory)))
        return x + self.feedforward(self.norm_after(x))


def _perceptron(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs))


SHIPPED = Path(__file__).parent / "weights"  # of the network that comes with the package


def write_shortcut(folder: Path, network: ShortcutNetwork, facts: dict[str, Any]) -> None:
    """Save a short-cut network as float16 with its sizes and the facts of its training."""
    write_weights(folder, network, network.describe(), facts)


def read_shortcut(folder: Path) -> ShortcutNetwork:
    """Load what `write_shortcut` wrote."""
    return read_weights(
        folder, ShortcutConfig, ShortcutNetwork, "the weights of a short-cut network"
    )[0]
