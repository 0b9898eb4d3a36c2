"""Bars: silent in the library, rich's in a terminal where a program asks, lines where there is
none.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from eigenprobe.host import progress
from eigenprobe.host.threads import side_by_side


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    # pytest puts its own streams back between the set-up and the call
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    yield
    progress.enable(False)


def test_the_library_is_silent(terminal: Terminal) -> None:
    with progress.Progress("counting", total=5) as bar:
        bar.advance(2)
    assert bar.done == 2
    assert terminal.getvalue() == ""


def test_bars_of_a_program_in_a_terminal(terminal: Terminal) -> None:
    """The stage and the bar, until something is printed, and again when it advances; gone after an
    error too."""
    progress.enable()
    with pytest.raises(RuntimeError), progress.Progress("decompose"):
        progress.stage("reading a.obj")
        with progress.Progress("fitting", total=4) as bar:
            progress.hide()
            terminal.truncate(0)
            bar.advance(note="loss 3")
            time.sleep(0.3)
            shown = terminal.getvalue()
        raise RuntimeError
    assert "reading a.obj" in shown and "fitting" in shown and "25%" in shown and "loss 3" in shown
    terminal.truncate(0)
    with progress.Progress("letters", total=3) as bar:
        bar.advance()
    assert "letters" in terminal.getvalue() and "fitting" not in terminal.getvalue()


def test_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SHORT", 0.05)
    progress.enable()
    with progress.Progress("decompose"):
        progress.stage("reading a.obj")
        time.sleep(0.3)
        progress.stage("decomposing a.obj")
    time.sleep(0.2)
    assert capsys.readouterr().err == "eigenprobe: reading a.obj, 0 s\n"


def test_reports_are_written_once_in_a_while() -> None:
    """At most one in so many seconds, to whoever asked last; outside of the block nowhere."""
    first: list[str] = []
    second: list[str] = []
    progress.report("nobody reads")
    with progress.reports_to(first.append, every=0):
        progress.report("a")
        with progress.reports_to(second.append, every=60):
            progress.report("b")
        with progress.reports_to(None):
            progress.report("c")
        side_by_side(abs, [1, 2, 3])
    assert first == ["a", "1 of 3 blocks", "2 of 3 blocks", "3 of 3 blocks"] and second == []
