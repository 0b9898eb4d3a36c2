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
SPATIAL = (".xyz", ".pts", ".pwn")
TEXT = (*SPATIAL, ".txt", ".csv")
BEGINNING = 1 << 16  # bytes in which a decimal comma shows


def read_text(path: Path, columns: Columns = None) -> Array:
    """Columns separated by commas, semicolons, tabs or blanks; '#' comments; names in the first
    line, if any.
    """
    spatial, (remark, skipped, announced) = path.suffix.lower() in SPATIAL, ("", 0, None)
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            first = line.split("#")[0].strip()
            if spatial and not skipped and first.isdecimal():  # the number of points
                skipped, announced = number, int(first)
            elif first:
                break
            else:
                remark = line.strip().lstrip("#").strip()
        else:
            raise InputError("the file holds no points")
    marks = separators(path, first)
    if marks["sep"] not in first or marks["sep"] == "\t":
        marks["sep"] = r"\s+"
    fields = re.split(marks["sep"], first)
    width = len(fields) - (not fields[-1].strip())  # the line may end by a separator
    named = bool({*re.findall(r"[^\W\d]+", first.lower())} - {"e", "nan", "inf"})
    heading = fields[:width] if named else re.split(rf"{marks['sep']}|\s+", remark)
    names = [word.strip().strip("\"'/").lower() for word in heading]
    known = {"x", "y"} <= {*names}
    if not named and (len(names) != width or not known):
        names, known = [], False  # the remark says something else
    chosen = list(range(width))
    if columns is not None:
        chosen = pick(names, width, columns)
    elif known:
        chosen = [names.index(name) for name in "xyz" if name in names]
    elif not named and spatial:
        chosen = chosen[:3]
    elif not named and width > 3:
        warn(f"{path.name}: all {width} columns are coordinates; choose others by columns")
    if columns is None and (left := width - len(chosen)):
        asked = ",".join(names[i] if names else str(i) for i in chosen)
        warn(f"{path.name}: columns {asked} are the coordinates, {left} others left out")
    read, order = np.unique(chosen, return_inverse=True)  # pandas keeps the order of the file
    marks |= {"comment": "#", "skiprows": skipped, "dtype": np.float64}
    own = read.tolist() if len(read) < len(fields) else None
    table = parsed(path, **marks, header=0 if named else None, usecols=own).to_numpy()
    if path.suffix.lower() == ".pwn":
        table = table[:announced]  # the normals follow
    if len(table) < (announced or 0):
        raise InputError(f"the file announces {announced} points and holds {len(table)}")
    return table[:, order]


def pick(names: Sequence[str], width: int, columns: str | Sequence[int | str]) -> list[int]:
    """Positions of the columns that were asked for: names, or numbers from 0."""
    known, found = {name: place for place, name in reversed([*enumerate(names)])}, []
    for column in columns.split(",") if isinstance(columns, str) else columns:
        word = str(column).strip()
        number = int(word) if word.isdecimal() else width
        found.append(known.get(word, known.get(word.lower(), number)))
        if found[-1] >= width:
            shown = ", ".join(names[:12]) + ", ..." * (len(names) > 12) or f"0 to {width - 1}"
            raise InputError(f"it has no column {word!r}, there are {shown}{near(word, names)}")
    return found


def separators(path: Path, line: str) -> dict[str, Any]:
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
        raise InputError("its rows have more columns than its first line names: name all of them")
    return frame
