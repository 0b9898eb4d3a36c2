"""Batches prepared in blocks, because preparing one costs more than a step of training.

    step -> block, place:    each of the `size` batches of a block is seen `passes` times, in a new
    order each time

What a step sees depends on the seed and the step alone.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


class Blocks(Generic[T]):
    """The batches of one block, kept until the next one begins."""

    def __init__(self, size: int, passes: int) -> None:
        self.size, self.passes = size, passes
        self._block, self._batches = -1, dict[int, T]()

    def at(self, step: int, prepare: Callable[[int, int], T]) -> T:
        """The batch of a step: ``prepare(block, place)``, once."""
        block, place = divmod(step, self.size * self.passes)
        turn, place = divmod(place, self.size)
        order = torch.randperm(
            self.size, generator=torch.Generator().manual_seed(block * self.passes + turn)
        )
        if self._block != block:
            self._block, self._batches = block, {}
        if (place := int(order[place])) not in self._batches:
            self._batches[place] = prepare(block, place)
        return self._batches[place]
