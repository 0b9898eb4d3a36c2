"""How every page is made: one HTML file that needs nothing but a browser.

Numbers travel as little-endian bytes in base64, all of them in one gzipped JSON. `assets/page.html`
is the frame, `assets/page.js` and `assets/style.css` are shared by all pages, and a `kind` adds its
own body and scripts.

The index of a folder of results is one page with a picture, a link, figures and warnings of every
file, and ``summary.csv``, from which a run that goes on keeps the rows of an earlier one:

    rows: file -> status (done, failed), link, reason, warnings, numbers     summary.csv
    folder/thumbnails/<name>.png        one picture per file, written as it is done
"""

import base64
import gzip
import html
import json
import os
import re
import sys
import webbrowser
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from matplotlib.colors import Colormap
from numpy.typing import NDArray

from ..basis import Basis
from ..host.files import Facts, write_text
from ..host.tables import Record, Row, say, table_rows, write_csv

PathLike = str | os.PathLike[str]
ASSETS = files(__package__) / "assets"
WORDS = {
    "strays": "outliers",
    "stray_share": "share of outliers",
    "short_cuts": "edges cut",
    "resolution": "points in the sample",
    "thickness": "noise",
    "copies": "points per place",
    "cleaned": "noise removed",
    "dimension_votes": "share by dimension",
    "left_out": "points in small parts",
}
ROWS = ("strays", "left_out", "boundary", "rows")  # facts that list rows
SIDE = 180  # pixels of a thumbnail
HIDDEN = ("file", "status", "link", "reason", "warnings")  # columns that are not figures
SCRIPTS = {"report": ("page.js", "scene.js", "report.js"), "scatter": ("page.js", "scatter.js")}


def asset(name: str) -> str:
    """The text of a file of `assets`."""
    return (ASSETS / name).read_text(encoding="utf-8")


def _pack(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _pack(get_plotlyjs())


def raw(values: NDArray[Any], dtype: str) -> str:
    """Little-endian bytes in base64; rounding and clipping to the integer range of `dtype`."""
    target = np.dtype(dtype)
    if target.kind in "iu":
        info = np.iinfo(target)
        values = np.clip(np.rint(values), info.min, info.max)
    return base64.b64encode(np.ascontiguousarray(values, dtype=target).tobytes()).decode()


def ramp(colours: Colormap) -> str:
    """A colour map as the bytes of 257 colours."""
    return raw(colours(np.linspace(0, 1, 257))[:, :3] * 255, "u1")


def thinning_note(shown: int, n: int, rest: str = ".") -> str:
    """The note under a picture that does not show all points."""
    return "" if shown == n else f"Shown with {say(shown)} of {say(n)} points{rest}"


def in_words(facts: Mapping[str, Any]) -> Facts:
    """Facts in words in place of their keys, and numbers in place of lists of rows; those of a
    mapping inside are among them.
    """
    words: Facts = {}
    for key, value in facts.items():
        counted = len(value) if key in ROWS else value
        words |= value if isinstance(value, Mapping) else {key: counted}
    return {WORDS.get(key, key.replace("_", " ")): value for key, value in words.items()}


def banner(warnings: Iterable[str]) -> str:
    """Warnings in words above a page; nothing without any."""
    items = "".join(f"<li>{html.escape(str(each))}</li>" for each in warnings)
    return f'<ul class="warnings" role="alert">{items}</ul>' if items else ""


def page(
    kind: str,
    payload: Facts,
    title: str,
    subtitle: str,
    note: str,
    facts: Facts | None,
    bare: bool = False,
) -> str:
    """Fill `assets/page.html`; `kind` names the body and the scripts of its own, `bare` leaves out
    all charts.

    ``warnings`` among the facts are a banner of their own.
    """
    # json.dumps(allow_nan=False): a NaN would make the page fail to parse, far from its cause.
    packed = _pack(json.dumps(payload, separators=(",", ":"), allow_nan=False))
    shown = dict(facts or {})
    warned = shown.pop("warnings", ())
    table = f"<h2>Facts</h2><table>{table_rows(in_words(shown))}</table>"
    inside = {
        "FACTS": f'<section class="card facts">{table}</section>' if shown else "",
        "BAR": asset("bar.html"),
        "NOTE": f'<p class="note">{html.escape(note)}</p>' if note else "",
    }
    parts = {
        "TITLE": html.escape(title),
        "SUBTITLE": html.escape(subtitle),
        "WARNINGS": banner(warned),
        "STYLE": asset("style.css"),
        "SCRIPT": "\n".join(asset(name) for name in SCRIPTS[kind]),
        "BODY": fill_template(asset(f"{kind}.html"), inside),
        "PAYLOAD": packed,
        "PLOTLY": "" if bare else _plotly(),
        "CLASS": "bare" if bare else "",
    }
    return fill_template(asset("page.html"), parts)


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """The template with its marks ``@@KEY@@`` replaced, in one pass: a mark in a title or a fact is
    left as it is.
    """
    return re.sub("@@([A-Z]+)@@", lambda mark: parts[mark[1]], template)


def open_browser(address: str) -> bool:
    """Open a page where a person sits, at a terminal with a screen; whether a browser was asked."""
    screen = (
        sys.platform in ("darwin", "win32")
        or os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
    )
    return bool(screen) and sys.stdout.isatty() and webbrowser.open(address)


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
