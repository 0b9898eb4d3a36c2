"""Charts without a shape in them: eigenvalues against index, embeddings (n, 2) coloured by label."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from ..errors import InputError
from ..readers.mesh import to_numpy
from . import colours
from .layout import AXIS, Path, canvas
from .scene import Array, thin


def eigenvalue_curves(curves: Mapping[str, ArrayLike], path: Path | None = None, *, title: str | None = None) -> Figure:
    """Eigenvalues against index, one line per method; a method called oracle (or exact) is drawn dashed on top."""
    if not curves:
        raise InputError("eigenvalue_curves needs at least one curve")
    with canvas(4.2, 3.0, path) as figure:
        axes = figure.add_axes((0.14, 0.15, 0.83, 0.76))
        axes.set_prop_cycle(color=colours.hexadecimal(colours.categorical(len(curves))))
        for name, values in curves.items():
            eigenvalues = to_numpy(values)
            look: dict[str, Any] = {"lw": 1.6, "marker": "o", "ms": 2.6, "mew": 0}
            if re.search("oracle|exact|analytic", name.lower()):
                look = {"lw": 1.3, "color": colours.INK, "ls": (0, (4, 2)), "zorder": 5}
            axes.plot(np.arange(1, len(eigenvalues) + 1), eigenvalues, label=name, **look)
        axes.set(xlabel="index", ylabel="eigenvalue", xlim=(1, None), ylim=(0, None), axisbelow=True, title=title or "")
        axes.grid(axis="y", color="#e8eaed", lw=0.7)
        axes.legend(fontsize=8.5, loc="upper left")
    return figure


def functions_on_a_line(
    x: Array, vectors: Array, titles: Sequence[str], per_row: int, path: Path | None = None
) -> Figure:
    """Functions (n, c) of points x (n,) on a line as small curves, filled by sign, all on one vertical scale."""
    order = np.argsort(x)
    columns = min(per_row, len(titles))
    rows = -(-len(titles) // columns)
    limit = 1.1 * float(np.abs(vectors).max() or 1.0)
    blue, orange = colours.diverging(np.array([-0.6, 0.6]), 1.0)
    frame: dict[str, Any] = {"xticks": [], "yticks": [], "ylim": (-limit, limit), "frameon": False}
    with canvas(1.9 * columns, tall := 1.41 * rows + 0.1, path) as figure:
        figure.subplots_adjust(0.02, 0.1 / tall, 0.98, 1 - 0.26 / tall, wspace=0.08, hspace=0.23)
        for index, title in enumerate(titles):
            axes = figure.add_subplot(rows, columns, index + 1, title=title, **frame)
            y = vectors[order, index]
            axes.fill_between(x[order], y, 0, where=y > 0, color=orange, alpha=0.55, lw=0, interpolate=True)
            axes.fill_between(x[order], y, 0, where=y < 0, color=blue, alpha=0.55, lw=0, interpolate=True)
            axes.plot(x[order], y, color=colours.INK, lw=1.0)
            axes.axhline(0, color=AXIS, lw=0.6)
    return figure


def embeddings(
    methods: Mapping[str, ArrayLike],
    labels: ArrayLike | None = None,
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
    n = len(next(iter(arrays.values())))
    categories, codes = np.unique(np.zeros(n) if labels is None else to_numpy(labels, None), return_inverse=True)
    palette = colours.categorical(len(categories))
    legend = labels is not None and len(categories) <= 12
    foot = 0.42 if legend else 0.05
    with canvas(columns * side, tall := rows * (side + 0.25) + foot, path) as figure:
        figure.subplots_adjust(0.03, (foot + 0.05) / tall, 0.97, 1 - 0.3 / tall, wspace=0.07, hspace=0.15)
        for index, (name, value) in enumerate(arrays.items(), 1):
            axes = figure.add_subplot(rows, columns, index, title=name, xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color="#dfe2e6")
            # Drawing order is shuffled so that the last class does not hide the others.
            keep = np.random.default_rng(0).permutation(thin(len(value), limit))
            dot, (x, y) = float(np.clip(6000 / len(keep), 1.2, 14)), value[keep, :2].T
            axes.scatter(x, y, s=dot, c=palette[codes[keep]], lw=0, alpha=0.75, rasterized=True)
        if legend:
            words = [str(category if names is None else names[int(category)]) for category in categories]
            dots = zip(palette, words, strict=True)
            handles = [Line2D([], [], ls="", marker="o", ms=4.5, mew=0, color=c, label=word) for c, word in dots]
            tight: dict[str, Any] = {"fontsize": 7.5, "handletextpad": 0.1, "columnspacing": 0.9}
            across = min(len(words), int(1.2 * side * columns) + 1)
            figure.legend(handles=handles, loc="lower center", ncols=across, **tight)
    return figure
