"""Bars: silent in the library, silent when short, drawn on a terminal when a program asks and the work is long."""

from __future__ import annotations

import io
import sys
import time
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
    # pytest puts its own streams back between the set-up and the call: patch what the module sees instead
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


@pytest.fixture(autouse=True)
def _off_afterwards():  # type: ignore[no-untyped-def]
    yield
    progress.enable(False)


def test_items_pass_through_whatever_the_settings(terminal: Terminal) -> None:
    assert list(progress.track(range(5), "counting")) == [0, 1, 2, 3, 4]
    progress.enable()
    assert list(progress.track(iter("abc"), "letters", total=3)) == ["a", "b", "c"]


def test_silent_by_default_and_for_short_work(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    list(progress.track(range(3), "short"))
    progress.enable()
    list(progress.track(range(3), "short"))
    assert terminal.getvalue() == ""
    progress.enable(False)
    monkeypatch.setattr(progress, "DELAY", -1.0)
    list(progress.track(range(3), "not asked for"))
    assert terminal.getvalue() == ""


def test_silent_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", -1.0)
    progress.enable()
    list(progress.track(range(3), "piped"))
    assert capsys.readouterr().err == ""


def test_long_work_draws_one_bar_and_inner_bars_stay_silent(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", -1.0)
    progress.enable()
    with progress.Progress("fitting", total=3) as bar:
        for step in range(3):
            list(progress.track(range(2), "inside"))
            bar.advance(note=f"loss {step}")
    assert "fitting" in terminal.getvalue() and "inside" not in terminal.getvalue()


def test_an_error_inside_stops_the_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", -1.0)
    progress.enable()
    with pytest.raises(RuntimeError), progress.Progress("failing", total=2) as bar:
        bar.advance()
        raise RuntimeError
    assert progress._bars == []
    assert progress._drawn is None and progress._display is None


def test_a_phase_shows_where_no_bar_does_and_gives_way(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing moves it on: it is drawn by the clock, with what is being done, until something is printed."""
    monkeypatch.setattr(progress, "DELAY", 0.05)
    progress.enable()
    with progress.Progress("decompose", phase=True):
        progress.stage("reading a.obj")
        deadline = time.monotonic() + 10
        while "reading a.obj" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "reading a.obj" in terminal.getvalue()
        with progress.Progress("fitting", total=100.0, percent=True) as bar:
            time.sleep(0.1)
            bar.advance(25.0)
            assert progress._drawn is bar
        progress.hide()
        assert progress._drawn is None
        progress.enable(False)
    assert "fitting" in terminal.getvalue() and "25%" in terminal.getvalue()
    assert progress._drawn is None and progress._bars == []


def test_bars_in_a_notebook_are_elements_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for IPython's: what is displayed, and what takes its place."""
    told: list[str] = []

    class ZMQInteractiveShell:
        pass

    handle = SimpleNamespace(update=told.append)
    page = SimpleNamespace(HTML=str, display=lambda shown, display_id: told.append(shown) or handle)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    monkeypatch.setattr(progress, "DELAY", -1.0)
    monkeypatch.setattr(progress.InNotebook, "EVERY", -1.0)
    assert list(progress.track(range(3), "<fitting>")) == [0, 1, 2]
    assert any("<progress value='2' max='3'></progress> &lt;fitting&gt; · 2 · 0 s" in text for text in told), told
    assert told[-1] == ""


def test_reports_are_written_once_in_a_while() -> None:
    """At most one in so many seconds, to whoever asked last; outside of the block nowhere."""
    first: list[str] = []
    second: list[str] = []
    progress.report("nobody reads")
    assert not progress.reporting()
    with progress.reports_to(first.append, every=0):
        progress.report("a")
        with progress.reports_to(second.append, every=60):
            progress.report("b")
        with progress.reports_to(None):
            progress.report("c")
            assert not progress.reporting()
        side_by_side(abs, [1, 2, 3])
        assert progress.reporting()
    assert first == ["a", "1 of 3 blocks", "2 of 3 blocks", "3 of 3 blocks"] and second == []
    assert not progress.reporting()
