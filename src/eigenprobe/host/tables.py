"""Rows -> Markdown, CSV and JSON: how every measuring command reports what it found.

rows: a sequence of flat mappings, column -> str, int, float, bool or None; columns in order of first appearance
"""

import csv
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

from .files import Facts, atomic_path, write_json, write_text

Row = Mapping[str, Any]
Record = dict[str, Any]  # a row that is made


@dataclass(frozen=True)
class Report:
    """What a command measured: its rows, what could not be used and why, the settings, and the files written."""

    rows: list[Record]
    failed: dict[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    written: tuple[Path, ...] = ()

    def markdown(self) -> str:
        """The tables a person reads."""
        return markdown(self.rows)

    def write(self, folder: Path, name: str) -> Self:
        """``name.csv``, ``name.json`` (facts and rows) and ``name.md``; the same report with their paths."""
        paths = [folder / f"{name}{suffix}" for suffix in (".csv", ".json", ".md")]
        write_csv(paths[0], self.rows)
        write_json(paths[1], {"facts": self.facts | {"failed": self.failed}, "rows": self.rows})
        write_text(paths[2], self.markdown())
        return replace(self, written=(*self.written, *paths))


def columns_of(rows: Iterable[Row]) -> list[str]:
    """All columns, each where it first appears."""
    return list(dict.fromkeys(name for row in rows for name in row))


def grouped(rows: Iterable[Row], *by: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows that agree in the columns ``by``, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return groups


def mean_row(rows: Sequence[Row], columns: Sequence[str] | None = None, **labels: Any) -> Record:
    """``labels``, then the mean of every column (default: the numeric ones) over the rows that have the number."""
    means: Record = dict(labels)
    for name in columns_of(rows) if columns is None else columns:
        values = [float(row[name]) for row in rows if _is_number(row.get(name)) and math.isfinite(row[name])]
        if values or columns is not None:
            means[name] = sum(values) / len(values) if values else None
    return means


def markdown(
    rows: Sequence[Row],
    columns: Sequence[str] | Mapping[str, str] | None = None,
    *,
    digits: int = 3,
    formats: Mapping[str, str] | None = None,
) -> str:
    """A pipe table; numbers are right-aligned, missing ones a dash.

    ``columns`` chooses and, as a mapping, renames; those that no row has are left out.

    >>> print(markdown([{"shape": "cat", "cosine": 0.98765}, {"shape": "dog", "cosine": None}]))
    | shape | cosine |
    |:------|-------:|
    | cat   |  0.988 |
    | dog   |      - |
    """
    found = columns_of(rows)
    chosen = found if columns is None else [name for name in columns if name in found]
    titles = [columns[name] if isinstance(columns, Mapping) else name for name in chosen]
    forms = [(formats or {}).get(name, f".{digits}f") for name in chosen]
    body = [[_cell(row.get(name), form) for name, form in zip(chosen, forms, strict=True)] for row in rows]
    right = [any(_is_number(row.get(name)) for row in rows) for name in chosen]
    widths = [max(3, *map(len, column)) for column in zip(titles, *body, strict=True)]
    rule = ["-" * (w + 1) + ":" if r else ":" + "-" * (w + 1) for w, r in zip(widths, right, strict=True)]
    lines = [
        "| " + " | ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)) + " |"
        for line in (titles, *body)
    ]
    return "\n".join([lines[0], "|" + "|".join(rule) + "|", *lines[1:]])


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Full precision, one header line, missing values empty."""
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns_of(rows))  # writes None and absent values as empty cells
        writer.writeheader()
        writer.writerows(rows)


def _is_number(value: object) -> bool:
    return not isinstance(value, (bool, str)) and hasattr(value, "__float__")


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float) or (hasattr(value, "dtype") and "float" in str(value.dtype)):
        return format(float(value), form)
    return str(value).replace("|", "\\|").replace("\n", " ")


def say(value: object) -> str:
    """A fact as words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}".replace(",", "\N{THIN SPACE}")
    if isinstance(value, Real):
        return f"{float(value):.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {say(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(say(entry) for entry in value)
    return str(value)


def table_rows(facts: Mapping[str, Any]) -> str:
    """Names and values as rows of a table; everything is escaped."""
    cells = [(html.escape(str(key)), html.escape(say(value))) for key, value in facts.items()]
    return "".join(f"<tr><td>{key}</td><td>{value}</td></tr>" for key, value in cells)


def html_table(title: str, facts: Mapping[str, Any]) -> str:
    """Names and values in two columns, as a notebook shows them."""
    rows = table_rows(facts).replace("<td>", "<td style='text-align:left'>")
    return f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>{rows}</table>"
