"""How a figure is laid out (sizes in inches, tight grids of images, one typeface, files written whole), and charts
without a shape in them: eigenvalues against index, embeddings (n, 2) coloured by label.
"""

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..errors import InputError
from ..host.files import atomic_path
from . import colours
from .scene import Array, thin, to_numpy

Path = str | os.PathLike[str]
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


def eigenvalue_curves(curves: Mapping[str, Any], path: Path | None = None, *, title: str | None = None) -> Figure:
    """Eigenvalues against index, one line per method; a method called oracle (or exact) is drawn dashed on top."""
    if not curves:
        raise InputError("eigenvalue_curves needs at least one curve")
    figure = new_figure(4.2, 3.0)
    axes = figure.add_axes((0.14, 0.15, 0.83, 0.76))
    others = [name for name in curves if not _is_reference(name)]
    palette = dict(zip(others, colours.hexadecimal(colours.categorical(max(len(others), 1))), strict=False))
    for name, eigenvalues in curves.items():
        values = to_numpy(eigenvalues)
        index = np.arange(1, len(values) + 1)
        if name in palette:
            axes.plot(index, values, lw=1.6, color=palette[name], label=name, marker="o", ms=2.6, mew=0)
        else:
            axes.plot(index, values, lw=1.3, color=colours.INK, ls=(0, (4, 2)), label=name, zorder=5)
    axes.set(xlabel="index", ylabel="eigenvalue")
    axes.set_xlim(left=1)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#e8eaed", lw=0.7)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")
    if title:
        axes.set_title(title, fontsize=10)
    tidy(axes)
    return finish(figure, path)


def functions_on_a_line(x: Array, vectors: Array, titles: Sequence[str], per_row: int) -> Figure:
    """Functions (n, c) of points x (n,) on a line as small curves, filled by sign, all on one vertical scale."""
    order = np.argsort(x)
    columns = min(per_row, vectors.shape[1])
    rows = -(-vectors.shape[1] // columns)
    width, height, head = 1.9, 1.15, 0.26
    tall = rows * (height + head) + 0.1
    figure = new_figure(columns * width, tall)
    limit = 1.1 * float(np.abs(vectors).max() or 1.0)
    blue, orange = (tuple(colours.diverging(np.array([v]), 1.0)[0]) for v in (-0.6, 0.6))
    for index, title in enumerate(titles):
        row, column = divmod(index, columns)
        axes = axes_at(figure, column * width + 0.08, tall - (row + 1) * (height + head), width - 0.16, height)
        y = vectors[order, index]
        axes.fill_between(x[order], y, 0, where=y > 0, color=orange, alpha=0.55, lw=0, interpolate=True)
        axes.fill_between(x[order], y, 0, where=y < 0, color=blue, alpha=0.55, lw=0, interpolate=True)
        axes.plot(x[order], y, color=colours.INK, lw=1.0)
        axes.axhline(0, color=AXIS, lw=0.6)
        axes.set(xticks=[], yticks=[], ylim=(-limit, limit))
        axes.set_title(title, fontsize=9)
        bare(axes)
    return figure


def _is_reference(name: str) -> bool:
    return any(word in name.lower() for word in ("oracle", "exact", "analytic"))


def embeddings(
    methods: Mapping[str, Any],
    labels: Any = None,
    path: Path | None = None,
    *,
    names: Sequence[str] | None = None,
    per_row: int = 4,
    limit: int = 20_000,
) -> Figure:
    """2-D embeddings (n, 2) of several methods side by side, coloured by label."""
    if not methods:
        raise InputError("embeddings needs at least one method")
    arrays = {name: to_numpy(value) for name, value in methods.items()}
    for name, value in arrays.items():
        if value.ndim != 2 or value.shape[1] < 2:
            raise InputError(f"embedding {name!r} must have shape (n, 2), got {value.shape}")
    columns = min(per_row, len(arrays))
    rows = -(-len(arrays) // columns)
    categories, codes = (None, None) if labels is None else np.unique(to_numpy(labels, None), return_inverse=True)
    palette = colours.categorical(1 if categories is None else len(categories))
    legend = categories is not None and len(categories) <= 12
    side, foot = 2.5, 0.42 if legend else 0.05
    tall = rows * (side + 0.25) + foot
    figure = new_figure(columns * side, tall)
    for index, (name, value) in enumerate(arrays.items()):
        row, column = divmod(index, columns)
        bottom = tall - (row + 1) * (side + 0.25)
        axes = axes_at(figure, column * side + 0.08, bottom + 0.05, side - 0.16, side - 0.1)
        # Drawing order is shuffled so that the last class does not hide the others.
        keep = np.random.default_rng(0).permutation(thin(len(value), limit))
        colour = palette[0] if codes is None else palette[codes[keep]]
        dot = float(np.clip(6000 / len(keep), 1.2, 14))
        axes.scatter(value[keep, 0], value[keep, 1], s=dot, c=np.atleast_2d(colour), lw=0, alpha=0.75, rasterized=True)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_color("#dfe2e6")
        axes.set_title(name, fontsize=9.5)
    if legend and categories is not None:
        words = [str(category if names is None else names[int(category)]) for category in categories]
        _legend(figure, words, palette, int(3 * columns) + 1)
    return finish(figure, path)


def _legend(figure: Figure, words: Sequence[str], palette: Array, across: int) -> None:
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 4.5, "mew": 0}
    handles = [Line2D([], [], color=palette[i], label=word, **dot) for i, word in enumerate(words)]
    tight: dict[str, Any] = {"frameon": False, "fontsize": 7.5, "handletextpad": 0.1, "columnspacing": 0.9}
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), across), **tight)
