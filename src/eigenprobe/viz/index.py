"""The index of a folder of results: one page with a picture, a link, figures and warnings of every
file, and ``summary.csv``.

    rows: file -> status (done, failed), link, reason, warnings, numbers     summary.csv
    folder/thumbnails/<name>.png        one picture per file, written as it is done

A run that goes on keeps the rows of an earlier one, which it reads from ``summary.csv``.
"""

import csv
import html
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numpy.typing import ArrayLike

from ..host.files import write_text
from ..host.tables import Record, Row, table_rows, write_csv
from .page import asset, banner, fill_template, in_words

SIDE = 180  # pixels of a thumbnail
HIDDEN = ("file", "status", "link", "reason", "warnings")  # columns that are not figures


@dataclass
class Index:
    """What a command has done in ``folder``, by the name of the file."""

    folder: Path
    title: str
    rows: dict[str, Record] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, title: str) -> "Index":
        """With the rows that an earlier run has left there."""
        index = cls(folder, title)
        with suppress(FileNotFoundError), (folder / "summary.csv").open(newline="") as file:
            index.rows = {row["file"]: dict(row) for row in csv.DictReader(file) if "file" in row}
        return index

    def done(self, file: Path, link: Path, warnings: Sequence[str] = (), **figures: Any) -> None:
        """A file that was done: ``link`` is what to open, ``figures`` the numbers of its row."""
        row = {"file": str(file), "status": "done", "warnings": "; ".join(warnings)}
        self.rows[str(file)] = row | {"link": link.relative_to(self.folder).as_posix()} | figures

    def failed(self, reasons: Mapping[Any, str]) -> None:
        """Files that could not be used, and why."""
        for file, reason in reasons.items():
            self.rows[str(file)] = {"file": str(file), "status": "failed", "reason": reason}

    def thumbnail(
        self, link: Path, points: ArrayLike, values: ArrayLike, faces: ArrayLike | None = None
    ) -> None:
        """A small picture of values (n,) on the shape whose result is ``link``."""
        from .figures import gallery

        path = self.folder / _picture(link.relative_to(self.folder))
        gallery([(points, faces)], path=path, values=[values], size=SIDE)

    def write(self) -> list[tuple[Path, str]]:
        """``index.html`` and ``summary.csv``, and what they are for."""
        rows = sorted(self.rows.values(), key=lambda row: (row["status"] != "failed", row["file"]))
        lost = sum(row["status"] == "failed" for row in rows)
        warned = sum(bool(row.get("warnings")) for row in rows)
        count = f"{len(rows) - lost} files done"
        count += f", {lost} failed" * bool(lost) + f", {warned} with warnings" * bool(warned)
        folders = [Path(file).absolute().parent for file in self.rows] or [Path()]
        above = os.path.commonpath(folders)
        parts = {
            "TITLE": html.escape(self.title),
            "STYLE": asset("style.css"),
            "COUNT": count,
            "CARDS": "\n".join(self._card(row, above) for row in rows),
        }
        write_csv(table := self.folder / "summary.csv", rows)
        write_text(page := self.folder / "index.html", fill_template(asset("index.html"), parts))
        return [(page, "open in any browser"), (table, "for a spreadsheet")]

    def _card(self, row: Row, above: str) -> str:
        name = html.escape(os.path.relpath(row["file"], above))
        head = f'<h2 title="{html.escape(row["file"])}">{name}</h2>'
        if why := html.escape(row.get("reason") or ""):
            return f'<section class="card failed">{head}<p class="note">{why}</p></section>'
        if (self.folder / (picture := _picture(Path(row["link"])))).is_file():
            address = quote(picture.as_posix())
            head = f'<img src="{address}" alt="an eigenvector" loading="lazy">{head}'
        warned = banner(filter(None, (row.get("warnings") or "").split("; ")))
        shown = {key: each for key, each in row.items() if key not in HIDDEN and each != ""}
        figures = {key: _number(each) for key, each in shown.items()}
        target = html.escape(quote(row["link"]))
        return f'''<section class="card"><a href="{target}">{head}</a>{warned}
<table>{table_rows(in_words(figures))}</table></section>'''


def _picture(link: Path) -> Path:
    """Where the picture of a result lies: what is opened, or a thumbnail with the name of that or
    of its folder.
    """
    if link.suffix == ".png":
        return link
    own = link.parent if link.stem in ("report", "basis") else link.with_suffix("")
    return Path("thumbnails", "__".join(own.parts) + ".png")


def _number(value: Any) -> Any:
    """The number that a text is, if it is one."""
    with suppress(TypeError, ValueError):
        return int(number) if (number := float(value)).is_integer() else number
    return value
