"""How every page is made: one HTML file that needs nothing but a browser."""

from __future__ import annotations

from eigenprobe.viz.page import in_words, page


def test_facts_in_words_and_warnings_apart() -> None:
    facts = {
        "short_cuts": 0,
        "strays": [1898],
        "quality": {"noise_over_spacing": 0.1, "votes": {"2": 1}},
        "warnings": ["2 <parts>"],
    }
    assert in_words({**facts, "warnings": 1}) == {
        "edges cut": 0,
        "outliers": 1,
        "noise over spacing": 0.1,
        "votes": {"2": 1},
        "warnings": 1,
    }
    text = page("scatter", {}, "a", "b", "", facts, bare=True)
    assert '<ul class="warnings" role="alert"><li>2 &lt;parts&gt;</li></ul>' in text
    assert "<td>votes</td><td>2: 1</td>" in text
    assert "<td>edges cut</td>" in text and "<td>warnings</td>" not in text
    assert 'class="warnings"' not in page("scatter", {}, "a", "b", "", {}, bare=True)
