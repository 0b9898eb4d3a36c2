"""Rows -> CSV, JSON and Markdown, the three files every measuring command leaves behind.

rows: a sequence of flat mappings, column -> str, int, float, bool or None; columns in order of first appearance
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import atomic_path

Row = Mapping[str, Any]


def columns_of(rows: Iterable[Row]) -> list[str]:
    """All columns, each where it first appears."""
    return list(dict.fromkeys(name for row in rows for name in row))


def markdown(
    rows: Sequence[Row],
    columns: Sequence[str] | Mapping[str, str] | None = None,
    *,
    digits: int = 3,
    formats: Mapping[str, str] | None = None,
) -> str:
    """A pipe table. ``columns`` chooses and, as a mapping, renames; numbers are right-aligned, missing ones a dash.

    >>> print(markdown([{"shape": "cat", "cosine": 0.98765}, {"shape": "dog", "cosine": None}]))
    | shape | cosine |
    |:------|-------:|
    | cat   |  0.988 |
    | dog   |      - |
    """
    chosen = columns if columns is not None else columns_of(rows)
    titles = dict(chosen) if isinstance(chosen, Mapping) else {name: name for name in chosen}
    formats = formats or {}
    body = [[_cell(row.get(name), formats.get(name, f".{digits}f")) for name in titles] for row in rows]
    numeric = [any(_is_number(row.get(name)) for row in rows) for name in titles]
    head = list(titles.values())
    widths = [max(3, *(len(line[i]) for line in [head, *body])) for i in range(len(head))]
    lines = [_line(head, widths, numeric)]
    rules = ["-" * (w + 1) + ":" if right else ":" + "-" * (w + 1) for w, right in zip(widths, numeric, strict=True)]
    lines.append("|" + "|".join(rules) + "|")
    lines += [_line(line, widths, numeric) for line in body]
    return "\n".join(lines)


def write(
    folder: str | os.PathLike[str],
    name: str,
    rows: Sequence[Row],
    *,
    text: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> list[Path]:
    """``name.csv``, ``name.json`` (facts and rows) and ``name.md`` in ``folder``; the paths written."""
    folder = Path(folder)
    paths = [folder / f"{name}{suffix}" for suffix in (".csv", ".json", ".md")]
    write_csv(paths[0], rows)
    write_json(paths[1], rows, facts)
    with atomic_path(paths[2]) as temporary:
        temporary.write_text((text if text is not None else markdown(rows)).rstrip("\n") + "\n", encoding="utf-8")
    return paths


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row]) -> None:
    """Full precision, one header line, missing values empty."""
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns_of(rows), restval="")
        writer.writeheader()
        writer.writerows([{key: "" if value is None else value for key, value in row.items()} for row in rows])


def write_json(path: str | os.PathLike[str], rows: Sequence[Row], facts: Mapping[str, Any] | None = None) -> None:
    """Strict JSON: numpy numbers become plain ones, and a value that is not finite becomes null."""
    content = {"facts": dict(facts or {}), "rows": [dict(row) for row in rows]}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """The same value made of what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def mean_row(rows: Sequence[Row], columns: Sequence[str], **labels: Any) -> dict[str, Any]:
    """One row of column means over the rows that have the number; ``labels`` come first."""
    means: dict[str, Any] = dict(labels)
    for name in columns:
        values = [float(row[name]) for row in rows if _is_number(row.get(name)) and math.isfinite(row[name])]
        means[name] = sum(values) / len(values) if values else None
    return means


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, (int, float)) or hasattr(value, "__float__"))


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float) or (hasattr(value, "dtype") and "float" in str(value.dtype)):
        return format(float(value), form)
    return str(value).replace("|", "\\|").replace("\n", " ")


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "| " + " | ".join(padded) + " |"
