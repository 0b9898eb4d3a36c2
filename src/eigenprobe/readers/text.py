"""Text -> points: which columns are coordinates, and the numbers in them.

    x y z [nx ny nz] [r g b [a]]     an index, normals and colours are attributes of a point, not more dimensions of it

Names decide where the file has them; without names, values do: a last block of unit vectors, whole numbers up to 255, a
first column that counts the rows. An xyz or pts file has three coordinates by its own name. What is left out, and four
to ten coordinates without names, are named in one warning; ``columns`` overrides.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, near, warn
from ..readers.mesh import Array

Columns = str | Sequence[int | str] | None  # names, or numbers from 0
ROWS = 1 << 20  # parsed at once
COMMENT = "#"
COORDINATES = ("x", "y", "z")
INDEX = {"", "id", "index", "idx", "unnamed: 0"}
ATTRIBUTES = {  # several names that stand together: one letter alone may be a coordinate
    "normals": (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z"), ("normalx", "normaly", "normalz")),
    "colours": (("r", "g", "b", "a"), ("red", "green", "blue", "alpha"), ("r", "g", "b"), ("red", "green", "blue")),
}
TEXT = (".xyz", ".pts", ".txt", ".csv")
SPATIAL = (".xyz", ".pts")
ATTRIBUTED = range(4, 11)  # columns that may well be three coordinates and something else
LOOKED_AT = 100_000  # rows of a large table
BEGINNING = 1 << 16  # bytes in which a decimal comma shows
CLOSING = 8  # lines at the end whose numbers are compared with the last one
UNIT = 0.01  # of a normal's length: text is often rounded to three digits


class Layout(NamedTuple):
    """How a text file is written: what `pandas.read_csv` needs to know, the names of its columns, if any, and how many
    there are; ``ended`` where a separator ends each line; ``announced`` is the number of points that it says it has."""

    options: dict[str, Any]
    names: list[str]
    width: int
    ended: bool
    announced: int | None


def read_text(path: Path, columns: Columns = None) -> tuple[Array, None]:
    """Columns separated by commas, semicolons, tabs or blanks; '#' comments; names in the first line, if any."""
    import pandas

    layout = _layout(path)
    names = layout.names
    lower = [str(c).lower() for c in (columns.split(",") if isinstance(columns, str) else columns or ())]
    chosen = _by_name(names, path) if columns is None else pick(names, layout.width, lower, path)
    # The default precision is not exact, and crashes on exponents of ten digits.
    options = layout.options | {"dtype": np.float64, "chunksize": ROWS, "float_precision": "round_trip"}
    options["usecols"] = range(layout.width) if layout.ended and chosen is None else chosen
    table = np.concatenate([block.to_numpy() for block in pandas.read_csv(path, comment=COMMENT, **options)])
    if layout.announced is not None and len(table) < layout.announced:
        raise InputError(f"{path} announces {layout.announced} points and holds {len(table)}: it is not whole")
    _warn_of_cut(path)
    if chosen is not None:
        return table[:, np.argsort(np.argsort(chosen))], None  # pandas keeps the order of the file
    return table if names else table[:, by_value(table, path)], None


def _layout(path: Path) -> Layout:
    first, remark, skipped, count = _first_lines(path)
    marks = separators(path, first)
    separator = marks["sep"] if marks["sep"] in first and marks["sep"] != "\t" else r"\s+"
    words = re.split(separator, first.replace(",", ".") if marks["decimal"] == "," else first)
    ended = separator != r"\s+" and not words[-1].strip() and all(map(_is_number, words[:-1]))
    words = words[:-1] if ended else words
    header = None if all(_is_number(word) for word in words if word.strip()) else 0
    names = _names(words) if header == 0 else _names(re.split(f"{separator}|\\s+", remark))
    if header is None and (len(names) != len(words) or not {"x", "y"} <= set(names)):
        names = []  # the remark says something else
    options = {**marks, "sep": separator, "header": header, "skiprows": skipped}
    return Layout(options, names, len(words), ended, count)


def _warn_of_cut(path: Path) -> None:
    """A warning where the last line has no end and its number fewer decimals than those before, which all agree."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - BEGINNING))
        *whole, last = file.read().split(b"\n")
    pattern = re.compile(rb"\.(\d+(?:[eE][+-]?\d+)?)\s*$")
    lengths = {len(found[1]) if (found := pattern.search(line)) else 0 for line in whole[-CLOSING - 1 :][1:]}
    if last.strip() and len(lengths) == 1 and (usual := lengths.pop()) > 1 and len(whole) > CLOSING:
        found = pattern.search(last)
        if (len(found[1]) if found else 0) < usual:
            warn(f"{path.name} ends within a number: it may not be whole, and its last point wrong")


