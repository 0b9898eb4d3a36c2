"""Many clouds as one: their points are stacked in one array, and whatever is taken within each is one operation.

    values (n, ...), n = n_1 + ... + n_b     sum, mean (b, ...)    spread (b, ...) -> (n, ...)    padded (b, most, ...)
    points (b, n, d) -> distances, indices (b, n, k) of the k nearest others, brute force

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
        for size, count in zip(self.sizes, counts, strict=True):
            if count > 1:
                about = f"a cloud of {size} points has {count} separate parts"
                warn(f"{about}: {count} eigenvalues are 0, the constant's included")
        return counts


def nearest(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distances and indices `(b, n, k)` of the `k` nearest others, ascending; exact, batched."""
    # Differences, not the Gram form: three coordinates are cheap and neighbours at 1e-3 survive TF32 settings.
    # One coordinate at a time: torch.cdist without its matrix form takes tens of times longer on a GPU.
    distance = torch.zeros(*points.shape[:2], points.shape[1], dtype=points.dtype, device=points.device)
    for x in points.unbind(-1):
        distance.add_((x[:, :, None] - x[:, None]).square_())
    distance.sqrt_()
    distance.diagonal(dim1=-2, dim2=-1).fill_(float("inf"))
    if not distance.is_cuda:
        values, index = distance.topk(k, largest=False)
        return values, index
    found = []
    for _ in range(k):  # on a GPU k reductions are many times quicker than one selection along rows this long
        found.append(distance.min(-1, keepdim=True))
        distance.scatter_(-1, found[-1].indices, float("inf"))
    return torch.cat([f.values for f in found], -1), torch.cat([f.indices for f in found], -1)
