"""Tests of `viz.page`: how every page is made: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import sys
import webbrowser

import pytest

from eigenprobe.viz.page import open_browser


def test_a_browser_is_opened_only_where_a_person_sits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_browser("http://a") and asked == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_browser("http://b") and asked == ["http://b"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert not open_browser("http://c")
