"""Charts without a shape in them: eigenvalues against index, embeddings (n, 2) coloured by label."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..errors import InputError
from ..readers.mesh import to_numpy
from . import colours
from .layout import AXIS, Path, axes_at, bare, finish, new_figure, tidy
from .scene import Array, thin


def eigenvalue_curves(curves: Mapping[str, Any], path: Path | None = None, *, title: str | None = None) -> Figure:
    """Eigenvalues against index, one line per method; a method called oracle (or exact) is drawn dashed on top."""
    if not curves:
        raise InputError("eigenvalue_curves needs at least one curve")
    figure = new_figure(4.2, 3.0)
    axes = figure.add_axes((0.14, 0.15, 0.83, 0.76))
    exact = ("oracle", "exact", "analytic")
    others = [name for name in curves if not any(word in name.lower() for word in exact)]
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


def embeddings(
    methods: Mapping[str, Any],
    labels: Any = None,
    path: Path | None = None,
    *,
    names: Sequence[str] | None = None,
    per_row: int = 4,
    limit: int = 20_000,
    side: float = 2.5,
) -> Figure:
    """2-D embeddings (n, 2) of several methods side by side, coloured by label; `side` of each in inches."""
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
    foot = 0.42 if legend else 0.05
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
        _legend(figure, words, palette, int(1.2 * side * columns) + 1)
    return finish(figure, path)


def _legend(figure: Figure, words: Sequence[str], palette: Array, across: int) -> None:
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 4.5, "mew": 0}
    handles = [Line2D([], [], color=palette[i], label=word, **dot) for i, word in enumerate(words)]
    tight: dict[str, Any] = {"frameon": False, "fontsize": 7.5, "handletextpad": 0.1, "columnspacing": 0.9}
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), across), **tight)
