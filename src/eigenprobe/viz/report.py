"""One HTML file that shows a basis, or two side by side, and needs nothing but a browser.

What is stored for each shape with n shown points and K vectors, gzipped and base64 encoded:

    positions (n, 3) int16 in units of the radius;  vectors (K, n) int16, each scaled by its own
    maximum;  mass (n,) int16;  faces (f, 3) uint32;  C = V^T M X (K, 3), for the page to make
    X' = V g(lambda) C

The page computes the rest itself (reconstructions and filters, heat kernels and distances from a
point). The shape is drawn by `assets/scene.js`, the charts by the plotly.js that the plotly package
carries. At 10,000 points and 50 vectors the file is about 3 MB, half of it plotly.js.
"""

import html
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..basis import Basis
from ..errors import InputError
from ..evaluation import compare as compare_bases
from ..host.files import Facts, write_text
from ..host.tables import say
from ..io.mesh import to_numpy
from . import colours
from .page import PathLike, page, ramp, raw, thinning_note
from .scene import (
    Array,
    Index,
    as_faces,
    ball_radius,
    basis_points,
    look_at,
    surface_triangles,
    thin,
)

Payload = dict[str, Any]  # what the page gets
Values = Mapping[str, ArrayLike] | ArrayLike | None
Source = Basis | str | os.PathLike[str]  # a basis, a file, or a method by its name
METHODS = ("direct", "network", "pretrained", "oracle")
DISPLAY_LIMIT = 20_000


def open_basis(source: Source, k: int = 50, like: Basis | None = None) -> tuple[Basis, str]:
    """A basis and its name, from a basis, a saved one, a shape file that is decomposed first, or
    the name of a method for the points of another basis.
    """
    if isinstance(source, Basis):
        return source, str(source.info.get("method", "basis"))
    from ..decomposition import decompose

    if source in METHODS and isinstance(source, str) and like is not None:
        if source != "oracle":
            return decompose(like.points, k, method=source), source  # type: ignore[call-overload]
        from ..geometry import oracle

        if like.faces is None:
            raise InputError("the oracle needs a mesh, got a cloud")
        return oracle(like.points, like.faces, k), source
    path = Path(source)
    if path.suffix == ".safetensors":
        return Basis.load(path), path.parent.name if path.stem == "basis" else path.stem
    return decompose(path, k), path.stem


class Options(TypedDict, total=False):
    """What is shown, and how."""

    compare: Source | None
    title: str
    facts: Facts | None
    faces: ArrayLike | None
    reconstruction: bool
    up: str
    limit: int
    values: Values


def write_report(
    path: PathLike, basis: Basis, points: ArrayLike | None = None, **options: Unpack[Options]
) -> None:
    """Write the report of a basis: the shape to turn, its eigenfunctions, spectrum, mass and
    reconstruction, and facts.

    The estimate that a basis has of its own error (made here, where it can be) is drawn as bars on
    its spectrum, and vectors are as pale as they are not reproducible.

    Parameters
    ----------
    path
        The HTML file.
    basis
        What is shown.
    points
        ``(n, d)``, by default the basis' own.
    faces
        ``(f, 3)`` draw a surface instead of a cloud.
    compare
        Shown beside it: another `Basis`, a saved one, or "direct", "network", "pretrained",
        "oracle" (on a mesh) for the same points by that method.
    title, facts
        What stands above the page, and names and values in a table below. ``warnings`` among the
        facts are shown above the shape.
    reconstruction
        Whether coordinates are rebuilt from the vectors.
    up
        The axis that points upwards: "x", "y", "z" or "auto".
    limit
        More points are thinned, for display only: every number on the page comes from all of them.
    values
        Functions ``(n,)`` of your own to show on the shape: by their names, or one.

    Examples
    --------
    >>> import tempfile
    >>> from eigenprobe import decompose
    >>> ball = np.random.default_rng(0).normal(size=(300, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/ball.html", decompose(ball, k=4), title="a ball")
    """
    if basis.source is not None:
        with suppress(InputError):  # where half of the points have no such operator
            _ = basis.uncertainty
    write_text(path, report_page(basis, points, **options))


def report_page(
    basis: Basis,
    points: ArrayLike | None = None,
    *,
    compare: Source | None = None,
    title: str = "eigenprobe",
    facts: Facts | None = None,
    live: Facts | None = None,
    bare: bool = False,
    numbers: Sequence[int] | None = None,
    **look: Any,
) -> str:
    """The text of the report. A `live` one talks to the server that it comes from, which computes
    another basis by these settings of `decompose`; a `bare` one is the scene without charts and
    facts; `numbers` are those of the vectors in the basis they were chosen from.
    """
    points, _ = basis_points(basis, points)
    shapes = [_shape(basis, points, **look)]
    shapes[0]["numbers"] = numbers
    if compare is not None:
        faces = look.get("faces")
        other, name = open_basis(compare, basis.k, replace(basis, points=points, faces=faces))
        look |= {"faces": other.faces if faces is None else faces, "values": None}
        same = other.n == basis.n
        shapes.append(_shape(other, points if same else None, **look) | {"name": name})
        shapes[0]["name"] = str(basis.info.get("method") or "basis")
        if same:
            pairs = compare_bases(basis, other).cross
            shapes[1] |= {
                "cosines": np.abs(np.diag(pairs)).tolist(),
                "signs": np.where(np.diag(pairs) < 0, -1, 1).tolist(),
                "correlation": np.abs(pairs).round(3).tolist(),
            }
    d = to_numpy(points).shape[1]
    note = thinning_note(shapes[0]["n"], basis.n, "; all numbers are from all points.")
    if d > 3:
        note = f"Drawn in the first three principal components. {note}".strip()
    maps = {name: ramp(table) for name, table in colours.MAPS.items()}
    payload = {"shapes": shapes, "maps": maps, "title": title, "again": live}
    subtitle = f"{say(basis.n)} points in {d} dimensions, {basis.k} eigenfunctions"
    return page("report", payload, title, subtitle, note, facts, bare)


