"""Charts without a shape in them: eigenvalues against index, embeddings (n, 2) coloured by
label.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from ..errors import InputError
from ..io.mesh import to_numpy
from . import colours
from .classes import Names, classes
from .drawing import Path, canvas
from .scene import thin

MOST = 24  # classes in a legend


def eigenvalue_curves(
    curves: Mapping[str, ArrayLike], path: Path | None = None, *, title: str | None = None
) -> Figure:
    """Eigenvalues against index, one line per method.

    Parameters
    ----------
    curves
        Eigenvalues ``(K,)`` by the name of their method; one called oracle, exact or analytic is
        drawn dashed on top.
    path
        A file to write the figure to.
    title
        Of the figure.

    Returns
    -------
    Figure

    Examples
    --------
    >>> figure = eigenvalue_curves({"sphere": [0, 2, 2, 2, 6], "exact": [0, 2, 2, 2, 6]})
    >>> len(figure.axes[0].lines)
    2
    """
    if not curves:
        raise InputError("eigenvalue_curves needs at least one curve")
    with canvas(4.2, 3.0, path, layout="constrained") as figure:
        axes = figure.add_subplot(xlabel="index", ylabel="eigenvalue", title=title or "")
        for colour, (name, values) in zip(colours.categorical(len(curves)), curves.items()):
            eigenvalues = to_numpy(values)
            style: dict[str, Any] = {"lw": 1.6, "color": colour, "marker": "o", "ms": 2.6}
            if re.search("oracle|exact|analytic", name.lower()):
                style = {"lw": 1.3, "color": colours.INK, "ls": "dashed", "zorder": 5}
            axes.plot(np.arange(1, len(eigenvalues) + 1), eigenvalues, label=name, **style)
        axes.set(xlim=(1, None), ylim=(0, None))
        axes.grid(axis="y", color="#e8eaed", lw=0.7)
        axes.legend(fontsize=8.5, loc="upper left")
    return figure


def embeddings(
    methods: Mapping[str, ArrayLike],
    labels: ArrayLike | None = None,
    path: Path | None = None,
    *,
    names: Names | None = None,
    per_row: int = 4,
    limit: int = 20_000,
    side: float = 2.5,
) -> Figure:
    """2-D embeddings of several methods side by side, coloured by label.

    Parameters
    ----------
    methods
        Embeddings ``(n, 2)`` by the name of their method.
    labels
        A label ``(n,)`` per row, in the colours that the page of the same map has.
    path
        A file to write the figure to.
    names
        Words for the labels: a mapping, or a sequence indexed by an integer label.
    per_row, side
        Panels side by side, and the side of each in inches.
    limit
        The most rows that are drawn.

    Returns
    -------
    Figure

    Examples
    --------
    >>> places = np.random.default_rng(0).normal(size=(60, 2))
    >>> figure = embeddings({"noise": places}, np.arange(60) % 3, names=["a", "b", "c"])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['a', 'b', 'c']
    """
    if not methods:
        raise InputError("embeddings needs at least one method")
    arrays = {name: to_numpy(value) for name, value in methods.items()}
    for name, value in arrays.items():
        if value.ndim != 2 or value.shape[1] < 2:
            raise InputError(f"embedding {name!r} must have shape (n, 2), got {value.shape}")
    columns = min(per_row, len(arrays))
    rows = -(-len(arrays) // columns)
    first = next(iter(arrays.values()))
    found = classes(np.zeros(len(first)) if labels is None else labels, names, first)
    legend = labels is not None and len(found.names) <= MOST
    wide, tall = columns * side, rows * (side + 0.25) + 0.42 * legend
    with canvas(wide, tall, path, layout="constrained") as figure:
        for index, (name, value) in enumerate(arrays.items(), 1):
            axes = figure.add_subplot(rows, columns, index, title=name, xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color="#dfe2e6")
            # Drawing order is shuffled so that the last class does not hide the others.
            keep = np.random.default_rng(0).permutation(thin(len(value), limit))
            dot, (x, y) = float(np.clip(6000 / len(keep), 1.2, 14)), value[keep, :2].T
            tint = np.array(found.colours)[found.codes[keep]]
            axes.scatter(x, y, s=dot, c=tint, lw=0, alpha=0.75, rasterized=True)
        if legend:
            pairs = zip(found.colours, found.names, strict=True)
            handles = [Patch(color=colour, label=word) for colour, word in pairs]
            across = max(1, int(wide * 13 / (max(map(len, found.names)) + 4)))
            tight: dict[str, Any] = {"handlelength": 0.7, "handleheight": 0.7, "columnspacing": 0.9}
            figure.legend(
                handles=handles, loc="outside lower center", ncols=across, fontsize=7.5, **tight
            )
    return figure
