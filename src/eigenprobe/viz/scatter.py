"""A map of embeddings as one HTML file: rows as points, to search, colour, mark and save.

What is stored for n shown rows: spectral coordinates (n, k) and the layout (n, 2 or 3), both
float32; one or more colourings, each of them classes with a code per row, or numbers on a ramp; a
text per row. A map without labels shows the groups found on it (`classes.find_groups`): they do not
depend on how many coordinates were asked for.
"""

from __future__ import annotations

import base64
import io
import math
import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import EigenprobeWarning, InputError
from ..host.files import Facts, reading, write_text
from ..host.tables import say
from ..io.mesh import to_numpy
from . import colours
from .classes import Names, classes, find_groups
from .page import Path, page, ramp, raw, thinning_note
from .scene import Array, Index, thin

Payload = dict[str, Any]  # what the page gets
FEW_ROWS = 30  # up to which coordinates are drawn as they are
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
TILE, SHEET = 64, 8192  # pixels of a picture of a row, and of all of them together


def write_scatter(path: Path, *given: Any, **options: Any) -> None:
    """Write the page of `scatter_page` to a file, whole or not at all."""
    write_text(path, scatter_page(*given, **options))


def scatter_page(
    embedding: Any,
    labels: ArrayLike | None = None,
    names: Names | None = None,
    title: str = "eigenprobe",
    *,
    layout: Any = "auto",
    new: ArrayLike | None = None,
    new_layout: ArrayLike | None = None,
    values: Mapping[str, ArrayLike] | None = None,
    eigenvalues: ArrayLike | None = None,
    facts: Facts | None = None,
    texts: Sequence[str] | None = None,
    images: Path | Sequence[Any] | None = None,
    limit: int = 200_000,
    columns: int | None = None,
) -> str:
    """A page with an embedding as a map: search, colours, neighbours, a table with filters, marking
    rows and saving them.

    Parameters
    ----------
    embedding
        ``(n, k)``, or a fitted `Eigenmaps`, whose coordinates, eigenvalues and map are taken.
    labels
        Classes ``(n,)``, or numbers, then on a ramp. Without them and without ``values`` the map
        shows groups found on it by k-means, each with its most typical rows.
    names
        Words for the labels: a mapping, or a sequence indexed by an integer label.
    title, facts
        What stands above the page, and names and values in a table below; ``warnings`` among the
        facts are shown above the map.
    layout
        Where the points are drawn, ``(n, 2)`` or ``(n, 3)``. ``"auto"`` makes a map of the
        coordinates; None draws the coordinates themselves, which are a second view in any case.
    new, new_layout
        Rows placed later, ``(m, k)`` and ``(m, 2)`` or ``(m, 3)``, drawn apart.
    values
        Further columns ``(n,)`` to colour by, by their names.
    eigenvalues
        ``(k,)``, drawn as a spectrum.
    texts
        A text per row, shown on hover instead of the row number.
    images
        A picture per row, as files or arrays ``(h, w)`` or ``(h, w, 3)``, or a folder of files in
        the order of their names: shown on hover, in lists, and as points where one zooms in.
    limit, columns
        The most rows that are drawn, and the most coordinates that the page holds.

    Returns
    -------
    str
        HTML, which `write_scatter` writes to a file.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> page = scatter_page(x, x[:, 0] > 0, title="left and right")
    >>> "left and right" in page
    True
    """
    if hasattr(model := embedding, "embedding_"):
        embedding = model.embedding_
        eigenvalues = model.eigenvalues_ if eigenvalues is None else eigenvalues
        if isinstance(layout, str) and model.basis_.n == len(embedding):
            layout = model.layout_
    x = _matrix(embedding, "embedding")
    n, k = x.shape
    if texts is not None and len(texts) != n:
        raise InputError(f"expected {n} texts, got {len(texts)}")
    keep = thin(n, limit)
    columns = min(k, columns or max(10, 1_000_000 // len(keep)))
    drawn: Array | None = None
    if isinstance(layout, str):
        drawn = _layout_of(x[keep])
    elif layout is not None:
        drawn = _matrix(layout, "layout", n)[keep]
    places = x[keep] if drawn is None else drawn
    given = ({} if labels is None else {"label": labels}) | dict(values or {})
    colourings = []
    for name, column in given.items():
        if (each := to_numpy(column, None)).shape != (n,):
            what = "labels" if name == "label" else name
            raise InputError(f"{what} must have shape ({n},), got {each.shape}")
        words = names if name == "label" else None
        colourings.append(_colouring(name, each[keep], words, places))
    if not given and (found := find_groups(places)) is not None:
        words = [f"group {group + 1}" for group in range(len(found.typical))]
        if texts is not None:
            first = [texts[keep[rows[0]]] for rows in found.typical]
            words = [f"{group}: {text}" for group, text in zip(words, first, strict=True)]
        own = _colouring("group", found.labels, words, places)
        colourings.append(own | {"typical": found.typical})
    payload: Payload = {
        "rows": keep.tolist() if len(keep) < n else None,
        "title": title,
        "sequential": ramp(colours.SEQUENTIAL),
        "colourings": colourings,
        **_places(x[keep], drawn, columns),
    }
    if texts is not None:
        payload["texts"] = [str(texts[i]) for i in keep]
    if images is not None:
        listed = image_files(images) if isinstance(images, str | os.PathLike) else images
        if len(listed) != n:
            raise InputError(f"expected {n} images, got {len(listed)}")
        payload["images"] = _sheet(listed, keep)
    if eigenvalues is not None:
        payload["eigenvalues"] = np.nan_to_num(to_numpy(eigenvalues)).tolist()
    note = thinning_note(len(keep), n)
    if new is not None:
        placed = _matrix(new, "new", columns=k)
        at = None if new_layout is None else _matrix(new_layout, "new_layout", len(placed))
        shown = thin(len(placed), limit)
        payload["new"] = _places(placed[shown], None if at is None else at[shown], columns)
        note = f"{note} {say(len(placed))} new rows.".strip()
    subtitle = f"{say(n)} rows, {k} coordinates"
    return page("scatter", payload, title, subtitle, note, facts)


def _matrix(
    value: ArrayLike, what: str, rows: int | None = None, columns: int | None = None
) -> Array:
    x = to_numpy(value)
    if x.ndim != 2 or not len(x) or rows not in (None, len(x)) or columns not in (None, x.shape[1]):
        raise InputError(
            f"{what} must have shape ({rows or 'n'}, {columns or 'k'}) with n > 0, got {x.shape}"
        )
    if rows is not None and x.shape[1] not in (2, 3):
        raise InputError(f"{what} must have two or three columns, got {x.shape[1]}")
    return np.nan_to_num(x)


def _layout_of(x: Array) -> Array | None:
    """A map (n, 2) of the coordinates (n, k); none of a plane, which is its own map, nor of a
    handful of rows.
    """
    from ..manifold.eigenmaps import Eigenmaps

    n, k = x.shape
    if k < 3 or n <= max(FEW_ROWS, k):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EigenprobeWarning)  # separate parts are no fault of a map
        options: Any = {"metric": "euclidean", "coordinates": "sphere", "max_samples": n}
        return Eigenmaps(k, random_state=0, **options).fit(x).layout_


def image_files(folder: Path) -> list[pathlib.Path]:
    """The pictures in a folder, in the order of their names."""
    inside = sorted(pathlib.Path(folder).iterdir())
    return [each for each in inside if each.suffix.lower() in PICTURES]


def _sheet(images: Sequence[Any], rows: Index) -> Payload:
    """Small pictures of the rows as tiles of one large one, as large as browsers show it."""
    from PIL import Image, ImageOps

    across = math.isqrt(len(rows) - 1) + 1
    side = min(TILE, SHEET // across)
    sheet = Image.new("RGB", (across * side, -(-len(rows) // across) * side), "white")
    for place, row in enumerate(rows):
        if isinstance(images[row], str | os.PathLike):
            with reading(images[row], "an image"):
                picture = Image.open(images[row]).convert("RGB")
        else:
            values = to_numpy(images[row])
            shades = 255 * values / max(values.max(), 1e-30)
            picture = Image.fromarray(shades.clip(0, 255).astype(np.uint8)).convert("RGB")
        tile = ImageOps.pad(picture, (side, side), color="white")
        sheet.paste(tile, (place % across * side, place // across * side))
    sheet.save(packed := io.BytesIO(), "JPEG", quality=85)
    encoded = base64.b64encode(packed.getvalue()).decode()
    return {"sheet": encoded, "side": side, "across": across}


def _places(x: Array, layout: Array | None, columns: int) -> Payload:
    shown = np.pad(x, ((0, 0), (0, max(0, 2 - x.shape[1]))))[:, : max(2, columns)]
    return {
        "n": len(x),
        "k": shown.shape[1],
        "coordinates": raw(shown, "<f4"),
        "layout": None if layout is None else raw(layout, "<f4"),
        "across": 0 if layout is None else layout.shape[1],
    }


def _colouring(name: str, values: Any, names: Names | None, places: Array) -> Payload:
    few = values.dtype.kind != "f" or len(np.unique(values)) <= len(colours.OKABE_ITO)
    if few or names is not None:
        found = classes(values, names, places)
        codes = raw(found.codes, "<u2")
        return {"name": name, "classes": found.names, "codes": codes, "colours": found.colours}
    low, high = colours.robust_range(values)
    numbers = raw(np.nan_to_num(values, nan=low), "<f4")
    return {"name": name, "values": numbers, "range": [low, high]}
