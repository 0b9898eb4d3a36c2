"""How a figure is laid out: one style, sizes in inches, tight grids of images, files written whole."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ..host.files import atomic_path
from .colours import DIVERGING, INK, Array
from .page import Path

FAINT = "#5b6470"
AXIS = "#9aa1a9"
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), AXIS),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 8),
    **dict.fromkeys(("axes.labelsize", "axes.titlesize"), 9),
    "figure.facecolor": "white",
}


class Picture(Figure):
    """A figure that keeps its style, and that a notebook draws although no one has set up matplotlib there."""

    def draw(self, renderer: Any) -> None:
        with rc_context(STYLE):  # ticks are made when they are drawn
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        self.savefig(drawn := io.BytesIO(), format="png", dpi=110)
        return drawn.getvalue()


@contextmanager
def canvas(width: float, height: float, path: Path | None = None, layout: Any = None) -> Iterator[Figure]:
    """A new figure to draw on inside of the block, at the end of which it is written to `path`, if there is one."""
    with rc_context(STYLE):
        yield (figure := Picture(figsize=(width, height), layout=layout))
        if path is not None:
            with atomic_path(path) as temporary:
                figure.savefig(temporary, dpi=200)


def grid(
    images: Sequence[Array],
    titles: Sequence[str],
    per_row: int,
    path: Path | None,
    *,
    panel: float = 1.9,
    row_labels: Sequence[str] = (),
    notes: Sequence[str] = (),
    bar: str = "",
) -> Figure:
    """Images (h, w, 4) on a tight grid with small titles; `notes` go under them, `bar` is said beside a colour bar."""
    starts = range(0, len(images), per_row)
    aspect = max(image.shape[0] for image in images) / max(image.shape[1] for image in images)
    width = panel if aspect < 1.3 else panel * 1.3 / aspect
    height = width * aspect
    label, foot = (0.32 if row_labels else 0.0), (0.5 if bar else 0.06)
    heads = [0.26 if any(titles[start : start + per_row]) else 0.06 for start in starts]
    feet = [0.2 if any(notes[start : start + per_row]) else 0.0 for start in starts]
    across, tall = label + per_row * width, len(starts) * height + sum(heads) + sum(feet) + foot
    with canvas(across, tall, path) as figure:
        # One for all images, in inches: axes of their own take longer to make.
        sheet = figure.add_axes((0, 0, 1, 1), xlim=(0, across), ylim=(0, tall))
        sheet.set_axis_off()
        for index, image in enumerate(images):
            row, column = divmod(index, per_row)
            x = label + (column + 0.5) * width
            y = tall - (row + 0.5) * height - sum(heads[: row + 1]) - sum(feet[:row])
            h, w = np.multiply(image.shape[:2], min(0.96 * height / image.shape[0], 0.94 * width / image.shape[1]) / 2)
            sheet.imshow(image, extent=(x - w, x + w, y - h, y + h), aspect="auto", interpolation="antialiased")
            if index < len(titles):
                sheet.text(x, y + height / 2 + 0.06, titles[index], fontsize=9, ha="center", va="bottom")
            if index < len(notes):
                sheet.text(x, y - height / 2 - 0.02, notes[index], fontsize=8, ha="center", va="top", color=FAINT)
            if column == 0 and row < len(row_labels):
                sheet.text(0.16, y, row_labels[row], fontsize=9.5, rotation=90, ha="center", va="center")
        if bar:
            middle, half = across / 2, min(1.1, across / 4)
            sheet.imshow(DIVERGING[None], extent=(middle - half, middle + half, 0.24, 0.325), aspect="auto")
            for place, words in ((-1, "\N{MINUS SIGN}max"), (0, "0"), (1, "max")):
                sheet.text(middle + place * half, 0.2, words, fontsize=7.5, ha="center", va="top")
            sheet.text(middle + half + 0.12, 0.28, bar, fontsize=7.5, va="center", color=FAINT)
    return figure
