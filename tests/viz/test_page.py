"""How every page is made: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import sys
import webbrowser

import pytest

from eigenprobe.viz.page import in_words, open_browser, page


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


def test_facts_in_words_and_warnings_apart() -> None:
    facts = {"short_cuts": 0, "quality": {"noise_over_spacing": 0.1}, "warnings": ["2 <parts>"]}
    assert in_words({**facts, "warnings": 1}) == {
        "short cuts": 0,
        "noise over spacing": 0.1,
        "warnings": 1,
    }
    text = page("scatter", {}, "a", "b", "", facts, bare=True)
    assert '<ul class="warnings" role="alert"><li>2 &lt;parts&gt;</li></ul>' in text
    assert "<td>short cuts</td>" in text and "<td>warnings</td>" not in text
    assert 'class="warnings"' not in page("scatter", {}, "a", "b", "", {}, bare=True)
