"""Attention against softmax(q k^T / sqrt(width)) v written out."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.layers import Attention, split_heads


def test_attention_is_the_formula(generator: torch.Generator) -> None:
    layer = Attention(12, 3).double()
    x, context = (torch.randn(2, n, 12, generator=generator, dtype=torch.float64) for n in (5, 7))
    key, value = layer.key_value(context).chunk(2, -1)
    heads = []
    for h in range(3):
        part = slice(4 * h, 4 * h + 4)
        weight = torch.softmax(layer.query(x)[..., part] @ key[..., part].mT / 2, -1)  # sqrt(4) = 2
        heads.append(weight @ value[..., part])
    assert torch.allclose(layer.attend(x, layer.memory(context)), layer.out(torch.cat(heads, -1)))
    assert torch.equal(split_heads(x, 3)[:, 1], x[..., 4:8])
    with pytest.raises(InputError, match="multiple of heads"):
        Attention(10, 3)
