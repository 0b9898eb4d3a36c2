"""Many clouds as one: their points are stacked in one array, and whatever is taken within each is one operation.

    values (n, ...), n = n_1 + ... + n_b     sum, mean (b, ...)    spread (b, ...) -> (n, ...)    padded (b, most, ...)

No atomic additions: sums are those of padded rows, the same in every run.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from ..errors import warn


@dataclass(frozen=True)
class Segments:
    """Clouds of ``sizes`` one after the other on ``device``."""

    sizes: tuple[int, ...]
    device: torch.device

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def most(self) -> int:
        return max(self.sizes)

    @property
    def equal(self) -> bool:
        return min(self.sizes) == self.most

    @cached_property
    def counts(self) -> Tensor:
        """``(b,)``."""
        return torch.tensor(self.sizes, device=self.device)

    @cached_property
    def first(self) -> Tensor:
        """The row of the first point of every cloud, ``(b,)``."""
        return self.counts.cumsum(0) - self.counts

    @cached_property
    def owner(self) -> Tensor:
        """The cloud of every point, ``(n,)``."""
        each = torch.arange(len(self), device=self.device)
        return each.repeat_interleave(self.counts, output_size=sum(self.sizes))

    @cached_property
    def place(self) -> Tensor:
        """The row of every point ``(n,)`` among those of the padded batch."""
        shift = torch.arange(len(self), device=self.device) * self.most - self.first
        return torch.arange(len(self.owner), device=self.device) + shift[self.owner]

    def padded(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """``(b, most, ...)``."""
        if self.equal:
            return values.unflatten(0, (len(self), -1))
        out = values.new_full((len(self) * self.most, *values.shape[1:]), fill)
        return out.index_copy_(0, self.place, values).unflatten(0, (len(self), -1))

    def stacked(self, batch: Tensor) -> Tensor:
        """A padded batch ``(b, most, ...)`` without its padding, ``(n, ...)``."""
        flat = batch.flatten(0, 1)
        return flat if self.equal else flat.index_select(0, self.place)

    def sum(self, values: Tensor) -> Tensor:
        """``(b, ...)``."""
        return self.padded(values).sum(1)

    def inner(self, x: Tensor, y: Tensor) -> Tensor:
        """``(b,)`` of two vectors ``(n,)``."""
        return (x @ y)[None] if len(self) == 1 else self.sum(x * y)

    def mean(self, values: Tensor) -> Tensor:
        """``(b, ...)``."""
        return self.sum(values) / self.counts.view(-1, *[1] * (values.ndim - 1))

    def spread(self, numbers: Tensor) -> Tensor:
        """A number ``(b, ...)`` per cloud at all of its points."""
        if len(self) == 1:
            return numbers.expand(self.sizes[0], *numbers.shape[1:])
        return numbers.index_select(0, self.owner)

    def parts(self, components: tuple[int, Tensor]) -> list[int]:
        """How many components every cloud has, of all and their labels ``(n,)``; a warning where there are several."""
        total, labels = components  # which ascend from cloud to cloud
        counts = [b - a for a, b in pairwise([*labels[self.first].tolist(), total])]
        for number, count in enumerate(counts):
            if count > 1:
                warn(f"cloud {number} has {count} separate parts: {count} eigenvalues are 0, the constant's included")
        return counts
