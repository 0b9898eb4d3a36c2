"""Text -> points: which columns are coordinates, and the numbers in them.

    names in the first line, or in a comment before the numbers     x, y and z, if there are; else
                                                                    all columns
    xyz, pts, pwn files without names                               the first three columns
    txt, csv files without names                                    all columns

``columns`` overrides. What is left out is named in one warning.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, near, warn
from .mesh import Array

Columns = str | Sequence[int | str] | None  # names, or numbers from 0
COMMENT = "#"
SPATIAL = (".xyz", ".pts", ".pwn")
TEXT = (*SPATIAL, ".txt", ".csv")
BEGINNING = 1 << 16  # bytes in which a decimal comma shows


def read_text(path: Path, columns: Columns = None) -> Array:
    """Columns separated by commas, semicolons, tabs or blanks; '#' comments; names in the first
    line, if any.
    """
    first, remark, skipped, announced = _first_lines(path)
    marks = separators(path, first)
    if marks["sep"] not in first or marks["sep"] == "\t":
        marks["sep"] = r"\s+"
    fields = re.split(marks["sep"], first)
    words = fields if fields[-1].strip() else fields[:-1]  # the line may end by a separator
    named = any(not _is_number(word) and re.search(r"[^\W\d]", word) for word in words)
    heading = words if named else re.split(rf"{marks['sep']}|\s+", remark)
    names = [word.strip().strip("\"'/").lower() for word in heading]
    if not named and (len(names) != len(words) or not {"x", "y"} <= set(names)):
        names = []  # the remark says something else
    if columns is None:
        chosen = _coordinates(names, len(words), path)
    else:
        chosen = pick(names, len(words), columns, path)
    read, order = np.unique(chosen, return_inverse=True)  # pandas keeps the order of the file
    table = parsed(
        path,
        **marks,
        comment=COMMENT,
        header=0 if named else None,
        skiprows=skipped,
        usecols=read.tolist() if len(read) < len(fields) else None,
        dtype=np.float64,
    ).to_numpy()
    if path.suffix.lower() == ".pwn":
        table = table[:announced]  # the normals follow
    if len(table) < (announced or 0):
        raise InputError(f"{path} announces {announced} points and holds {len(table)}")
    return table[:, order]


def _coordinates(names: list[str], width: int, path: Path) -> list[int]:
    """Positions of the coordinates by the rule of the module."""
    chosen = list(range(width))
    if {"x", "y"} <= set(names):
        chosen = [names.index(name) for name in ("x", "y", "z") if name in names]
    elif not names and path.suffix.lower() in SPATIAL:
        chosen = chosen[:3]
    elif not names and width > 3:
        warn(f"{path.name}: all {width} columns are coordinates; choose others by columns")
    if left := width - len(chosen):
        asked = ",".join(names[i] if names else str(i) for i in chosen)
        warn(f"{path.name}: columns {asked} are the coordinates, {left} others left out")
    return chosen


def pick(
    names: Sequence[str], width: int, columns: str | Sequence[int | str], path: Path
) -> list[int]:
    """Positions of the columns that were asked for: names, or numbers from 0."""
    known, found = {name: place for place, name in reversed([*enumerate(names)])}, []
    for column in columns.split(",") if isinstance(columns, str) else columns:
        word = str(column).strip()
        number = int(word) if word.isdecimal() else width
        found.append(known.get(word, known.get(word.lower(), number)))
        if found[-1] >= width:
            shown = ", ".join(names[:12]) if names else f"0 to {width - 1}"
            more = ", ..." if len(names) > 12 else ""
            raise InputError(
                f"{path} has no column {word!r}, there are {shown}{more}{near(word, names)}"
            )
    return found


def separators(path: Path, line: str) -> dict[str, str]:
    """What stands between the columns of a line, and a comma in numbers where a file has it, as
    pandas calls them.
    """
    mark = next((mark for mark in (";", "\t", ",") if mark in line), ",")
    with path.open("rb") as file:
        comma = mark != "," and re.search(rb"\d,\d", file.read(BEGINNING))
    return {"sep": mark, "decimal": "," if comma else "."}


def parsed(path: Path, **options: Any) -> Any:
    """The data frame that pandas reads."""
    import pandas

    # Other precisions are not exact, and crash on exponents of ten digits.
    frame = pandas.read_csv(path, **options, float_precision="round_trip")
    if not isinstance(frame.index, pandas.RangeIndex):
        wrong = "its rows have more columns than its first line names"
        raise InputError(f"{path}: {wrong}: name all of them")
    return frame


def _first_lines(path: Path) -> tuple[str, str, int, int | None]:
    """The first line that is not a comment, the comment right before it, how many lines to skip,
    and the number of points that an xyz, pts or pwn file may begin with."""
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
