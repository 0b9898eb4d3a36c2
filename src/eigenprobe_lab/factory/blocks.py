"""Batches prepared in blocks, because preparing one costs more than a step of training.

    step -> block, place:    each of the `size` batches of a block is seen `passes` times, in a new
    order each time

What a step sees depends on the seed and the step alone.  With `workers`, so many processes prepare
the next blocks while the network trains on as many of them, mixed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from ..shapes.contacts import FoldedShapes
from ..shapes.dense import Dense
from .schedule import TimedSettings

T = TypeVar("T")
PATIENCE = 1800  # seconds for a block, after which a worker must have been killed


@dataclass(frozen=True)
class FoldedSettings(TimedSettings):
    """Batches are prepared by so many ``workers``; 0: by the process that trains."""

    workers: int = 0


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


class FoldedStream(ABC, Generic[T]):
    """Batches of folded shapes, on the device where they are asked for."""

    def __init__(self, settings: FoldedSettings) -> None:
        self.settings, self.device, self.rank = settings, torch.device("cpu"), 0
        self._begin()

    def _begin(self) -> None:
        s = self.settings
        self._blocks, self._shapes = Blocks[T](s.block * max(1, s.workers), s.passes), self.folded()
        self._ahead = _Workers(self, s.workers) if s.workers else None

    def to(self, device: torch.device | str, rank: int = 0) -> Self:
        """The stream on a device, as the process ``rank`` sees it: every process trains on shapes
        of its own.
        """
        here = (torch.device(device), rank)
        if here != (self.device, self.rank):
            self.device, self.rank = here
            self._begin()
        return self

    def at(self, step: int) -> T:
        """The batch of one step."""
        return self._blocks.at(step, self._ahead.batch if self._ahead else self.prepare)

    @abstractmethod
    def folded(self) -> FoldedShapes:
        """The shapes that the process trains on."""

    @abstractmethod
    def prepare(self, block: int, place: int) -> T:
        """One batch: some shapes of the kept blocks, sampled at one size."""

    def draw(
        self,
        block: int,
        sizes: Sequence[int],
        points: int,
        coin: torch.Generator,
        most: int = 1 << 30,
        source: Any = None,
    ) -> tuple[int, Dense, tuple[Tensor, Tensor], Tensor]:
        """One of the sizes, and some shapes with the links between their points and the order of
        their vertices: as many as make ``points`` when they are sampled at that size, but at most
        ``most``.  ``source`` has blocks of shapes; by default the folded ones.
        """
        source = source or self._shapes
        recent = max(0, block - int(torch.randint(source.kept, (), generator=coin)))
        shapes, graph, order = source.block(recent)
        size = sizes[int(torch.randint(len(sizes), (), generator=coin))]
        rows = torch.randperm(len(order), generator=coin)[: max(1, min(most, points // size))].to(
            self.device
        )
        return (
            size,
            Dense(*(part[rows] for part in shapes)),
            (graph[0][rows], graph[1][rows]),
            order[rows],
        )


class _Workers:
    """Processes that prepare the blocks of a stream: each ``count`` of them together are one block
    to the trainer.
    """

    def __init__(self, stream: FoldedStream[Any], count: int) -> None:
        self.count, self.size, self.device = count, stream.settings.block, stream.device
        start = type(stream), replace(stream.settings, workers=0), stream.device, stream.rank
        self.pool = get_context("spawn").Pool(
            count, _start, start
        )  # its processes end with this one
        self.found: dict[int, list[AsyncResult[list[Any]]]] = {}

    def batch(self, block: int, place: int) -> Any:
        """One batch of a block; the next block is begun with the first of them."""
        for number in (block, block + 1):
            if number not in self.found:
                first = number * self.count
                self.found[number] = [
                    self.pool.apply_async(_block, (first + i,)) for i in range(self.count)
                ]
        self.found = {number: blocks for number, blocks in self.found.items() if number >= block}
        worker, inside = divmod(place, self.size)
        arrays = self.found[block][worker].get(PATIENCE)[inside]
        return _mapped(arrays, lambda x: torch.from_numpy(x).to(self.device))


_stream: FoldedStream[Any]  # of a worker process


def _start(
    kind: type[FoldedStream[Any]], settings: FoldedSettings, device: torch.device, rank: int
) -> None:
    global _stream
    torch.set_num_threads(1)
    _stream = kind(settings).to(device, rank)


def _block(number: int) -> list[Any]:
    """The batches of one block as arrays, which pass from process to process."""
    batches = (_stream.prepare(number, place) for place in range(_stream.settings.block))
    return [_mapped(batch, lambda x: x.cpu().numpy()) for batch in batches]


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Dataclasses and tuples with their tensors or arrays changed."""
    if isinstance(value, int):
        return value
    names = (
        value._fields if hasattr(value, "_fields") else getattr(value, "__dataclass_fields__", ())
    )
    if names:
        return type(value)(*(_mapped(getattr(value, name), change) for name in names))
    return (
        tuple(_mapped(each, change) for each in value)
        if isinstance(value, tuple)
        else change(value)
    )
