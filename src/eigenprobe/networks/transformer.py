"""Two networks of points: one sees a point at a time, the paper's attends to the whole cloud.

    z(x) = head(act(... act(W_1 [x, sin Bx, cos Bx] + b_1)))
           points (..., n, d) -> features (..., n, K)
    points (b, n, d) -> tokens (b, n, width) -> L layers of attention -> features (b, n, K)

With no Fourier features (`fourier=0`), three layers of 64 and ReLU the first is the paper's toy
network.  On one manifold in few dimensions random Fourier features make it learn fifty
eigenfunctions in a few hundred steps: every feature at the start is already a smooth function of
some frequency, and the loss only has to rotate and bend them.

Attention is `scaled_dot_product_attention`, flash where the device has it; memory is linear in n.
Clouds of different sizes are padded and masked.  A fitted cloud is a frozen *context*: the keys and
values of its tokens at every layer. A new point attends to those alone, so its features depend on
that point and on the fitted cloud, never on its batch, and at a point of the cloud they are the
fitted ones.
"""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..host.files import Facts
from ..layers import Attention

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


@dataclass(frozen=True)
class MLPConfig:
    """Sizes of an `MLP`: ``inputs`` d, ``hidden`` layers, ``outputs`` K; ``fourier`` random
    frequencies of ``bandwidth`` radians per unit."""

    inputs: int = 3
    hidden: tuple[int, ...] = (64, 64, 64)
    outputs: int = 50
    activation: Literal["relu", "gelu"] = "relu"
    fourier: int = 0
    bandwidth: float = 2.0


class Described(nn.Module):
    """What the networks share: `config` rebuilds them; random Fourier features of the
    coordinates.
    """

    kind: str

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.frequencies: Tensor
        self.register_buffer(
            "frequencies", config.bandwidth * torch.randn(config.inputs, config.fourier)
        )

    def encoded(self, points: Tensor) -> Tensor:
        """``[x, sin Bx, cos Bx]``, or the coordinates alone."""
        if not self.config.fourier:
            return points
        phase = points @ self.frequencies
        return torch.cat([points, phase.sin(), phase.cos()], -1)

    def describe(self) -> Facts:
        """The configuration as JSON-able facts."""
        return {"kind": self.kind, **asdict(self.config)}


class MLP(Described):
    """Pointwise network.  New points need no context: every row is its own."""

    kind = "mlp"

    def __init__(self, config: MLPConfig) -> None:
        super().__init__(config)
        if config.activation not in ACTIVATIONS:
            raise InputError(
                f"activation must be one of {sorted(ACTIVATIONS)}, got {config.activation!r}"
            )
        width, layers = config.inputs + 2 * config.fourier, []
        for size in config.hidden:
            layers += [nn.Linear(width, size), ACTIVATIONS[config.activation]()]
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, config.outputs)
        initialise_head(self.head)

    def forward(self, points: Tensor) -> Tensor:
        """``(..., n, d) -> (..., n, K)``."""
        return self.head(self.body(self.encoded(points)))

    def context(self, points: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Nothing to remember of a fitted cloud."""
        return []

    def query(self, points: Tensor, context: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Features of new points ``(m, d) -> (m, K)``."""
        return self(points)


def initialise_head(head: nn.Linear) -> None:
    """Orthogonal rows, so that the first features are independent, and a first output near 1, the
    sign of ``q_1``.
    """
    nn.init.orthogonal_(head.weight)
    with torch.no_grad():
        head.bias.zero_()
        head.bias[0] = 1.0


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a `Transformer`.  ``point`` are the hidden layers of the point MLP, ``head`` those
    of the output MLP; ``fourier`` adds random Fourier features of ``bandwidth`` radians per unit to
    the coordinates (0: the paper's input)."""

    inputs: int = 3
    point: tuple[int, ...] = (32, 128)
    width: int = 256
    layers: int = 8
    heads: int = 8
    feedforward: int = 256
    head: tuple[int, ...] = ()
    outputs: int = 50
    dropout: float = 0.0
    fourier: int = 0
    bandwidth: float = 2.0


class Layer(nn.Module):
    """Pre-norm attention and feed-forward, each with a residual."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.width
        self.norm_attention, self.norm_feedforward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, config.heads, config.dropout)
        self.feedforward = nn.Sequential(
            nn.Linear(width, config.feedforward),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.feedforward, width),
        )
        self.drop = nn.Dropout(config.dropout)

    def memory(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention.memory(self.norm_attention(x))

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor] | None = None, mask: Tensor | None = None
    ) -> Tensor:
        normed = self.norm_attention(x)
        memory = self.attention.memory(normed, mask) if memory is None else memory
        x = x + self.drop(self.attention.attend(normed, memory, mask))
        return x + self.drop(self.feedforward(self.norm_feedforward(x)))


def stacked(sizes: tuple[int, ...]) -> list[nn.Module]:
    """Linear, LayerNorm, GELU for each step of sizes."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.GELU()]
    return layers


class Transformer(Described):
    """Set transformer over the points of a cloud."""

    kind = "transformer"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        hidden = (config.inputs + 2 * config.fourier, *config.point)
        # The last linear map goes straight into the residual stream: a LayerNorm there would come
        # twice.
        self.embed = nn.Sequential(*stacked(hidden), nn.Linear(hidden[-1], config.width))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.body = nn.Sequential(*stacked((config.width, *config.head)))
        self.head = nn.Linear((config.width, *config.head)[-1], config.outputs)
        initialise_head(self.head)

    def tokens(self, points: Tensor, bias: Tensor | None = None) -> Tensor:
        if points.shape[-1] != self.config.inputs:
            raise InputError(
                f"expected points with {self.config.inputs} coordinates, got {tuple(points.shape)}"
            )
        tokens = self.embed(self.encoded(points))
        return tokens if bias is None else tokens + bias

    def finish(self, x: Tensor) -> Tensor:
        """The residual stream to features."""
        return self.head(self.body(self.norm(x)))

    def forward(
        self, points: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """``(b, n, d)`` or ``(n, d)`` points to features; ``mask (b, n)`` is True at real points,
        padding gives 0.

        ``bias (b, 1, width)`` is added to all tokens of a cloud: what is known of it as a whole.
        """
        if points.ndim == 2:
            return self(points.unsqueeze(0), None if mask is None else mask.unsqueeze(0)).squeeze(0)
        x = self.tokens(points, bias)
        attend = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask=attend)
        features = self.finish(x)
        return features if mask is None else features * mask.unsqueeze(-1)

    @torch.no_grad()
    def context(self, points: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of a fitted cloud ``(n, d)`` at every layer, each ``(1, heads, n, width /
        heads)``.
        """
        x, memories = self.tokens(points.unsqueeze(0)), []
        for layer in self.layers:
            assert isinstance(layer, Layer)
            memories.append(layer.memory(x))
            x = layer(x, memories[-1])
        return memories

    def query(self, points: Tensor, context: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Features of new points ``(m, d) -> (m, K)``, each attending to the context alone."""
        if len(context) != len(self.layers):
            raise InputError(f"expected a context of {len(self.layers)} layers, got {len(context)}")
        x = self.tokens(points.unsqueeze(0))
        for layer, memory in zip(self.layers, context):
            x = layer(x, memory)
        return self.finish(x).squeeze(0)
