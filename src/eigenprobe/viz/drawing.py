"""Shapes as triangles that matplotlib draws with a colour at every corner, the farthest first, and
figures of them: one style, tight grids of shapes, files written whole.

A surface is drawn by its faces, or by those between neighbours of a sampled one
(`scene.surface_triangles`). Points of other clouds are balls. The light is that of the report's
page (`assets/scene.js`).
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

import numpy as np
import trimesh
from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import TriMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import Triangulation
from numpy.typing import ArrayLike

from ..errors import InputError
from ..host.files import atomic_path
from .colours import Array
from .page import ASSETS, PathLike
from .scene import Index, as_faces, ball_radius, display_coordinates, look_at, surface_triangles

KEY = np.array([-0.421, 0.608, 0.673])
FILL = np.array([0.704, 0.100, 0.704])
DOTS = 200  # pixels of an inch
FAINT = "#5b6470"
STYLE = rc_params_from_file(str(ASSETS / "figures.mplstyle"), use_default_template=False)


@dataclass(frozen=True)
class Drawing:
    """A shape before its camera, ready for any number of colourings."""

    places: Array  # (m, 2), of corners on the screen
    triangles: Index  # (t, 3), the nearest last
    light: Array  # (m,)
    owner: Index  # (m,), the point that a corner belongs to
    window: Array  # (2, 2), lower left and upper right

    def draw(self, axes: Axes, colours: Array) -> None:
        """With the colours (n, 3) of its points."""
        x, y = self.places.T
        shown = TriMesh(Triangulation(x, y, self.triangles), rasterized=True)
        lit: Any = np.clip(colours[self.owner] * self.light[:, None], 0, 1)
        shown.set_facecolor(lit)
        axes.add_collection(shown)
        (left, low), (right, high) = self.window
        axes.set(xlim=(left, right), ylim=(low, high), aspect="equal")


def drawing(
    points: ArrayLike,
    *,
    faces: ArrayLike | None = None,
    like: ArrayLike | None = None,
    azimuth: float | None = None,
    elevation: float = 12.0,
    up: str = "auto",
) -> Drawing:
    """A shape, seen and scaled as points ``like`` (m, d) would be; angles in degrees."""
    xyz = display_coordinates(points)
    seen = xyz if like is None else display_coordinates(like)
    camera = look_at(seen, azimuth=azimuth, elevation=elevation, up=up)
    owner, triangles = np.arange(len(xyz)), as_faces(faces, len(xyz))
    if triangles is None:
        triangles = surface_triangles(xyz)
    if triangles is not None:
        crosses = trimesh.triangles.cross(xyz[triangles])
        normals = trimesh.geometry.mean_vertex_normals(len(xyz), triangles, crosses)
    else:  # balls
        ball = trimesh.creation.icosphere(0)
        near = ball.faces[ball.face_normals @ camera.rotation[2] > 0]
        radius = np.clip(ball_radius(xyz), 0.006 * camera.radius, 0.2 * camera.radius)
        triangles = (len(ball.vertices) * owner[:, None, None] + near).reshape(-1, 3)
        normals = np.tile(ball.vertices, (len(xyz), 1))
        owner = np.repeat(owner, len(ball.vertices))
        xyz = xyz[owner] + radius * normals
    places, depth = camera.project(xyz)
    nearest_last = triangles[np.argsort(depth[triangles].mean(1), kind="stable")]
    light = _light(normals @ camera.rotation.T, depth)
    edge = places if like is None else camera.project(seen)[0]
    middle = (edge.min(0) + edge.max(0)) / 2
    reach = 1.01 * np.maximum(np.ptp(edge, axis=0) / 2, 0.01)
    return Drawing(places, nearest_last, light, owner, np.stack([middle - reach, middle + reach]))


def _light(normals: Array, depth: Array) -> Array:
    """Two-sided key and fill light for normals (m, 3) in camera coordinates (x right, y up, z to
    the eye), darker behind and towards the outline.
    """
    unit = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    facing = unit * np.where(unit[:, 2:] < 0, -1.0, 1.0)
    lamps = 0.50 + 0.44 * np.clip(facing @ KEY, 0, 1) + 0.12 * np.clip(facing @ FILL, 0, 1)
    near, frontal = np.clip((depth + 1) / 1.4, 0, 1), np.clip(facing[:, 2] / 0.45, 0, 1)
    return lamps * (0.86 + 0.14 * near) * (0.72 + 0.28 * frontal)


Picture = tuple[Drawing, Array]  # a shape, and the colours (n, 3) of its points


class StyledFigure(Figure):
    """A figure that keeps its style, and that a notebook draws although no one has set up
    matplotlib there.
    """

    def draw(self, renderer: Any) -> None:
        with rc_context(STYLE):  # ticks are made when they are drawn
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        self.savefig(drawn := io.BytesIO(), format="png", dpi=110)
        return drawn.getvalue()


@contextmanager
def canvas(
    width: float, height: float, path: PathLike | None = None, layout: Any = None
) -> Iterator[Figure]:
    """A new figure to draw on inside of the block, at the end of which it is written to `path`, if
    there is one.
    """
    with rc_context(STYLE):
        figure = StyledFigure(figsize=(width, height), layout=layout)
        known = figure.canvas.get_supported_filetypes()
        if path is not None and PurePath(path).suffix.lower()[1:] not in known:
            raise InputError(f"a picture is written as {', '.join(known)}, got {str(path)!r}")
        yield figure
        if path is not None:
            with atomic_path(path) as temporary:
                figure.savefig(temporary, dpi=DOTS)


def grid(
    pictures: Sequence[Picture],
    titles: Sequence[str],
    per_row: int,
    path: PathLike | None,
    *,
    size: int,
    row_labels: Sequence[str] = (),
    notes: Sequence[str] = (),
    scale: tuple[ScalarMappable, str] | None = None,
) -> Figure:
    """Shapes in the colours of their points on a tight grid with small titles, `size` pixels each;
    `notes` go under them, a colour bar with its label below.
    """
    rows = -(-len(pictures) // per_row)
    extents = np.array([np.ptp(shape.window, axis=0) for shape, _ in pictures])
    across, up = (extents / extents.max(1, keepdims=True)).max(0)
    width = min(1, 1.3 * across / up) * size / DOTS
    heads = 0.26 * min(rows, -(-len(titles) // per_row)) + 0.22 * any(notes) * rows
    wide = per_row * width + 0.3 * bool(row_labels)
    tall = rows * width * up / across + heads + (0.6 if scale else 0.06)
    with canvas(wide, tall, path, layout="compressed") as figure:
        bare = {"xticks": [], "yticks": [], "frameon": False}
        axes = figure.subplots(rows, per_row, squeeze=False, subplot_kw=bare)
        for place, picture, title, note in zip_longest(axes.flat, pictures, titles, notes):
            if picture is not None:
                picture[0].draw(place, picture[1])
                place.set_title(title or "", pad=3, size=min(9, 126 * width / len(title or " ")))
                place.set_xlabel(note or "", fontsize=8, color=FAINT, labelpad=2)
        for place, words in zip(axes[:, 0], row_labels, strict=False):
            place.set_ylabel(words, fontsize=9.5)
        if scale:
            shown: dict[str, Any] = {"location": "bottom", "shrink": 0.5, "aspect": 25}
            bar = figure.colorbar(scale[0], ax=axes, ticks=MaxNLocator(4), format="%g", **shown)
            bar.ax.tick_params(labelsize=7.5)
            bar.set_label(scale[1], fontsize=7.5, color=FAINT)
            bar.outline.set_visible(False)  # type: ignore[operator]
    return figure
