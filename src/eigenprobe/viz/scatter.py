"""A map of embeddings as one HTML file: rows as points, to search, colour, mark and save.

What is stored for n shown rows: spectral coordinates (n, k) and the layout (n, 2 or 3), both float32; one or more
colourings, each of them names with a code per row, or numbers on a ramp; a text per row. Many classes get their hues
along a tree of their centres, so that near classes have near hues and different lightness:

    order = optimal leaf order of Ward's tree of the centres (c, 2 or 3);  hue = 360 * place / c, lightness in turns

Groups of a map without labels: k-means, with as many groups as separate best, and their typical rows.

    x (n, k) -> labels (n,), the largest group first;  s(c) = mean silhouette of c groups on a sample of rows
    typical rows of a group = those nearest to its centre

Where there is a map they are those of the map: its groups do not depend on how many coordinates were asked for (digits:
10 groups on the map, 12 to 20 in 8 to 50 coordinates).
"""

from __future__ import annotations

import html
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import EigenprobeWarning, InputError
from ..host.files import Facts, write_text
from ..host.tables import say
from ..readers.mesh import to_numpy
from . import colours
from .page import Path, page, ramp, raw, thinning_note
from .scene import Array, thin

Shown = dict[str, Any]  # what the page gets
Names = Mapping[Any, str] | Sequence[str]
FEW = len(colours.OKABE_ITO)
FEW_ROWS = 30  # up to which coordinates are drawn as they are


