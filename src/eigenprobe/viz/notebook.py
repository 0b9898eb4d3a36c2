"""What a notebook shows: a basis to turn with the mouse, and tables in place of plain text.

Shapes: points (n, d), vectors (n, K), faces (f, 3) or None. A page of a notebook carries every number that is drawn, so
more than ``LIMIT`` points are thinned.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..host.tables import html_table
from ..readers.mesh import to_numpy
from . import colours
from .scene import as_faces, display_coordinates, display_rows

LIMIT = 20_000
SHOWN = 6  # eigenvalues in a table


def interactive_figure(
    points: Any,
    vectors: Any,
    *,
    columns: int | Sequence[int] | None = None,
    eigenvalues: Any = None,
    faces: Any = None,
    limit: int = LIMIT,
) -> Any:
    """A plotly Figure: the shape to turn, and a slider over eigenfunctions, each scaled by itself."""
    from plotly import graph_objects

    from .figures import chosen_columns  # which loads matplotlib

    xyz, v = display_coordinates(points), to_numpy(vectors)
    if v.ndim != 2 or len(v) != len(xyz):
        raise InputError(f"vectors must have shape ({len(xyz)}, K), got {v.shape}")
    chosen, titles = chosen_columns(v, columns, eigenvalues)
    rows, triangles = display_rows(xyz, as_faces(faces, len(xyz)), limit)
    values = [np.round(np.clip(v[rows, c] / colours.symmetric_limit(v[rows, c]), -1, 1), 4) for c in chosen]
    x, y, z = np.round(xyz[rows].T, 5)
    ramp = [
        [float(t), f"rgb({r},{g},{b})"]
        for t, (r, g, b) in zip(np.linspace(0, 1, 17), (colours.DIVERGING[::16] * 255).astype(int), strict=True)
    ]
    tint: dict[str, Any] = {"colorscale": ramp, "cmin": -1, "cmax": 1}
    if triangles is None:
        marker = {"color": values[0], "size": 3, **tint}
        shape: Any = graph_objects.Scatter3d(x=x, y=y, z=z, mode="markers", marker=marker, hoverinfo="skip")
        key = "marker.color"
    else:
        i, j, k = triangles.T
        mesh = {"intensity": values[0], "showscale": False, "hoverinfo": "skip", **tint}
        shape, key = graph_objects.Mesh3d(x=x, y=y, z=z, i=i, j=j, k=k, **mesh), "intensity"
    steps = [
        {"method": "restyle", "label": title, "args": [{key: [each]}]}
        for title, each in zip(titles, values, strict=True)
    ]
    figure = graph_objects.Figure(shape)
    hidden = {axis: {"visible": False} for axis in ("xaxis", "yaxis", "zaxis")}
    margin = {"l": 0, "r": 0, "t": 0, "b": 0}
    figure.update_layout(scene={"aspectmode": "data", **hidden}, sliders=[{"steps": steps}], margin=margin)
    return figure


def basis_html(basis: Any) -> str:
    """The facts of a basis and its first eigenvalues as a table."""
    values = to_numpy(basis.eigenvalues)
    listed = ", ".join(f"{value:.4g}" for value in values[:SHOWN].clip(0)) + (", ..." if basis.k > SHOWN else "")
    facts = {"points": basis.n, "vectors": basis.k, "eigenvalues": listed}
    if basis.points is not None:
        facts["points"] = f"{basis.n} in {basis.points.shape[1]} dimensions"
    plain = {name: value for name, value in basis.info.items() if isinstance(value, str | int | float)}
    return html_table("Basis", facts | plain)
