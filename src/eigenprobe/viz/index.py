"""The index of a folder of results: one page with a picture, a link and figures of every file, and ``summary.csv``.

    rows: file -> status (done, failed), link, numbers, reason       summary.csv
    folder/thumbnails/<name>.png                                     one picture per file, written as it is done

A run that goes on keeps the rows of an earlier one, which it reads from ``summary.csv``.
"""

import csv
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..host.files import atomic_path, write_text
from ..host.tables import write_csv
from .page import say, stylesheet

SIDE = 180  # pixels of a thumbnail
HIDDEN = ("file", "status", "link", "reason")  # columns that are not figures


@dataclass
class Index:
    """What a command has done in ``folder``, by the name of the file."""

    folder: Path
    title: str
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, title: str) -> "Index":
        """With the rows that an earlier run has left there."""
        rows: dict[str, dict[str, Any]] = {}
        if (known := folder / "summary.csv").is_file():
            with known.open(newline="", encoding="utf-8") as file:
                rows = {row["file"]: dict(row) for row in csv.DictReader(file) if "file" in row}
        return cls(folder, title, rows)

    def done(self, file: Path, link: Path, **figures: Any) -> None:
        """A file that was done: ``link`` is what to open, ``figures`` the numbers of its row."""
        place = link.relative_to(self.folder).as_posix()
        self.rows[str(file)] = {"file": str(file), "status": "done", **figures, "link": place, "reason": ""}

    def failed(self, reasons: Mapping[Any, str]) -> None:
        """Files that could not be used, and why."""
        for file, reason in reasons.items():
            self.rows[str(file)] = {"file": str(file), "status": "failed", "reason": reason}

    def thumbnail(self, link: Path, points: Any, values: Any, faces: Any = None) -> None:
        """A small picture of values (n,) on the shape whose result is ``link``."""
        from matplotlib.image import imsave

        from .figures import small_picture

        with atomic_path(self._picture(_stem(link.relative_to(self.folder)))) as temporary:
            imsave(temporary, small_picture(points, values, faces, SIDE))

    def write(self) -> tuple[Path, Path]:
        """``index.html`` and ``summary.csv``."""
        rows = sorted(self.rows.values(), key=lambda row: (row["status"] != "failed", row["file"]))
        write_csv(table := self.folder / "summary.csv", [_ordered(row) for row in rows])
        write_text(page := self.folder / "index.html", self._page(rows))
        return page, table

    def _picture(self, name: Path) -> Path:
        return self.folder / "thumbnails" / f"{name.as_posix().replace('/', '__')}.png"

    def _page(self, rows: list[dict[str, Any]]) -> str:
        lost = sum(row["status"] == "failed" for row in rows)
        count = f"{len(rows) - lost} files done" + (f", {lost} failed" if lost else "")
        title = html.escape(self.title)
        cards = "\n".join(self._card(row) for row in rows)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
            f'<style>{stylesheet()}</style></head><body class="index"><header><h1>{title}</h1><p>{count} · '
            f'<a href="summary.csv">summary.csv</a></p></header>\n<main class="grid">\n{cards}\n</main></body></html>\n'
        )

    def _card(self, row: Mapping[str, Any]) -> str:
        name, whole = html.escape(Path(row["file"]).name), html.escape(row["file"])
        if row["status"] == "failed":
            why = html.escape(row["reason"])
            return f'<section class="card failed"><h2 title="{whole}">{name}</h2><p class="note">{why}</p></section>'
        link = Path(row["link"])
        name = html.escape((_stem(link).parent / Path(row["file"]).name).as_posix())  # with the sub-folder it came from
        picture = self.folder / link if link.suffix == ".png" else self._picture(_stem(link))
        shown = ""
        if picture.is_file():
            address = quote(picture.relative_to(self.folder).as_posix())
            shown = f'<img src="{address}" alt="an eigenvector on {name}" loading="lazy">'
        figures = {key: value for key, value in row.items() if key not in HIDDEN and value not in (None, "")}
        cells = "".join(
            f"<tr><td>{html.escape(key.replace('_', ' '))}</td><td>{_said(value)}</td></tr>"
            for key, value in figures.items()
        )
        target = html.escape(quote(link.as_posix()))
        title = f'<a href="{target}">{shown}<h2 title="{whole}">{name}</h2></a>'
        return f'<section class="card">{title}<table>{cells}</table></section>'


def _stem(link: Path) -> Path:
    """The name under which a result lies: its folder, or its file without endings."""
    whole = link.suffix == ".html" or link.name == "basis.safetensors"
    return link.parent if whole else link.with_name(link.name.partition(".")[0])


def _ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    figures = [name for name in row if name not in HIDDEN]
    return {name: row.get(name, "") for name in ("file", "status", *figures, "link", "reason")}


def _said(value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return html.escape(str(value))
    return html.escape(say(int(number) if number.is_integer() else number))