def pick(names: Sequence[str], width: int, columns: str | Sequence[int | str], path: Path) -> list[int]:
    """Positions of the columns that were asked for: names, or numbers from 0."""
    known, found = {name: place for place, name in reversed([*enumerate(names)])}, []
    for column in columns.split(",") if isinstance(columns, str) else columns:
        word = str(column).strip()
        found.append(known.get(word, int(word) if word.isdecimal() else width))
        if found[-1] >= width:
            shown = ", ".join([*names[:12], *(["..."] if len(names) > 12 else [])]) if names else f"0 to {width - 1}"
            raise InputError(f"{path} has no column {word!r}, there are {shown}{near(word, names)}")
    return found


def separators(path: Path, line: str) -> dict[str, str]:
    """What stands between the columns of a line, and a comma in numbers where a file has it, as pandas calls them."""
    mark = next((mark for mark in (";", "\t", ",") if mark in line), ",")
    with path.open("rb") as file:
        return {"sep": mark, "decimal": "," if mark != "," and re.search(rb"\d,\d", file.read(BEGINNING)) else "."}


def _first_lines(path: Path) -> tuple[str, str, int, int | None]:
    """The first line that is not a comment, the comment right before it, how many lines to skip, and the number of
    points that an xyz or pts file may begin with."""
    remark, skipped, count = "", 0, None
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            text = line.split(COMMENT)[0].strip()
            if path.suffix.lower() in SPATIAL and not skipped and text.isdecimal():
                skipped, count = number, int(text)
            elif text:
                return text, remark, skipped, count
            else:
                remark = line.strip().lstrip(COMMENT).strip()
    raise InputError(f"{path} holds no points")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _names(words: Sequence[str]) -> list[str]:
    return [word.strip().strip("\"'/").lower() for word in words]


def _by_name(names: list[str], path: Path) -> list[int] | None:
    """Positions of the coordinates by their names; None where there are none to go by."""
    if not names:
        return None
    if {"x", "y"} <= set(names):
        chosen = [names.index(name) for name in COORDINATES if name in names]
        rest = [names[i] or "an index" for i in range(len(names)) if i not in chosen]
    else:
        others = dict.fromkeys(INDEX, "an index")
        for what, groups in ATTRIBUTES.items():
            found = next((group for group in groups if set(group) <= set(names)), ())
            others |= dict.fromkeys(found, what)
        chosen = [i for i, name in enumerate(names) if name not in others]
        rest = list(dict.fromkeys(others[name] for name in names if name in others))
    if not chosen:
        raise InputError(f"{path} has no columns of coordinates, there are {', '.join(names)}")
    if rest:
        _tell(path, [names[i] for i in chosen], rest)
    return chosen


def by_value(table: Array, path: Path) -> list[int]:
    """Positions of the coordinates in a table (n, d) without names."""
    d, suffix = table.shape[1], path.suffix.lower()
    table = table[:LOOKED_AT]
    n, everything = len(table), list(range(d))
    start = int(d >= 4 and n > 3 and table[0, 0] in (0, 1) and bool((np.diff(table[:, 0]) == 1).all()))
    rest, at = ["an index"] if start else [], start + 3
    while at < d:
        if _unit(table[:, at : at + 3]):
            rest, at = [*rest, "normals"], at + 3
        elif d - at in (3, 4, 6, 7) and _colours(table[:, at : at + 3]) and not _whole(table[:, start : start + 3]):
            rest, at = [*rest, "colours"], at + (4 if d - at in (4, 7) else 3)
        elif suffix in SPATIAL:
            rest, at = [*rest, f"{d - at} more"], d
        else:
            if suffix in TEXT and d in ATTRIBUTED:
                warn(f"{path.name}: all of {d} columns without names are the coordinates; choose others by columns")
            return everything
    chosen = everything[start : start + 3]
    if rest:
        _tell(path, list(map(str, chosen)), rest)
    return chosen


def _unit(block: Array) -> bool:
    length = np.linalg.norm(block, axis=1)
    return block.shape[1] == 3 and len(block) > 3 and bool((np.abs(length - 1) < UNIT).mean() > 0.99)


def _colours(block: Array) -> bool:
    return _whole(block) and block.min() >= 0 and 1 < block.max() <= 255


def _whole(block: Array) -> bool:
    return bool((block == np.rint(block)).all())


def _tell(path: Path, chosen: Sequence[str], rest: Sequence[str]) -> None:
    asked = ",".join(chosen)
    warn(f"{path.name}: columns {asked} are the coordinates, {', '.join(rest)} left out; choose others by columns")
