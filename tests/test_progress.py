"""Bars: silent in the library, silent when short, drawn on a terminal when a program asks and the work is long."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from eigenprobe import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    # pytest puts its own streams back between the set-up and the call: patch what the module sees instead
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
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
    assert progress._depth == 0
    assert bar._rich is None
