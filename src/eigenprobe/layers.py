"""Layers that several networks share: multi-head attention of tokens to keys and values."""

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .errors import InputError


def split_heads(x: Tensor, heads: int) -> Tensor:
    """``(b, n, width) -> (b, heads, n, width / heads)``."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


class Attention(nn.Module):
    """Multi-head attention of tokens ``(b, n, width)`` to keys and values ``(b, heads, c, width /
    heads)``.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % heads:
            raise InputError(f"width must be a multiple of heads, got {width} and {heads}")
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def memory(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        key, value = self.key_value(x).chunk(2, -1)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def attend(
        self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None = None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        query = split_heads(self.query(x), self.heads)
        attended = scaled_dot_product_attention(query, *memory, attn_mask=mask, dropout_p=dropout)
        return self.out(attended.transpose(-3, -2).flatten(-2))
