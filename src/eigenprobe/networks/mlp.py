"""A network that sees one point at a time.

    z(x) = head(act(... act(W_1 [x, sin Bx, cos Bx] + b_1))),     points (..., n, d) -> features (..., n, K)

With no Fourier features (`fourier=0`), three layers of 64 and ReLU this is the paper's toy network.  On one manifold
in few dimensions random Fourier features make it learn fifty eigenfunctions in a few hundred steps: every feature at
the start is already a smooth function of some frequency, and the loss only has to rotate and bend them.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import InputError

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


@dataclass(frozen=True)
class MLPConfig:
    """Sizes of an `MLP`: ``inputs`` d, ``hidden`` layers, ``outputs`` K; ``fourier`` random frequencies of
    ``bandwidth`` radians a unit."""

    inputs: int = 3
    hidden: tuple[int, ...] = (64, 64, 64)
    outputs: int = 50
    activation: Literal["relu", "gelu", "silu"] = "relu"
    fourier: int = 0
    bandwidth: float = 2.0


class Described(nn.Module):
    """What the networks share: `config` rebuilds them; random Fourier features of the coordinates."""

    kind: str

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.frequencies: Tensor
        self.register_buffer("frequencies", config.bandwidth * torch.randn(config.inputs, config.fourier))

    def encoded(self, points: Tensor) -> Tensor:
        """``[x, sin Bx, cos Bx]``, or the coordinates alone."""
        if not self.config.fourier:
            return points
        phase = points @ self.frequencies
        return torch.cat([points, phase.sin(), phase.cos()], -1)

    def describe(self) -> dict[str, Any]:
        """The configuration as JSON-able facts."""
        return {"kind": self.kind, **asdict(self.config)}


class MLP(Described):
    """Pointwise network.  New points need no context: every row is its own."""

    kind = "mlp"

    def __init__(self, config: MLPConfig) -> None:
        super().__init__(config)
        if config.activation not in ACTIVATIONS:
            raise InputError(f"activation must be one of {sorted(ACTIVATIONS)}, got {config.activation!r}")
        width, layers = config.inputs + 2 * config.fourier, []
        for size in config.hidden:
            layers += [nn.Linear(width, size), ACTIVATIONS[config.activation]()]
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, config.outputs)
        initialise_head(self.head)

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        """``(..., n, d) -> (..., n, K)``; ``mask (..., n)`` is accepted and not needed."""
        return self.head(self.body(self.encoded(points)))

    def context(self, points: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Nothing to remember of a fitted cloud."""
        return []

    def query(self, points: Tensor, context: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Features of new points ``(m, d) -> (m, K)``."""
        return self(points)


def initialise_head(head: nn.Linear) -> None:
    """Orthogonal rows, so that the first features are independent, and a first output near 1, the sign of ``q_1``."""
    nn.init.orthogonal_(head.weight)
    with torch.no_grad():
        head.bias.zero_()
        head.bias[0] = 1.0
