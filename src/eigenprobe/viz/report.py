"""One HTML file that shows a basis (or an embedding) and needs nothing but a browser.

What is stored for n shown points and K vectors, gzipped and base64 encoded:

    positions (n, 3) int16 in units of the radius;  vectors (K, n) int16, each scaled by its own maximum
    mass (n,) uint8;  faces (f, 3) uint16 or uint32;  C = V^T M X (K, 3), for the page to rebuild X_k = V_k C_k

The shape is drawn by `assets/scene.js`, the charts by the plotly.js that the plotly package carries. At 10,000 points
and 50 vectors the file is about 3 MB, half of it plotly.js.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import atomic_path
from . import colours
from .scene import Array, as_faces, basis_points, cloud_normals, few, look_at, splat_sizes, thin, to_numpy

Path = str | os.PathLike[str]
DISPLAY_LIMIT = 20_000
SCRIPTS = {"report": ("common.js", "scene.js", "report.js"), "scatter": ("common.js", "scatter.js")}


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _pack(text: str, level: int = 6) -> str:
    return base64.b64encode(gzip.compress(text.encode(), level, mtime=0)).decode()


@lru_cache(maxsize=1)
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _pack(get_plotlyjs(), 9)


def _raw(values: NDArray[Any], dtype: str) -> str:
    """Little-endian bytes in base64; rounding and clipping to the integer range of `dtype`."""
    target = np.dtype(dtype)
    if target.kind in "iu":
        info = np.iinfo(target)
        values = np.clip(np.rint(values), info.min, info.max)
    return base64.b64encode(np.ascontiguousarray(values, dtype=target).tobytes()).decode()


def _ramp(table: Array) -> str:
    return _raw(table * 255, "u1")


def _facts(facts: Mapping[str, Any] | None) -> str:
    if not facts:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(str(key))}</td><td>{html.escape(_say(value))}</td></tr>" for key, value in facts.items()
    )
    return f'<section class="card facts"><h2>Facts</h2><table>{rows}</table></section>'


def _say(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}".replace(",", "\N{THIN SPACE}")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_say(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_say(entry) for entry in value)
    return str(value)


def _write(
    path: Path,
    kind: str,
    title: str,
    subtitle: str,
    facts: Mapping[str, Any] | None,
    note: str,
    payload: Mapping[str, Any],
) -> None:
    """Fill `assets/page.html`; `kind` names the body and the script of its own."""
    # json.dumps(allow_nan=False): a NaN would make the page fail to parse, far from its cause.
    packed = _pack(json.dumps(payload, separators=(",", ":"), allow_nan=False))
    parts = {
        "TITLE": html.escape(title),
        "SUBTITLE": html.escape(subtitle),
        "STYLE": _asset("style.css"),
        "SCRIPT": "\n".join(_asset(name) for name in SCRIPTS[kind]),
        "BODY": _asset(f"{kind}.html").replace("@@FACTS@@", _facts(facts)),
        "NOTE": f'<p class="note">{html.escape(note)}</p>' if note else "",
        "PAYLOAD": packed,
        "PLOTLY": _plotly(),
    }
    page = _asset("page.html")
    for key, value in parts.items():
        page = page.replace(f"@@{key}@@", value)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def write_report(
    path: Path,
    basis: Any,
    points: Any = None,
    *,
    faces: Any = None,
    title: str = "eigenprobe",
    facts: Mapping[str, Any] | None = None,
    reconstruction: bool = True,
    up: str = "auto",
    limit: int = DISPLAY_LIMIT,
) -> None:
    """Write the report of a basis: the shape to turn, its eigenfunctions, spectrum, mass and reconstruction, and facts.

    `points` (n, d) default to the basis' own; `faces` (f, 3) draw a surface instead of a cloud. More than `limit`
    points are thinned for display only: every number on the page comes from all of them.
    """
    points, xyz = basis_points(basis, points, "a report")
    vectors, mass = to_numpy(basis.vectors), to_numpy(basis.mass)
    (n, k), d = vectors.shape, to_numpy(points).shape[1]
    camera = look_at(xyz, up=up)
    unit = (xyz - camera.centre) / camera.radius
    rows, triangles = few(unit, as_faces(faces, n), limit)
    payload: dict[str, Any] = {
        "n": len(rows),
        "k": k,
        "turn": camera.rotation.ravel().tolist(),
        "positions": _raw(unit[rows] * 32767, "<i2"),
        "faces": None if triangles is None else _raw(triangles, "<u2" if len(rows) < 65536 else "<u4"),
        "rows": rows.tolist() if len(rows) < n else None,
        **_functions(vectors, mass, rows),
        "eigenvalues": np.nan_to_num(to_numpy(basis.eigenvalues)).tolist(),
        "diverging": _ramp(colours.DIVERGING),
        "sequential": _ramp(colours.SEQUENTIAL),
    }
    if (cut := getattr(basis, "short_cuts", None)) is not None and len(cut):
        counts = np.bincount(to_numpy(cut, None).ravel(), minlength=n)
        payload |= {"cuts": counts[rows].tolist(), "cutEdges": len(cut)}
    if triangles is None:
        normals, spacing = cloud_normals(unit[rows])
        payload["normals"] = _raw(normals * 127, "i1")
        payload["sizes"] = _raw(np.clip(splat_sizes(normals, spacing), 0.006, 0.2) * 65535, "<u2")
    if reconstruction:
        coefficients = vectors.T @ (mass[:, None] * unit)  # (K, 3), of coordinates in units of the radius
        payload["coefficients"] = coefficients.tolist()
        payload["errors"] = _residuals(unit, vectors, mass, coefficients).tolist()
    note = _thinned(len(rows), n, "; all numbers are from all points.")
    if d > 3:
        note = ("Drawn in the first three principal components. " + note).strip()
    _write(path, "report", title, f"{_say(n)} points in {d} dimensions, {k} eigenfunctions", facts, note, payload)


def _thinned(shown: int, n: int, rest: str = ".") -> str:
    return "" if shown == n else f"Shown with {_say(shown)} of {_say(n)} points{rest}"


def _functions(vectors: Array, mass: Array, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Vectors and mass at the shown rows, with the ranges and the histogram of all."""
    share = mass * len(mass)
    low, high = colours.robust_range(share)
    counts, edges = np.histogram(share, bins=min(60, max(8, len(mass) // 20)), range=(low, high))
    shown = vectors[rows]
    scales = np.maximum(np.abs(shown).max(0), 1e-30)
    return {
        "vectors": _raw((shown / scales * 32767).T, "<i2"),
        "scales": scales.tolist(),
        "limits": [colours.symmetric_limit(column) for column in vectors.T],
        "mass": _raw((share[rows] - low) / (high - low) * 255, "u1"),
        "massRange": [low, high],
        "massHistogram": [((edges[1:] + edges[:-1]) / 2).tolist(), counts.tolist()],
    }


def _residuals(unit: Array, vectors: Array, mass: Array, coefficients: Array) -> Array:
    """100 * |X - V_k C_k|_M for k = 1..K, by subtraction: |X|^2 - |C_k|^2 would lose digits."""
    left, errors = unit.copy(), np.empty(vectors.shape[1])
    for j in range(vectors.shape[1]):
        left -= vectors[:, j, None] * coefficients[j]
        errors[j] = np.sqrt((mass[:, None] * left**2).sum())
    return 100 * np.maximum(errors, 1e-9)


def write_scatter(
    path: Path,
    embedding: Any,
    labels: Any = None,
    names: Mapping[Any, str] | Sequence[str] | None = None,
    title: str = "eigenprobe",
    *,
    eigenvalues: Any = None,
    facts: Mapping[str, Any] | None = None,
    texts: Sequence[str] | None = None,
    limit: int = 50_000,
    columns: int = 10,
) -> None:
    """Write a page with an embedding (n, k) as a scatter, its labels (n,) on hover and as colours.

    `names` turns a label into words (a mapping, or a sequence indexed by an integer label); `texts` (n,) are shown on
    hover instead of the row number. The first `columns` coordinates can be put on either axis.
    """
    x = to_numpy(embedding)
    if x.ndim != 2 or not len(x):
        raise InputError(f"embedding must have shape (n, k) with n > 0, got {x.shape}")
    n, k = x.shape
    if k == 1:
        x = np.column_stack([x, np.zeros(n)])
    keep = thin(n, limit)
    payload: dict[str, Any] = {
        "n": len(keep),
        "k": min(x.shape[1], columns),
        "rows": keep.tolist() if len(keep) < n else None,
        "coordinates": _raw(np.nan_to_num(x[keep, :columns]), "<f4"),
        "colours": [colours.OKABE_ITO[0]],
    }
    if labels is not None:
        classes, codes = _classes(labels, names, n)
        palette = colours.hexadecimal(colours.categorical(len(classes)))
        payload.update(classes=classes, codes=_raw(codes[keep], "<u2"), colours=palette)
    if texts is not None:
        if len(texts) != n:
            raise InputError(f"expected {n} texts, got {len(texts)}")
        payload["texts"] = [html.escape(str(texts[i])) for i in keep]
    if eigenvalues is not None:
        payload["eigenvalues"] = np.nan_to_num(to_numpy(eigenvalues)).tolist()
    subtitle = f"{_say(n)} points, {k} coordinates"
    _write(path, "scatter", title, subtitle, facts, _thinned(len(keep), n), payload)


def _classes(
    labels: Any, names: Mapping[Any, str] | Sequence[str] | None, n: int
) -> tuple[list[str], NDArray[np.int64]]:
    values = to_numpy(labels, None)
    if values.shape != (n,):
        raise InputError(f"labels must have shape ({n},), got {values.shape}")
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
