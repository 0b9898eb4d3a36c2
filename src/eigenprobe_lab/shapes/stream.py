"""Clouds for pretraining: a pool of procedural shapes on the device, renewed in the background.

    at(step) -> clouds (b, n, 3),  n drawn per step,  b n about `tokens`

What a step sees depends on the seed and the step alone, so a resumed run goes on where it stopped.
The next chunk of shapes is drawn by a thread on its own CUDA stream while the current ones are
trained on.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from eigenprobe.errors import InputError

from . import ProceduralShapes, Variation


@dataclass(frozen=True)
class ShapeSettings:
    """What to train on. Every `renew` steps a new chunk of `chunk` clouds replaces the oldest of
    `chunks`.

    `sizes` are (smallest, largest) numbers of points; `typical` is the size most steps use.
    """

    seed: int = 0
    tokens: int = 49152
    typical: int = 1500
    sizes: tuple[int, int] = (500, 4000)
    chunk: int = 1024
    chunks: int = 4
    renew: int = 128
    families: list[str] | None = None
    variation: Variation = field(default_factory=Variation)


class ShapeStream:
    """Batches of clouds by step; lives on the device where it is first asked."""

    def __init__(self, settings: ShapeSettings) -> None:
        (low, high), typical = settings.sizes, settings.typical
        if not 64 <= low <= typical <= high:
            raise InputError(
                f"expected sizes 64 <= smallest <= typical <= largest, got {low}, {typical}, {high}"
            )
        self.settings = settings
        self.device, self.rank = torch.device("cpu"), 0
        self._chunks: dict[int, Future[tuple[Tensor, Tensor]]] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="shapes")

    def to(self, device: torch.device | str, rank: int = 0) -> Self:
        """The stream on a device, as the process ``rank`` sees it: every process trains on clouds
        of its own.
        """
        here = (torch.device(device), rank)
        if here != (self.device, self.rank):
            (self.device, self.rank), self._chunks = here, {}
        return self

    @property
    def medium(self) -> int:
        """Points stored for most clouds; the few large ones have a store of their own."""
        return min(self.settings.sizes[1], int(1.4 * self.settings.typical))

    def at(self, step: int) -> Tensor:
        """The clouds of one step, `(b, n, 3)`, in the unit sphere."""
        s = self.settings
        generator = torch.Generator().manual_seed(
            s.seed * 1_000_003 + 31 * step + 7 * self.rank + 1
        )
        n = self._size(generator)
        newest = step // s.renew
        chunks = [self._asked(i).result() for i in range(max(0, newest - s.chunks + 1), newest + 1)]
        self._asked(newest + 1)
        for old in [i for i in self._chunks if i <= newest - s.chunks]:
            del self._chunks[old]
        store = torch.cat([large if n > self.medium else small for small, large in chunks])
        b = max(2, s.tokens // n)
        index = torch.randint(len(store), (b,), generator=generator).to(store.device)
        return store[index, :n]

    def _size(self, generator: torch.Generator) -> int:
        """Half of the steps near the typical size, a quarter below it, an eighth far above it."""
        s = self.settings
        low, high = s.sizes
        draw, place = torch.rand(2, generator=generator).tolist()
        above = (s.typical, self.medium)
        far = (self.medium, high) if high > self.medium else above
        ranges = {
            0.55: (0.9 * s.typical, 1.1 * s.typical),
            0.75: (low, s.typical),
            0.9: above,
            1.0: far,
        }
        start, end = next(limits for share, limits in ranges.items() if draw < share)
        return int(min(max(start + (end - start) * place, low), high)) // 4 * 4

    def _draw(self, index: int) -> tuple[Tensor, Tensor]:
        s = self.settings
        source = ProceduralShapes(s.seed * 64 + self.rank, self.device, s.families, s.variation)
        small = source.draw(s.chunk, self.medium, draw=2 * index)
        if s.sizes[1] <= self.medium:
            return small, small
        return small, source.draw(max(4, s.chunk // 12), s.sizes[1], draw=2 * index + 1)

    def _draw_aside(self, index: int) -> tuple[Tensor, Tensor]:
        if self.device.type != "cuda":
            return self._draw(index)
        aside = torch.cuda.Stream(self.device)
        with torch.cuda.stream(aside):
            stores = self._draw(index)
        aside.synchronize()
        for store in stores:
            store.record_stream(torch.cuda.default_stream(self.device))
        return stores

    def _asked(self, index: int) -> Future[tuple[Tensor, Tensor]]:
        if index not in self._chunks:
            self._chunks[index] = self._worker.submit(self._draw_aside, index)
        return self._chunks[index]