@dataclass(frozen=True)
class InteractiveScene:
    """A page of its own in the frame of a cell, so that nothing of the notebook disturbs it."""

    page: str
    height: int = 560

    def _repr_html_(self) -> str:
        frame = f'style="width:100%;height:{self.height}px;border:0" title="eigenprobe"'
        return f'<iframe {frame} srcdoc="{html.escape(self.page)}"></iframe>'


def interactive_scene(
    basis: Basis,
    *,
    columns: int | Sequence[int] | None = None,
    faces: ArrayLike | None = None,
    limit: int = DISPLAY_LIMIT,
) -> InteractiveScene:
    """The report's own scene for a notebook, with a slider over the chosen columns."""
    from .figures import chosen_columns

    some = chosen_columns(to_numpy(basis.vectors), columns)
    picked = replace(
        basis, normalized=basis.normalized[:, some], eigenvalues=basis.eigenvalues[some]
    )
    numbers = (some + 1).tolist()
    shown: Any = {"faces": faces, "limit": limit, "reconstruction": False}
    return InteractiveScene(report_page(picked, bare=True, numbers=numbers, **shown))


def _shape(
    basis: Basis,
    points: ArrayLike | None,
    *,
    faces: ArrayLike | None = None,
    reconstruction: bool = True,
    up: str = "auto",
    limit: int = DISPLAY_LIMIT,
    values: Values = None,
) -> Payload:
    points, xyz = basis_points(basis, points)
    vectors, mass = to_numpy(basis.vectors), to_numpy(basis.mass)
    camera = look_at(xyz, up=up)
    unit = (xyz - camera.centre) / camera.radius
    rows = thin(basis.n, limit)
    # A mesh that is thinned is drawn as the surface of its points.
    triangles = as_faces(faces, basis.n) if len(rows) == basis.n else None
    mesh = triangles is not None
    if not mesh:  # outliers, which have no mass, are no part of the surface
        held = np.flatnonzero(mass[rows])
        solid = basis.info.get("dimension") == 3
        found = None if solid else surface_triangles(unit[rows[held]])
        triangles = None if found is None else held[found]
    share = mass * len(mass)
    counts, edges = np.histogram(share, bins=40, range=colours.robust_range(share))
    scales = np.maximum(np.abs(vectors[rows]).max(0), 1e-30)
    if values is not None and not isinstance(values, Mapping):
        values = {"values": values}
    own = {name: to_numpy(given) for name, given in (values or {}).items()}
    for name, given in own.items():
        if given.shape != (basis.n,):
            raise InputError(f"{name} must have shape ({basis.n},), got {given.shape}")
    made: Payload = {
        "n": len(rows),
        "k": basis.k,
        "name": "",
        "turn": camera.rotation.ravel().tolist(),
        "positions": raw(unit[rows] * 32767, "<i2"),
        "rows": rows.tolist() if len(rows) < basis.n else None,
        "mesh": mesh,
        "faces": None if triangles is None else raw(triangles, "<u4"),
        "radius": float(np.clip(ball_radius(unit[rows]), 0.006, 0.2)),
        "own": [{"name": name, **_function(given, rows)} for name, given in own.items()] or None,
        "eigenvalues": np.nan_to_num(to_numpy(basis.eigenvalues)).tolist(),
        "vectors": raw((vectors[rows] / scales * 32767).T, "<i2"),
        "scales": scales.tolist(),
        "limits": [colours.symmetric_limit(column) for column in vectors.T],
        "mass": _function(share, rows),
        "massHistogram": [((edges[1:] + edges[:-1]) / 2).tolist(), counts.tolist()],
    }
    if (error := vars(basis).get("uncertainty")) is not None:
        made["uncertainty"] = {name: each.tolist() for name, each in vars(error).items()}
    cut = to_numpy([] if basis.short_cuts is None else basis.short_cuts, np.int64)
    if len(cut):  # how many at each shown point, and those with both ends shown
        place = np.full(basis.n, -1)
        place[rows] = np.arange(len(rows))
        shown = place[cut][(place[cut] >= 0).all(1)]
        made["cuts"] = np.bincount(cut.ravel(), minlength=basis.n)[rows].tolist()
        made |= {"cutEdges": len(cut), "cutLines": raw(shown, "<u4")}
    if reconstruction:
        # (K, 3), of coordinates in units of the radius;  |X - V_k C_k|_M^2 = |X|_M^2 - |C_k|^2
        coefficients = vectors.T @ (mass[:, None] * unit)
        left = (mass @ unit**2).sum() - np.cumsum((coefficients**2).sum(1))
        made["coefficients"] = coefficients.tolist()
        made["errors"] = (100 * np.sqrt(left.clip(1e-22))).tolist()
    return made


def _function(values: Array, rows: Index) -> Payload:
    """A function (n,) at the shown rows, with the range of all."""
    scale = float(np.nanmax(np.abs(values))) or 1.0
    data = raw(np.nan_to_num(values[rows]) / scale * 32767, "<i2")
    return {"data": data, "scale": scale, "range": colours.robust_range(values)}
