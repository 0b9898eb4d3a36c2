"""Rows -> CSV, and facts -> words and tables of a page.

rows: a sequence of flat mappings, column -> str, int, float, bool or None; columns in order of
first appearance
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from .files import atomic_path

LISTED = 24  # entries of a list that a page shows
Row = Mapping[str, Any]
Record = dict[str, Any]  # a row that is made


def columns_of(rows: Iterable[Row]) -> list[str]:
    """All columns, each where it first appears."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Full precision, one header line, missing values empty."""
    import pandas

    with atomic_path(path) as temporary:
        pandas.DataFrame(map(dict, rows), dtype=object).to_csv(temporary, index=False)


def say(value: object) -> str:
    """A fact as words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}".replace(",", "\N{THIN SPACE}")
    if isinstance(value, Real):
        return f"{float(value):.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {say(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        many = len(value) > LISTED
        return f"{say(len(value))} values" if many else ", ".join(map(say, value))
    return str(value)


def table_rows(facts: Mapping[str, Any]) -> str:
    """Names and values as rows of a table; everything is escaped."""
    cells = [(html.escape(str(key)), html.escape(say(value))) for key, value in facts.items()]
    return "".join(f"<tr><td>{key}</td><td>{value}</td></tr>" for key, value in cells)
