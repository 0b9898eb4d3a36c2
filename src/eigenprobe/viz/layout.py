"""How a figure is laid out: sizes in inches, tight grids of images, one typeface, files written whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..files import atomic_path
from . import colours
from .scene import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Path = str | os.PathLike[str]
FAINT = "#5b6470"
AXIS = "#9aa1a9"


def new_figure(width: float, height: float) -> Figure:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def finish(figure: Figure, path: Path | None) -> Figure:
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    # Only installed families are named: matplotlib warns about each one that it cannot find.
    installed = set(fontManager.get_font_names())
    family = [
        name for name in ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans") if name in installed
    ]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontfamily(family)
        if text.get_color() == "black":
            text.set_color(colours.INK)
    if path is not None:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=200)
    return figure


def grid(
    images: Sequence[Array],
    titles: Sequence[str],
    per_row: int,
    *,
    panel: float = 1.9,
    row_labels: Sequence[str] = (),
    notes: Sequence[str] = (),
    bar: str | None = None,
) -> Figure:
    """Images (h, w, 4) on a tight grid with small titles; `notes` go under them, `bar` is said beside a colour bar."""
    rows = -(-len(images) // per_row)
    aspect = max(image.shape[0] for image in images) / max(image.shape[1] for image in images)
    width = panel if aspect < 1.3 else panel * 1.3 / aspect
    height = width * aspect
    label, foot = (0.32 if row_labels else 0.0), (0.5 if bar else 0.06)
    heads = [0.26 if any(titles[r * per_row : (r + 1) * per_row]) else 0.06 for r in range(rows)]
    feet = [0.2 if any(notes[r * per_row : (r + 1) * per_row]) else 0.0 for r in range(rows)]
    total = (label + per_row * width, rows * height + sum(heads) + sum(feet) + foot)
    figure = new_figure(*total)
    for index, image in enumerate(images):
        row, column = divmod(index, per_row)
        left = label + column * width
        bottom = total[1] - (row + 1) * height - sum(heads[: row + 1]) - sum(feet[:row])
        box = (left + 0.03 * width, bottom + 0.02 * height, 0.94 * width, 0.96 * height)
        axes = figure.add_axes((box[0] / total[0], box[1] / total[1], box[2] / total[0], box[3] / total[1]))
        axes.imshow(image, interpolation="antialiased")
        axes.set_axis_off()
        middle = (left + width / 2) / total[0]
        if index < len(titles):
            figure.text(
                middle, (bottom + height + 0.06) / total[1], titles[index], ha="center", va="bottom", fontsize=9
            )
        if index < len(notes):
            figure.text(
                middle, (bottom - 0.02) / total[1], notes[index], ha="center", va="top", fontsize=8, color=FAINT
            )
        if column == 0 and row < len(row_labels):
            y = (bottom + height / 2) / total[1]
            figure.text(0.16 / total[0], y, row_labels[row], rotation=90, ha="center", va="center", fontsize=9.5)
    if bar:
        _signed_bar(figure, total, bar)
    return figure


def _signed_bar(figure: Figure, total: tuple[float, float], text: str) -> None:
    length = min(2.2, 0.5 * total[0])
    axes = figure.add_axes(((total[0] - length) / 2 / total[0], 0.24 / total[1], length / total[0], 0.085 / total[1]))
    axes.imshow(colours.DIVERGING[None], aspect="auto", extent=(-1, 1, 0, 1))
    axes.set_yticks([])
    axes.set_xticks([-1, 0, 1], ["\N{MINUS SIGN}max", "0", "max"], fontsize=7.5)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.text(
        ((total[0] + length) / 2 + 0.12) / total[0], 0.28 / total[1], text, fontsize=7.5, va="center", color=FAINT
    )


def tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(AXIS)
    axes.tick_params(labelsize=8, length=2.5, color=AXIS)
    axes.xaxis.label.set_size(9)
    axes.yaxis.label.set_size(9)
