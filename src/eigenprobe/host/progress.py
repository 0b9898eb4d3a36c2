"""Progress bars that stay out of the way.

The library is silent. A program that owns the terminal (the command line) calls ``enable()``; from then on every
``track`` and ``Progress`` in the library draws a bar, but only once its work has taken ``DELAY`` seconds, and only when
standard error is a terminal. In a notebook bars are drawn without being asked for. A whole program is a `Progress` with
``phase=True``: it shows what is being done (`stage`) where no bar does, so that no terminal is silent for long.

>>> sum(track(range(4), "adding"))
6
"""

from __future__ import annotations

import html
import importlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from itertools import starmap
from typing import Any, TypeVar

from ..errors import InputError

T = TypeVar("T")
if "ipykernel" in sys.modules:  # a notebook: tqdm, if installed, would warn of bars that are not drawn
    with warnings.catch_warnings(action="ignore"), suppress(ImportError):
        importlib.import_module("tqdm.auto")

DELAY = 1.0  # seconds of silence: shorter work never draws

_enabled = False
_bars: list[Progress] = []  # the phase, if there is one, and the outermost bar: the last of them is drawn
_drawn: Progress | None = None
_display: InTerminal | InNotebook | None = None
_timer: threading.Timer | None = None
_reports: Callable[[str], None] | None = None
_lock = threading.RLock()  # a display begins in a thread of its own


def enable(on: bool = True) -> None:
    """Allow bars on standard error (off by default, for library use)."""
    global _enabled
    _enabled = on


def enabled() -> bool:
    """Whether a bar would be drawn now."""
    return (_enabled and sys.stderr.isatty()) or in_notebook()


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def stage(text: str) -> None:
    """Say what is being done now, for the phase to show."""
    if _bars and _bars[0].phase:
        _bars[0].describe(text)


def hide() -> None:
    """Take the display away before something else is printed; it comes back after another ``DELAY``."""
    with _lock:
        if _drawn is not None:
            _erase()
            _wait()


def _wait() -> None:
    """Draw the last of the bars after ``DELAY``."""
    global _timer
    with _lock:
        if _timer is not None:
            _timer.cancel()
        if _bars and enabled():
            _timer = threading.Timer(max(DELAY, 0), _draw)
            _timer.daemon = True
            _timer.start()


def _draw() -> None:
    global _drawn, _display
    with _lock:
        if _bars and _bars[-1] is not _drawn:
            _erase()
            _drawn = _bars[-1]
            _display = (InNotebook if in_notebook() else InTerminal)(_drawn)


def _erase() -> None:
    global _drawn, _display
    with _lock:
        if _display is not None:
            _display.end()
        _drawn = _display = None


@contextmanager
def reports_to(write: Callable[[str], None] | None, every: float = 2.0) -> Iterator[None]:
    """What long loops inside of the block `report` is written, at most once in ``every`` seconds; None: nowhere."""
    global _reports
    before = _reports
    last = time.monotonic()

    def passed_on(text: str) -> None:
        nonlocal last
        if write is not None and (now := time.monotonic()) - last >= every:
            last = now
            write(text)

    _reports = None if write is None else passed_on
    try:
        yield
    finally:
        _reports = before


def report(text: str) -> None:
    """How far a loop has come, for `reports_to`."""
    if _reports is not None:
        _reports(text)


def reporting() -> bool:
    """Whether anyone reads reports."""
    return _reports is not None


class Progress:
    """One bar: ``with Progress("fitting", total=100) as bar: ...; bar.advance()``.

    ``total=None`` shows the count and the time without a fraction, ``percent`` the share instead of the count. ``note``
    is a short text beside the bar (a loss, a file name).
    """

    def __init__(
        self, description: str, total: float | None = None, *, percent: bool = False, phase: bool = False
    ) -> None:
        self.description, self.total, self.percent, self.phase = description, total, percent, phase
        self.done: float = 0
        self.note = ""
        self.started = 0.0

    def __enter__(self) -> Progress:
        self.started = time.monotonic()
        if self.phase or all(bar.phase for bar in _bars):
            _bars.append(self)
            _wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self in _bars:
            _bars.remove(self)
            _erase()
            _wait()

    def describe(self, text: str) -> None:
        self.description = text
        self._show()

    def advance(self, steps: float = 1, note: str | None = None) -> None:
        """Say that ``steps`` more are done."""
        self.done += steps
        self.note = self.note if note is None else note
        if self is not _drawn and self in _bars and enabled() and time.monotonic() - self.started > DELAY:
            _draw()
        self._show()

    def _show(self) -> None:
        with _lock:
            if self is _drawn and _display is not None:
                _display.show(self)


