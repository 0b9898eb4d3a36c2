"""How a figure is laid out: one style, sizes in inches, tight grids of images, files written whole."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from matplotlib import rc_context
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
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
    **dict.fromkeys(("figure.constrained_layout.w_pad", "figure.constrained_layout.h_pad"), 0.03),
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
    """Images (h, w, 4) on a tight grid with small titles; `notes` go under them, `bar` under a colour bar."""
    rows = -(-len(images) // per_row)
    aspect = max(image.shape[0] for image in images) / max(image.shape[1] for image in images)
    width = panel if aspect < 1.3 else panel * 1.3 / aspect
    heads = 0.26 * min(rows, -(-len(titles) // per_row)) + 0.22 * any(notes) * rows
    tall = rows * width * aspect + heads + (0.6 if bar else 0.06)
    with canvas(per_row * width + (0.3 if row_labels else 0.0), tall, path, layout="compressed") as figure:
        axes = figure.subplots(rows, per_row, squeeze=False, subplot_kw={"xticks": [], "yticks": [], "frameon": False})
        for place, image, title, note in zip_longest(axes.flat, images, titles, notes):
            if image is not None:
                place.imshow(image, interpolation="antialiased")
                place.set_title(title or "", pad=3)
                place.set_xlabel(note or "", fontsize=8, color=FAINT, labelpad=2)
        for place, words in zip(axes[:, 0], row_labels, strict=False):
            place.set_ylabel(words, fontsize=9.5)
        if bar:
            scale = ScalarMappable(Normalize(-1, 1), ListedColormap(DIVERGING))
            drawn = figure.colorbar(scale, ax=axes, location="bottom", shrink=0.5, aspect=25, ticks=[-1, 0, 1])
            drawn.set_ticklabels(["\N{MINUS SIGN}max", "0", "max"], fontsize=7.5)
            drawn.set_label(bar, fontsize=7.5, color=FAINT)
            drawn.outline.set_visible(False)  # type: ignore[operator]
    return figure
