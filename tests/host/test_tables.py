"""Tests of `host.tables`: facts in words."""

from __future__ import annotations

import numpy as np

from eigenprobe.host.tables import html_table, say


def test_facts_in_words() -> None:
    facts = {"n": 12345, "share": np.float64(0.123456), "cut": True, "rows": list(range(500))}
    assert [say(value) for value in facts.values()] == [
        "12\N{THIN SPACE}345",
        "0.1235",
        "yes",
        "500 values",
    ]
    assert say({"a": [1, 2]}) == "a: 1, 2"
    assert "&lt;b&gt;" in html_table("<b>", facts) and "500 values" in html_table("<b>", facts)