class InTerminal:
    """A line on standard error, gone at the end."""

    def __init__(self, bar: Progress) -> None:
        from rich import progress as rich
        from rich.console import Console

        count = rich.TaskProgressColumn() if bar.percent else rich.MofNCompleteColumn()
        text, note, elapsed = "{task.description}", rich.TextColumn("{task.fields[note]}"), rich.TimeElapsedColumn()
        columns: list[Any] = [text, rich.BarColumn(), count, elapsed, rich.TimeRemainingColumn(), note]
        columns = [rich.SpinnerColumn(), text, elapsed, note] if bar.phase else columns
        plain: Any = {"redirect_stdout": False, "redirect_stderr": False, "transient": True}
        self.rich = rich.Progress(*columns, console=Console(file=sys.stderr), **plain)
        self.task = self.rich.add_task(bar.description, total=bar.total, note=bar.note)
        self.rich.tasks[0].start_time = bar.started  # and not now, when it is drawn
        self.show(bar)
        self.rich.start()

    def show(self, bar: Progress) -> None:
        self.rich.update(self.task, completed=bar.done, note=bar.note, description=bar.description)

    def end(self) -> None:
        self.rich.stop()


class InNotebook:
    """An element of the page, gone at the end."""

    EVERY = 0.2  # seconds between two messages to the page

    def __init__(self, bar: Progress) -> None:
        from IPython.display import HTML, display

        self.html, self.sent = HTML, time.monotonic()
        self.handle = display(HTML(self._text(bar)), display_id=True)

    def _text(self, bar: Progress) -> str:
        share = "" if bar.total is None else f" value='{bar.done:g}' max='{bar.total:g}'"
        count = f"{100 * bar.done / bar.total:.0f} %" if bar.percent and bar.total else f"{bar.done:g}"
        words = (bar.description, count, f"{time.monotonic() - bar.started:.0f} s", bar.note)
        return f"<progress{share}></progress> {html.escape(' · '.join(word for word in words if word))}"

    def show(self, bar: Progress) -> None:
        if time.monotonic() - self.sent > self.EVERY:
            self.sent = time.monotonic()
            self.handle.update(self.html(self._text(bar)))

    def end(self) -> None:
        self.handle.update(self.html(""))


def track(iterable: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate as usual, with a bar where one is wanted."""
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    with Progress(description, total) as bar:
        for item in iterable:
            yield item
            bar.advance()


def in_parallel(
    function: Callable[..., T], tasks: Iterable[Any], title: str, total: int, jobs: int = 1, backend: str | None = None
) -> Iterator[T]:
    """``function(*task)`` of all tasks in their order, ``jobs`` at a time by joblib, with a bar.

    ``backend`` is any of joblib's by name; None leaves the choice to a surrounding ``joblib.parallel_config``.
    """
    results: Iterable[T] = starmap(function, tasks)
    if jobs == 0:
        raise InputError("jobs takes at least 1, or -1 for one per core, got 0")
    if jobs != 1 or backend is not None:
        from joblib import Parallel, delayed

        options = {"n_jobs": jobs} | ({} if backend is None else {"backend": backend})
        try:
            try:
                pool = Parallel(**options, return_as="generator")
            except (ValueError, TypeError):  # a backend that hands all results over at the end
                pool = Parallel(**options)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"joblib has no backend {backend!r}: {error}") from error
        results = pool(delayed(function)(*task) for task in tasks)
    return track(results, title, total)
