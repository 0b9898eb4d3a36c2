"""How far long work has come: rich's bars in a terminal and a notebook, lines where there is
neither.

The library is silent. A program that owns the terminal (the command line) calls ``enable()``; from
then on every ``Progress`` draws a bar on standard error. In a notebook with
ipywidgets bars are drawn without being asked for. The first bar is that of the whole program: it
shows what is being done (`stage`). Without a terminal, as in a batch queue, a stage that lasts
longer than five seconds is a line, and every minute of it one more.

>>> with Progress("adding", total=4) as bar:
...     for _ in range(4):
...         bar.advance()
>>> bar.done
4.0
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

if "ipykernel" in sys.modules:  # tqdm, which others import, would warn of bars that are not drawn
    with warnings.catch_warnings(action="ignore"), suppress(ImportError):
        importlib.import_module("tqdm.auto")
SHORT, MINUTE = 5.0, 60.0  # seconds of a stage before its first line, and between two lines

_enabled = False
_bars: list[Progress] = []  # that are running, the program's first
_rich: Any = None  # rich's display of all of them
_timer = threading.Timer(0, print)  # of the next line
_reports: Callable[[str], None] | None = None


def enable(on: bool = True) -> None:
    """Allow bars on standard error (off by default, for library use)."""
    global _enabled
    _enabled = on


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook that can draw bars (rich needs ipywidgets)."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell" and find_spec("ipywidgets") is not None


def stage(text: str) -> None:
    """Say what is being done now, as the words of the program's bar."""
    if _enabled and _bars:
        _bars[0].description, _bars[0].started = text, time.monotonic()
        _bars[0].show()


def hide() -> None:
    """Take the bars away before something else is printed; they come back when one advances."""
    if _rich is not None:
        _rich.stop()


class Progress:
    """One bar: ``with Progress("fitting", total=100) as bar: ...; bar.advance()``.

    ``total=None`` shows the time without a fraction. ``note`` is a short text beside the bar (a
    loss, a file name).
    """

    def __init__(self, description: str, total: float | None = None) -> None:
        self.description, self.total = description, total
        self.done, self.note = 0.0, ""
        self.started = time.monotonic()
        self.task: Any = None

    def __enter__(self) -> Progress:
        global _rich
        if in_notebook() or (_enabled and sys.stderr.isatty()):
            if _rich is None:
                from rich import progress
                from rich.console import Console

                columns = progress.Progress.get_default_columns()[:3]
                plain: Any = {"redirect_stdout": False, "redirect_stderr": False, "transient": True}
                plain["console"] = Console(file=None if in_notebook() else sys.stderr)
                passed = progress.TimeElapsedColumn()
                _rich = progress.Progress(*columns, passed, "{task.fields[note]}", **plain)
            self.task = _rich.add_task(self.description, total=self.total, note="")
        if self.task is not None or _bars:  # the program's own line is that of a stage
            self.show()
        _bars.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        global _rich
        _bars.remove(self)
        if self.task is not None:
            _rich.remove_task(self.task)
        if not _bars:
            hide()
            _rich = None
            _timer.cancel()

    def advance(self, steps: float = 1, note: str | None = None) -> None:
        """Say that ``steps`` more are done."""
        self.done += steps
        self.note = self.note if note is None else note
        if self.task is not None:
            self.show()

    def show(self) -> None:
        """The bar as it is now; without a terminal a line, once it lasts."""
        if self.task is not None:
            words = {"description": self.description, "note": self.note}
            _rich.update(self.task, completed=self.done, **words)
            _rich.start()
        elif _enabled:
            _line_after(SHORT)


def _line_after(seconds: float) -> None:
    """The last of the bars as a line on standard error, then one a minute."""
    global _timer
    _timer.cancel()

    def tell() -> None:
        if _bars and _enabled:
            bar = _bars[-1]
            count = f": {bar.done:g} of {bar.total:g}" if (bar.total or 1) > 1 else ""
            count = f": {bar.done:.1%}" if isinstance(bar.total, float) else count
            passed = f"{time.monotonic() - bar.started:.0f} s"
            stage = "" if bar is _bars[0] else _bars[0].description
            words = [f"{bar.description}{count}", stage, passed, bar.note]
            sys.stderr.write(f"eigenprobe: {', '.join(filter(None, words))}\n")
            _line_after(MINUTE)

    _timer = threading.Timer(seconds, tell)
    _timer.daemon = True
    _timer.start()


@contextmanager
def reports_to(write: Callable[[str], None] | None, every: float = 2.0) -> Iterator[None]:
    """What long loops inside of the block `report` is written, at most once in ``every`` seconds;
    None: nowhere.
    """
    global _reports
    before = _reports
    last = time.monotonic()

    def passed_on(text: str) -> None:
        nonlocal last
        if write is not None and (now := time.monotonic()) - last >= every:
            last = now
            write(text)

    _reports = passed_on
    try:
        yield
    finally:
        _reports = before


def report(text: str) -> None:
    """How far a loop has come, for `reports_to`."""
    if _reports is not None:
        _reports(text)
