"""A map of embeddings as one HTML file: rows as points, to search, colour, mark and save.

What is stored for n shown rows: spectral coordinates (n, k) and the layout (n, 2 or 3), both float32; one or more
colourings, each of them names with a code per row, or numbers on a ramp; a text per row. Many classes get their hues
along a tree of their centres, so that near classes have near hues and different lightness:

    order = optimal leaf order of Ward's tree of the centres (c, 2 or 3);  hue = 360 * place / c, lightness in turns
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..readers.mesh import to_numpy
from . import colours
from .page import Path, page, ramp, raw, say, thinned, write_page
from .scene import Array, thin

Names = Mapping[Any, str] | Sequence[str]
FEW = len(colours.OKABE_ITO)


def write_scatter(
    path: Path,
    embedding: Any,
    labels: Any = None,
    names: Names | None = None,
    title: str = "eigenprobe",
    *,
    layout: Any = None,
    new: Any = None,
    new_layout: Any = None,
    values: Mapping[str, Any] | None = None,
    eigenvalues: Any = None,
    facts: Mapping[str, Any] | None = None,
    texts: Sequence[str] | None = None,
    limit: int = 50_000,
    columns: int | None = None,
) -> None:
    """Write a page with an embedding (n, k) as a map: search, colours, neighbours, marking rows and saving them.

    `layout` (n, 2) or (n, 3) is where the points are drawn; without it, and on demand, any of the first `columns`
    coordinates (as many as keep the page small) are the axes; neighbours of a clicked point are nearest in these.
    `labels` (n,) are classes (or numbers, then on a ramp); `names` turns a label into words (a mapping, or a sequence
    indexed by an integer label). `values` maps names to further columns (n,) to colour by; `texts` (n,) are shown on
    hover instead of the row number. `new` (m, k) and `new_layout` (m, 2 or 3) are rows placed later, drawn apart. More
    than `limit` points are thinned.
    """
    x = _plain(embedding, "embedding")
    n, k = x.shape
    keep = thin(n, limit)
    columns = min(k, columns or max(10, 1_000_000 // len(keep)))
    drawn = None if layout is None else _plain(layout, "layout", n)
    payload: dict[str, Any] = {
        "rows": keep.tolist() if len(keep) < n else None,
        "title": title,
        "sequential": ramp(colours.SEQUENTIAL),
        **_places(x[keep], None if drawn is None else drawn[keep], columns),
    }
    given = ({} if labels is None else {"label": labels}) | dict(values or {})
    centred = x[:, :2] if drawn is None else drawn
    payload["colourings"] = [
        _colouring(name, column, names if name == "label" else None, centred, keep) for name, column in given.items()
    ]
    if texts is not None:
        if len(texts) != n:
            raise InputError(f"expected {n} texts, got {len(texts)}")
        payload["texts"] = [html.escape(str(texts[i])) for i in keep]
    if eigenvalues is not None:
        payload["eigenvalues"] = np.nan_to_num(to_numpy(eigenvalues)).tolist()
    note = thinned(len(keep), n)
    if new is not None:
        placed = _plain(new, "new", columns=k)
        at = None if new_layout is None else _plain(new_layout, "new_layout", len(placed))
        shown = thin(len(placed), limit)
        payload["new"] = _places(placed[shown], None if at is None else at[shown], columns)
        note = f"{note} {say(len(placed))} new rows.".strip()
    write_page(path, page("scatter", payload, title, f"{say(n)} points, {k} coordinates", note, facts))


def _plain(value: Any, what: str, rows: int | None = None, columns: int | None = None) -> Array:
    x = to_numpy(value)
    if x.ndim != 2 or not len(x) or rows not in (None, len(x)) or columns not in (None, x.shape[1]):
        raise InputError(f"{what} must have shape ({rows or 'n'}, {columns or 'k'}) with n > 0, got {x.shape}")
    if rows is not None and x.shape[1] not in (2, 3):
        raise InputError(f"{what} must have two or three columns, got {x.shape[1]}")
    return np.nan_to_num(x)


def _places(x: Array, layout: Array | None, columns: int) -> dict[str, Any]:
    if x.shape[1] == 1:
        x = np.column_stack([x, np.zeros(len(x))])
    shown = x[:, :columns]
    places = {"n": len(x), "k": shown.shape[1], "coordinates": raw(shown, "<f4"), "layout": None, "across": 0}
    return places if layout is None else places | {"layout": raw(layout, "<f4"), "across": layout.shape[1]}


def _colouring(name: str, column: Any, names: Names | None, places: Array, keep: NDArray[np.int64]) -> dict[str, Any]:
    values, n = to_numpy(column, None), len(places)
    if values.shape != (n,):
        raise InputError(f"{name if name != 'label' else 'labels'} must have shape ({n},), got {values.shape}")
    if values.dtype.kind == "f" and len(np.unique(values)) > FEW and names is None:
        low, high = colours.robust_range(values)
        return {"name": name, "values": raw(np.nan_to_num(values[keep], nan=low), "<f4"), "range": [low, high]}
    classes, codes = _classes(values, names)
    order = np.arange(len(classes))
    if len(classes) > FEW:
        from scipy.cluster.hierarchy import leaves_list, linkage

        centres = np.stack([np.median(places[codes == c], axis=0) for c in order])
        order = leaves_list(linkage(centres, "ward", optimal_ordering=len(centres) <= 1000))
        codes, classes = np.argsort(order)[codes], [classes[c] for c in order]
    palette = colours.hexadecimal(colours.categorical(len(classes), ordered=True))
    return {"name": name, "classes": classes, "codes": raw(codes[keep], "<u2"), "colours": palette}


def _classes(values: NDArray[Any], names: Names | None) -> tuple[list[str], NDArray[np.int64]]:
    unique, codes = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)
    if len(unique) > 65_535:
        raise InputError(f"at most 65535 different labels can be drawn, got {len(unique)}")
    shown = []
    for label in unique.tolist():
        if isinstance(names, Mapping):
            shown.append(str(names.get(label, label)))
        elif names is not None and isinstance(label, int) and 0 <= label < len(names):
            shown.append(str(names[label]))
        else:
            shown.append(str(label))
    return shown, codes
