"""How every measuring command reports what it found: rows -> Markdown, CSV and JSON.

rows: a sequence of flat mappings, column -> str, int, float, bool or None; columns in order of
first appearance
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from eigenprobe.errors import InputError
from eigenprobe.host.files import Facts, write_json, write_text
from eigenprobe.host.progress import Progress
from eigenprobe.host.tables import Record, Row, columns_of, write_csv

if TYPE_CHECKING:
    from eigenprobe.cli.session import Session

T = TypeVar("T")
KINDS = {
    ".csv": "for a spreadsheet",
    ".json": "for a program",
    ".md": "for a reader",
    ".html": "open in any browser",
}


@dataclass(frozen=True)
class Report:
    """What a command measured: its rows, what could not be used and why, the settings, and the
    files written.
    """

    rows: list[Record]
    failed: dict[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    written: tuple[Path, ...] = ()

    def markdown(self) -> str:
        """The tables a person reads."""
        return markdown(self.rows)

    def write(self, folder: Path, name: str) -> Self:
        """``name.csv``, ``name.json`` (facts and rows) and ``name.md``; the same report with their
        paths.
        """
        paths = [folder / f"{name}{suffix}" for suffix in (".csv", ".json", ".md")]
        write_csv(paths[0], self.rows)
        write_json(paths[1], {"facts": self.facts | {"failed": self.failed}, "rows": self.rows})
        write_text(paths[2], self.markdown())
        return replace(self, written=(*self.written, *paths))

    def tell(self, session: Session) -> None:
        """On the terminal: the tables, what was skipped, and the files for the closing summary,
        pictures by folder.
        """
        session.say(self.markdown())
        session.skipped(self.failed)
        for path in self.written:
            if path.suffix != ".png":
                session.wrote(path, KINDS.get(path.suffix, ""))
        pictures = Counter(path.parent for path in self.written if path.suffix == ".png")
        for folder, count in pictures.items():
            session.wrote(folder, f"{count} picture{'s' if count > 1 else ''}")


def grouped(rows: Iterable[Row], *by: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows that agree in the columns ``by``, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return groups


def mean_row(rows: Sequence[Row], columns: Sequence[str] | None = None, **labels: Any) -> Record:
    """``labels``, then the mean of every column (default: the numeric ones) over the rows that have
    the number.
    """
    means: Record = dict(labels)
    for name in columns_of(rows) if columns is None else columns:
        values = [
            float(row[name])
            for row in rows
            if _is_number(row.get(name)) and math.isfinite(row[name])
        ]
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
    body = [
        [_cell(row.get(name), form) for name, form in zip(chosen, forms, strict=True)]
        for row in rows
    ]
    right = [any(_is_number(row.get(name)) for row in rows) for name in chosen]
    widths = [max(3, *map(len, column)) for column in zip(titles, *body, strict=True)]
    rule = [
        "-" * (w + 1) + ":" if r else ":" + "-" * (w + 1)
        for w, r in zip(widths, right, strict=True)
    ]
    lines = [
        "| "
        + " | ".join(
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)
        )
        + " |"
        for line in (titles, *body)
    ]
    return "\n".join([lines[0], "|" + "|".join(rule) + "|", *lines[1:]])


def _is_number(value: object) -> bool:
    return not isinstance(value, (bool, str)) and hasattr(value, "__float__")


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float) or (hasattr(value, "dtype") and "float" in str(value.dtype)):
        return format(float(value), form)
    return str(value).replace("|", "\\|").replace("\n", " ")


def in_parallel(
    function: Callable[..., T], tasks: Iterable[Any], title: str, total: int, jobs: int = 1
) -> Iterator[T]:
    """``function(*task)`` of all tasks in their order, ``jobs`` at a time by joblib, with a bar. A
    surrounding ``joblib.parallel_config`` chooses where.
    """
    results: Iterable[T] = starmap(function, tasks)
    if jobs == 0:
        raise InputError("jobs takes at least 1, or -1 for one per core, got 0")
    if jobs != 1:
        from joblib import Parallel, delayed

        try:
            pool = Parallel(jobs, return_as="generator")
        except (ValueError, TypeError):  # a backend that hands all results over at the end
            pool = Parallel(jobs)
        results = pool(delayed(function)(*task) for task in tasks)
    with Progress(title, total) as bar:
        for result in results:
            yield result
            bar.advance()
