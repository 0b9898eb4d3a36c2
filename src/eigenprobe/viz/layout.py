"""How a figure is laid out: sizes in inches, tight grids of images, one typeface, files written whole."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..host.files import atomic_path
from . import colours
from .page import Path
from .scene import Array

FAINT = "#5b6470"
AXIS = "#9aa1a9"
FAMILIES = ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")


class Picture(Figure):
    """A figure that a notebook draws although no one has set up matplotlib there."""

    def _repr_png_(self) -> bytes:
        self.savefig(drawn := io.BytesIO(), format="png", dpi=110)
        return drawn.getvalue()


def new_figure(width: float, height: float) -> Figure:
    return Picture(figsize=(width, height), facecolor="white")


def finish(figure: Figure, path: Path | None) -> Figure:
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    # Only installed families are named: matplotlib warns about each one that it cannot find.
    installed = set(fontManager.get_font_names())
    family = [name for name in FAMILIES if name in installed]
    hidden = {id(axis) for axes in figure.axes if not axes.axison for axis in (axes.xaxis, axes.yaxis)}
    parts = [
        part for axes in figure.axes for part in axes.get_children() if id(part) not in hidden
    ]  # making ticks is slow
    for text in (text for part in (*figure.texts, *figure.legends, *parts) for text in part.findobj(Text)):
        assert isinstance(text, Text)
        text.set_fontfamily(family)
        if text.get_color() == "black":
            text.set_color(colours.INK)
    if path is not None:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=200)
    return figure


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Any:
    """Axes at a place given in inches from the lower left corner."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def text_at(figure: Figure, x: float, y: float, words: str, size: float, **style: Any) -> None:
    """Text at a place given in inches."""
    across, up = figure.get_size_inches()
    figure.text(x / across, y / up, words, fontsize=size, **style)


def grid(
    images: Sequence[Array],
    titles: Sequence[str],
    per_row: int,
    *,
    panel: float = 1.9,
    row_labels: Sequence[str] = (),
    notes: Sequence[str] = (),
    bar: str = "",
) -> Figure:
    """Images (h, w, 4) on a tight grid with small titles; `notes` go under them, `bar` is said beside a colour bar."""
    rows = -(-len(images) // per_row)
    aspect = max(image.shape[0] for image in images) / max(image.shape[1] for image in images)
    width = panel if aspect < 1.3 else panel * 1.3 / aspect
    height = width * aspect
    label, foot = (0.32 if row_labels else 0.0), (0.5 if bar else 0.06)
    heads = [0.26 if any(titles[r * per_row : (r + 1) * per_row]) else 0.06 for r in range(rows)]
    feet = [0.2 if any(notes[r * per_row : (r + 1) * per_row]) else 0.0 for r in range(rows)]
    tall = rows * height + sum(heads) + sum(feet) + foot
    figure = new_figure(across := label + per_row * width, tall)
    sheet = axes_at(figure, 0, 0, across, tall)  # one for all images, in inches: axes of their own take longer to make
    sheet.set_axis_off()
    for index, image in enumerate(images):
        row, column = divmod(index, per_row)
        left = label + column * width
        bottom = tall - (row + 1) * height - sum(heads[: row + 1]) - sum(feet[:row])
        middle, centre = left + width / 2, bottom + height / 2
        h, w = np.multiply(image.shape[:2], min(0.96 * height / image.shape[0], 0.94 * width / image.shape[1]) / 2)
        sheet.imshow(image, extent=(middle - w, middle + w, centre - h, centre + h), interpolation="antialiased")
        if index < len(titles):
            text_at(figure, middle, bottom + height + 0.06, titles[index], 9, ha="center", va="bottom")
        if index < len(notes):
            text_at(figure, middle, bottom - 0.02, notes[index], 8, ha="center", va="top", color=FAINT)
        if column == 0 and row < len(row_labels):
            centred = {"ha": "center", "va": "center"}
            text_at(figure, 0.16, centre, row_labels[row], 9.5, rotation=90, **centred)
    sheet.set(xlim=(0, across), ylim=(0, tall), aspect="auto")
    if bar:
        _signed_bar(figure, bar)
    return figure


def _signed_bar(figure: Figure, words: str) -> None:
    across = float(figure.get_size_inches()[0])
    length = min(2.2, 0.5 * across)
    axes = axes_at(figure, (across - length) / 2, 0.24, length, 0.085)
    axes.imshow(colours.DIVERGING[None], aspect="auto", extent=(-1, 1, 0, 1))
    axes.set_yticks([])
    axes.set_xticks([-1, 0, 1], ["\N{MINUS SIGN}max", "0", "max"], fontsize=7.5)
    axes.tick_params(length=0, pad=2)
    bare(axes)
    text_at(figure, (across + length) / 2 + 0.12, 0.28, words, 7.5, va="center", color=FAINT)


def bare(axes: Any) -> None:
    """No frame."""
    for spine in axes.spines.values():
        spine.set_visible(False)


def tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(AXIS)
    axes.tick_params(labelsize=8, length=2.5, color=AXIS)
    axes.xaxis.label.set_size(9)
    axes.yaxis.label.set_size(9)
