"""How a figure is laid out: one style, tight grids of shapes, files written whole."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

import numpy as np
from matplotlib import rc_context, rc_params_from_file
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import InputError
from ..host.files import atomic_path
from .colours import Array
from .drawing import Drawing
from .page import ASSETS, Path

Picture = tuple[Drawing, Array]  # a shape, and the colours (n, 3) of its points
DOTS = 200  # pixels of an inch
FAINT = "#5b6470"
AXIS = "#9aa1a9"
STYLE = rc_params_from_file(str(ASSETS / "figures.mplstyle"), use_default_template=False)


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
    width: float, height: float, path: Path | None = None, layout: Any = None
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
    path: Path | None,
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
