"""The index of a folder of results: one page with a picture, a link, figures and warnings of every
file, and ``summary.csv``.

    rows: file -> status (done, failed), link, reason, warnings, numbers     summary.csv
    folder/thumbnails/<name>.png        one picture per file, written as it is done

A run that goes on keeps the rows of an earlier one, which it reads from ``summary.csv``.
"""

import html
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ..basis import Basis
from ..host.files import write_text
from ..host.tables import Record, Row, table_rows, write_csv
from .page import asset, banner, fill_template, in_words

SIDE = 180  # pixels of a thumbnail
HIDDEN = ("file", "status", "link", "reason", "warnings")  # columns that are not figures


def row_of(folder: Path, file: Path, link: Path, basis: Basis) -> Record:
    """The row of a file that was done, ``link`` being what to open, with a small picture of its
    second vector.
    """
    from .figures import gallery

    row: Record = {"file": str(file), "status": "done"}
    row["warnings"] = "; ".join(basis.info["warnings"])
    row["link"] = link.relative_to(folder).as_posix()
    row |= {"points": basis.n, "vectors": basis.k}
    row["eigenvalue_2"] = float(basis.eigenvalues[second := min(1, basis.k - 1)])
    row["seconds"] = round(float(basis.info.get("seconds", 0.0)), 3)
    if basis.points is not None:
        held = basis.mass > (0 if basis.faces is None else -1)  # without outliers of a cloud
        shape, values = (basis.points[held], basis.faces), basis.vectors[held, second]
        gallery([shape], path=folder / _picture(row), values=[values], size=SIDE)
    return row


def write_index(
    folder: Path, title: str, done: Mapping[str, Record], failed: Mapping[Path, str]
) -> list[tuple[Path, str]]:
    """``index.html`` and ``summary.csv``, and what they are for; ``failed`` says why."""
    import pandas

    found: dict[str, Record] = {}
    with suppress(FileNotFoundError):
        table = pandas.read_csv(folder / "summary.csv").convert_dtypes()
        for row in table.to_dict("records"):
            found[row["file"]] = {k: each for k, each in row.items() if pandas.notna(each)}
    found |= done
    for file, why in failed.items():
        found[str(file)] = {"file": str(file), "status": "failed", "reason": why}
    rows = sorted(found.values(), key=lambda row: (row["status"] != "failed", row["file"]))
    lost = sum(row["status"] == "failed" for row in rows)
    warned = sum(bool(row.get("warnings")) for row in rows)
    count = f"{len(rows) - lost} files done"
    count += f", {lost} failed" * bool(lost) + f", {warned} with warnings" * bool(warned)
    above = os.path.commonpath([Path(file).absolute().parent for file in found] or [Path()])
    parts = {
        "TITLE": html.escape(title),
        "STYLE": asset("style.css"),
        "COUNT": count,
        "CARDS": "\n".join(_card(folder, row, above) for row in rows),
    }
    write_csv(table_file := folder / "summary.csv", rows)
    write_text(page := folder / "index.html", fill_template(asset("index.html"), parts))
    return [(page, "open in any browser"), (table_file, "for a spreadsheet")]


def _card(folder: Path, row: Row, above: str) -> str:
    name = html.escape(os.path.relpath(row["file"], above))
    head = f'<h2 title="{html.escape(row["file"])}">{name}</h2>'
    if row["status"] == "failed":
        why = html.escape(row["reason"])
        return f'<section class="card failed">{head}<p class="note">{why}</p></section>'
    if (folder / (picture := _picture(row))).is_file():
        address = quote(picture.as_posix())
        head = f'<img src="{address}" alt="an eigenvector" loading="lazy">{head}'
    warned = banner(filter(None, row.get("warnings", "").split("; ")))
    figures = {key: each for key, each in row.items() if key not in HIDDEN}
    target = html.escape(quote(row["link"]))
    return f"""<section class="card"><a href="{target}">{head}</a>{warned}
<table>{table_rows(in_words(figures))}</table></section>"""


def _picture(row: Row) -> Path:
    """Where the picture of a result lies, with the name of what is opened, or of its folder."""
    link = Path(row["link"])
    own = link.parent if link.stem in ("report", "basis") else link.with_suffix("")
    return Path("thumbnails", "__".join(own.parts) + ".png")