def write_scatter(
    path: Path,
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
    limit: int = 50_000,
    columns: int | None = None,
) -> None:
    """Write a page with an embedding (n, k) as a map: search, colours, neighbours, marking rows and saving them.

    `embedding` is an array, or a fitted `OptimalApproximationEigenmaps`, whose coordinates, eigenvalues and map are
    taken. `layout` (n, 2) or (n, 3) is where the points are drawn; ``"auto"`` makes a map of the coordinates, None
    draws the coordinates themselves, which are a second view in any case: any of the first `columns` (as many as keep
    the page small) are the axes, and neighbours of a clicked point are nearest in these. `labels` (n,) are classes (or
    numbers, then on a ramp); without them and without `values` the map shows groups found on it by k-means, each with
    its most typical rows. `names` turns a label into words (a mapping, or a sequence indexed by an integer label).
    `values` maps names to further columns (n,) to colour by; `texts` (n,) are shown on hover instead of the row number.
    `new` (m, k) and `new_layout` (m, 2 or 3) are rows placed later, drawn apart. More than `limit` points are thinned.
    """
    if hasattr(model := embedding, "embedding_"):
        embedding, eigenvalues = model.embedding_, model.eigenvalues_ if eigenvalues is None else eigenvalues
        if isinstance(layout, str) and model.basis_.n == len(embedding):
            layout = model.layout_
    x = _plain(embedding, "embedding")
    n, k = x.shape
    if texts is not None and len(texts) != n:
        raise InputError(f"expected {n} texts, got {len(texts)}")
    keep = thin(n, limit)
    columns = min(k, columns or max(10, 1_000_000 // len(keep)))
    drawn = _map_of(x[keep]) if isinstance(layout, str) else None
    if layout is not None and not isinstance(layout, str):
        drawn = _plain(layout, "layout", n)[keep]
    payload: Shown = {
        "rows": keep.tolist() if len(keep) < n else None,
        "title": title,
        "sequential": ramp(colours.SEQUENTIAL),
        **_places(x[keep], drawn, columns),
    }
    given = ({} if labels is None else {"label": labels}) | dict(values or {})
    centred = x[keep, :2] if drawn is None else drawn
    words = {"label": names}
    payload["colourings"] = [_colouring(name, c, words.get(name), centred, keep, n) for name, c in given.items()]
    if not given and (found := find_groups(x[keep] if drawn is None else drawn)) is not None:
        payload["colourings"] = [_grouped(found, texts, keep)]
    if texts is not None:
        payload["texts"] = [html.escape(str(texts[i])) for i in keep]
    if eigenvalues is not None:
        payload["eigenvalues"] = np.nan_to_num(to_numpy(eigenvalues)).tolist()
    note = thinning_note(len(keep), n)
    if new is not None:
        placed = _plain(new, "new", columns=k)
        at = None if new_layout is None else _plain(new_layout, "new_layout", len(placed))
        shown = thin(len(placed), limit)
        payload["new"] = _places(placed[shown], None if at is None else at[shown], columns)
        note = f"{note} {say(len(placed))} new rows.".strip()
    write_text(path, page("scatter", payload, title, f"{say(n)} rows, {k} coordinates", note, facts))


def _plain(value: ArrayLike, what: str, rows: int | None = None, columns: int | None = None) -> Array:
    x = to_numpy(value)
    if x.ndim != 2 or not len(x) or rows not in (None, len(x)) or columns not in (None, x.shape[1]):
        raise InputError(f"{what} must have shape ({rows or 'n'}, {columns or 'k'}) with n > 0, got {x.shape}")
    if rows is not None and x.shape[1] not in (2, 3):
        raise InputError(f"{what} must have two or three columns, got {x.shape[1]}")
    return np.nan_to_num(x)


def _map_of(x: Array) -> Array | None:
    """A map (n, 2) of the coordinates (n, k); none of a plane, which is its own map, nor of a handful of rows."""
    from ..estimators import OptimalApproximationEigenmaps

    n, k = x.shape
    if k < 3 or n <= max(FEW_ROWS, k):
        return None
    options: Any = {"metric": "euclidean", "coordinates": "sphere", "max_samples": n, "random_state": 0}
    model = OptimalApproximationEigenmaps(k, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EigenprobeWarning)  # separate parts are no fault of a map
        return model.fit(x).layout_


def _grouped(found: Groups, texts: Sequence[str] | None, keep: NDArray[np.int64]) -> Shown:
    """Groups as a colouring; where rows have texts a group is called by the text of its most typical row."""
    names = [f"group {group + 1}" for group in range(len(found.typical))]
    if texts is not None:
        names = [f"{name}: {texts[keep[rows[0]]]}" for name, rows in zip(names, found.typical, strict=True)]
    palette = colours.hexadecimal(colours.categorical(len(names), ordered=True))
    codes = raw(found.labels, "<u2")
    return {"name": "group", "classes": names, "codes": codes, "colours": palette, "typical": found.typical}


def _places(x: Array, layout: Array | None, columns: int) -> Shown:
    if x.shape[1] == 1:
        x = np.column_stack([x, np.zeros(len(x))])
    shown = x[:, :columns]
    places = {"n": len(x), "k": shown.shape[1], "coordinates": raw(shown, "<f4"), "layout": None, "across": 0}
    return places if layout is None else places | {"layout": raw(layout, "<f4"), "across": layout.shape[1]}


def _colouring(
    name: str, column: ArrayLike, names: Names | None, places: Array, keep: NDArray[np.int64], n: int
) -> Shown:
    values = to_numpy(column, None)
    if values.shape != (n,):
        raise InputError(f"{name if name != 'label' else 'labels'} must have shape ({n},), got {values.shape}")
    if values.dtype.kind == "f" and len(np.unique(values)) > FEW and names is None:
        low, high = colours.robust_range(values)
        return {"name": name, "values": raw(np.nan_to_num(values[keep], nan=low), "<f4"), "range": [low, high]}
    classes, codes = _classes(values, names)
    codes = codes[keep]
    order = np.arange(len(classes))
    if len(classes) > FEW:
        from scipy.cluster.hierarchy import leaves_list, linkage

        middle = np.median(places, axis=0)  # of a class that thinning has left without a point
        centres = np.stack([np.median(places[codes == c], axis=0) if (codes == c).any() else middle for c in order])
        order = leaves_list(linkage(centres, "ward", optimal_ordering=len(centres) <= 1000))
        codes, classes = np.argsort(order)[codes], [classes[c] for c in order]
    palette = colours.hexadecimal(colours.categorical(len(classes), ordered=True))
    return {"name": name, "classes": classes, "codes": raw(codes, "<u2"), "colours": palette}


def _classes(values: NDArray[Any], names: Names | None) -> tuple[list[str], NDArray[np.int64]]:
    unique, codes = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)
    if len(unique) > 65_535:
        raise InputError(f"at most 65535 different labels can be drawn, got {len(unique)}")
    words = names if isinstance(names, Mapping) else dict(enumerate(names or ()))
    return [str(words.get(label, label)) for label in unique.tolist()], codes


COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)  # numbers of groups that are compared
SAMPLE = 3000  # rows that are enough to compare them
TYPICAL = 3  # rows that stand for a group


class Groups(NamedTuple):
    """A group per row (n,), and the rows nearest to the centre of every group."""

    labels: NDArray[np.int64]
    typical: list[list[int]]


def find_groups(x: Array) -> Groups | None:
    """Groups of the rows of ``x (n, k)``; None where there are too few rows to speak of groups."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import silhouette_score

    if len(np.unique(x, axis=0)) <= 2 * COUNTS[0]:
        return None
    rows = x[np.random.default_rng(0).permutation(len(x))[:SAMPLE]]
    most = len(np.unique(rows, axis=0)) // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than groups: another count is better
        fits = [KMeans(count, n_init=4, random_state=0).fit(rows) for count in COUNTS if count <= most]
    best = max(fits, key=lambda fit: silhouette_score(rows, fit.labels_))
    found = best.predict(x)
    order = np.argsort(-np.bincount(found, minlength=best.n_clusters), kind="stable")
    place = np.argsort(order)
    centres, labels = best.cluster_centers_[order], place[found]
    typical = []
    for group, centre in enumerate(centres):
        members = np.flatnonzero(labels == group)
        typical.append(members[np.argsort(((x[members] - centre) ** 2).sum(1), kind="stable")[:TYPICAL]].tolist())
    return Groups(labels, typical)
