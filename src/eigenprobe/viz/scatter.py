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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from ..host.files import Facts, reading, write_text
from ..host.tables import say
from ..io.mesh import to_numpy
from . import colours
from .colours import Names, classes, find_groups
from .page import PathLike, page, ramp, raw, thinning_note
from .scene import Array, thin

Payload = dict[str, Any]  # what the page gets
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
TILE, SHEET = 64, 8192  # pixels of a picture of a row, and of all of them together


def write_scatter(path: PathLike, *given: Any, **options: Any) -> None:
    """Write the page of `scatter_page` to a file, whole or not at all.

    Parameters
    ----------
    path
        An html file.
    given, options
        Of `scatter_page`.

    Examples
    --------
    >>> import tempfile
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_scatter(f"{folder}/map.html", x, x[:, 0] > 0, title="left and right")
    """
    write_text(path, scatter_page(*given, **options))


def scatter_page(
    embedding: Any,
    labels: ArrayLike | None = None,
    names: Names | None = None,
    title: str = "eigenprobe",
    *,
    layout: ArrayLike | None = None,
    new: ArrayLike | None = None,
    new_layout: ArrayLike | None = None,
    values: Mapping[str, ArrayLike] | None = None,
    eigenvalues: ArrayLike | None = None,
    facts: Facts | None = None,
    texts: Sequence[str] | None = None,
    images: PathLike | Sequence[Any] | None = None,
    limit: int = 200_000,
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
        Where the points are drawn, ``(n, 2)`` or ``(n, 3)``. Without it those of an `Eigenmaps` are
        on its map, and others at their coordinates, which are a second view in any case.
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
    limit
        The most rows that are drawn.

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
        if layout is None and model.basis_.n == len(embedding):
            layout = model.layout_
    x = _matrix(embedding, "embedding")
    n, k = x.shape
    keep = thin(n, limit)
    columns = min(k, max(10, 1_000_000 // len(keep)))
    drawn = None if layout is None else _matrix(layout, "layout", n)[keep]
    places = x[keep] if drawn is None else drawn
    if isinstance(images, str | os.PathLike):
        images = image_files(images)
    for what, listed in (("texts", texts), ("images", images)):
        if listed is not None and len(listed) != n:
            raise InputError(f"expected {n} {what}, got {len(listed)}")
    if texts is not None:
        texts = [str(texts[row]) for row in keep]
    columns_by = ({} if labels is None else {"label": labels}) | dict(values or {})
    colourings = []
    for name, column in columns_by.items():
        if (each := to_numpy(column, None)).shape != (n,):
            what = "labels" if name == "label" else name
            raise InputError(f"{what} must have shape ({n},), got {each.shape}")
        colourings.append(_colouring(name, each[keep], names if name == "label" else None, places))
    if not colourings and (found := find_groups(places, texts)) is not None:
        own = _colouring("group", found.labels, found.names, places)
        colourings.append(own | {"typical": found.typical})
    note, placed = thinning_note(len(keep), n), None
    if new is not None:
        fresh = _matrix(new, "new", columns=k)
        shown, at = thin(len(fresh), limit), None
        if new_layout is not None:
            at = _matrix(new_layout, "new_layout", len(fresh))[shown]
        placed = _places(fresh[shown], at, columns)
        note = f"{note} {say(len(fresh))} new rows.".strip()
    payload: Payload = {
        "rows": keep.tolist() if len(keep) < n else None,
        "title": title,
        "sequential": ramp(colours.SEQUENTIAL),
        "colourings": colourings,
        "texts": texts,
        "images": None if images is None else _sheet([images[row] for row in keep]),
        "eigenvalues": None if eigenvalues is None else to_numpy(eigenvalues).tolist(),
        "new": placed,
        **_places(x[keep], drawn, columns),
    }
    return page("scatter", payload, title, f"{say(n)} rows, {k} coordinates", note, facts)


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


def image_files(folder: PathLike) -> list[Path]:
    """The pictures in a folder, in the order of their names."""
    inside = sorted(Path(folder).iterdir())
    return [each for each in inside if each.suffix.lower() in PICTURES]


def _sheet(images: Sequence[Any]) -> Payload:
    """Small pictures of the rows as tiles of one large one, as large as browsers show it."""
    from PIL import Image, ImageOps

    across = math.isqrt(len(images) - 1) + 1
    side = min(TILE, SHEET // across)
    sheet = Image.new("RGB", (across * side, -(-len(images) // across) * side), "white")
    for place, image in enumerate(images):
        if isinstance(image, str | os.PathLike):
            with reading(image, "an image"):
                picture = Image.open(image).convert("RGB")
        else:
            shades = to_numpy(image) / max(to_numpy(image).max(), 1e-30)
            picture = Image.fromarray((255 * shades.clip(0)).astype(np.uint8)).convert("RGB")
        tile = ImageOps.pad(picture, (side, side), color="white")
        sheet.paste(tile, (place % across * side, place // across * side))
    sheet.save(packed := io.BytesIO(), "JPEG", quality=85)
    data = base64.b64encode(packed.getvalue()).decode()
    return {"sheet": data, "side": side, "across": across}


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
