"""Networks that differ from the text of the paper in one thing.

PostNorm    `torch.nn.TransformerEncoderLayer` with its defaults, as in the released
            configuration: points (b, n, 3) -> features (b, n, K)
EvenFirst   any network whose first feature is held at 1: an even mass, M = I / n
"""

from itertools import pairwise

import torch
from torch import Tensor, nn


class PostNorm(nn.Module):
    """Point MLP, post-norm layers, output MLP; weights are drawn from the global generator."""

    def __init__(
        self,
        outputs: int,
        point: tuple[int, ...] = (32, 128),
        width: int = 256,
        layers: int = 8,
        heads: int = 8,
        head: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.embed = _mlp((3, *point, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, width, dropout=0.0, activation="gelu", batch_first=True
            )
            for _ in range(layers)
        )
        self.head = _mlp((width, *head, outputs))
        self.outputs = outputs

    def forward(self, points: Tensor) -> Tensor:
        """Features of clouds of one size."""
        x = self.embed(points)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def _mlp(sizes: tuple[int, ...]) -> nn.Sequential:
    """Linear maps with LayerNorm and GELU between them, none after the last."""
    steps: list[nn.Module] = []
    for before, after in pairwise(sizes[:-1]):
        steps += [nn.Linear(before, after), nn.LayerNorm(after), nn.GELU()]
    return nn.Sequential(*steps, nn.Linear(sizes[-2], sizes[-1]))


class EvenFirst(nn.Module):
    """The features of a network, the first one replaced by 1."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, points: Tensor) -> Tensor:
        z = self.network(points)
        return torch.cat([torch.ones_like(z[..., :1]), z[..., 1:]], -1)
