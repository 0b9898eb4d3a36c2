"""Progress bars that stay out of the way.

The library is silent. A program that owns the terminal (the command line) calls ``enable()``; from then on every
``track`` and ``Progress`` in the library draws a bar, but only once its loop has run for ``DELAY`` seconds, and
only when standard error is a terminal.

>>> sum(track(range(4), "adding"))
6
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

T = TypeVar("T")

DELAY = 2.0  # seconds of silence: shorter loops never draw

_enabled = False
_depth = 0  # rich draws one live display at a time: an inner bar inside an outer one stays silent


def enable(on: bool = True) -> None:
    """Allow bars on standard error (off by default, for library use)."""
    global _enabled
    _enabled = on


def enabled() -> bool:
    """Whether a bar would be drawn now."""
    return _enabled and sys.stderr.isatty()


class Progress:
    """One bar: ``with Progress("fitting", total=100) as bar: ...; bar.advance()``.

    ``total=None`` shows the count and the time without a fraction. ``note`` is a short text beside the bar
    (a loss, a file name).
    """

    def __init__(self, description: str, total: int | None = None) -> None:
        self.description = description
        self.total = total
        self.done = 0
        self.note = ""
        self._started = 0.0
        self._outermost = False
        self._rich: RichProgress | None = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        global _depth
        self._started = time.monotonic()
        self._outermost = _depth == 0
        _depth += 1
        return self

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Say that ``steps`` more are done."""
        self.done += steps
        if note is not None:
            self.note = note
        if self._rich is None and self._outermost and enabled() and time.monotonic() - self._started > DELAY:
            self._draw()
        if self._rich is not None:
            self._rich.update(self._task, completed=self.done, note=self.note)

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(file=sys.stderr),
            transient=True,
        )
        self._task = self._rich.add_task(self.description, total=self.total, completed=self.done, note=self.note)
        self._rich.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _depth
        _depth -= 1
        if self._rich is not None:
            self._rich.stop()
            self._rich = None


def track(iterable: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate as usual, with a bar where one is wanted."""
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    with Progress(description, total) as bar:
        for item in iterable:
            yield item
            bar.advance()
