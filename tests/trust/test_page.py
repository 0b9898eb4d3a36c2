"""Every test that docs/trust.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_every_promise_names_a_test() -> None:
    page = (TESTS.parent / "docs" / "trust.md").read_text()
    path, missing, count = TESTS, [], 0
    for name, test in re.findall(r"`([\w/]*(?:\.py)?)(?:::(\w+))?`", page):
        if name.endswith(".py"):
            path = TESTS / name
        elif name or not test:
            continue
        count += 1
        if not path.is_file() or (test and f"def {test}(" not in path.read_text()):
            missing.append(f"{path.relative_to(TESTS)}::{test}")
    assert not missing
    assert count > 30
