"""Batches prepared in blocks, because preparing one costs more than a step of training.

    step -> block, place:    each of the `size` batches of a block is seen `passes` times, in a new order each time

What a step sees depends on the seed and the step alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Self, TypeVar

import torch
from torch import Tensor

from ..shapes.contacts import FoldedShapes
from ..shapes.dense import Dense
from .timed import TimedSettings

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
        order = torch.randperm(self.size, generator=torch.Generator().manual_seed(block * self.passes + turn))
        if self._block != block:
            self._block, self._batches = block, {}
        if (place := int(order[place])) not in self._batches:
            self._batches[place] = prepare(block, place)
        return self._batches[place]


class FoldedStream(ABC, Generic[T]):
    """Batches of folded shapes, on the device where they are asked for."""

    def __init__(self, settings: TimedSettings) -> None:
        self.settings, self.device, self.rank = settings, torch.device("cpu"), 0
        self._begin()

    def _begin(self) -> None:
        self._blocks, self._shapes = Blocks[T](self.settings.block, self.settings.passes), self.folded()

    def to(self, device: torch.device | str, rank: int = 0) -> Self:
        """The stream on a device, as the process ``rank`` sees it: every process trains on shapes of its own."""
        here = (torch.device(device), rank)
        if here != (self.device, self.rank):
            self.device, self.rank = here
            self._begin()
        return self

    def at(self, step: int) -> T:
        """The batch of one step."""
        return self._blocks.at(step, self.prepare)

    @abstractmethod
    def folded(self) -> FoldedShapes:
        """The shapes that the process trains on."""

    @abstractmethod
    def prepare(self, block: int, place: int) -> T:
        """One batch: some shapes of the kept blocks, sampled at one size."""

    def draw(
        self, block: int, sizes: Sequence[int], points: int, coin: torch.Generator, most: int = 1 << 30
    ) -> tuple[int, Dense, tuple[Tensor, ...], Tensor]:
        """One of the sizes, and some shapes with the links between their points and the order of their vertices: as
        many as make ``points`` when they are sampled at that size, but at most ``most``."""
        recent = max(0, block - int(torch.randint(self._shapes.kept, (), generator=coin)))
        shapes, graph, order = self._shapes.block(recent)
        size = sizes[int(torch.randint(len(sizes), (), generator=coin))]
        rows = torch.randperm(len(order), generator=coin)[: max(1, min(most, points // size))].to(self.device)
        return size, Dense(*(part[rows] for part in shapes)), tuple(part[rows] for part in graph), order[rows]
