"""Publication figures of a basis, one function each; every one returns a matplotlib Figure and can
write it to a file.

Shapes: points (n, d), faces (f, 3) or None, vectors (n, K) of the unnormalised basis V, mass (n,),
eigenvalues (K,). Signed functions are drawn blue-white-orange on a symmetric range, each scaled by
itself. Nothing here touches pyplot, so no window opens and no global state changes.
"""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..errors import InputError
from ..io.mesh import to_numpy
from . import colours
from .charts import eigenvalue_curves, embeddings
from .drawing import Path, drawing, grid
from .scene import Array, Index

__all__ = ["eigenfunctions", "eigenvalue_curves", "embeddings", "gallery"]
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class View(TypedDict, total=False):
    """How a shape is drawn: `faces` (f, 3) of a mesh, angles in degrees, `up` x, y, z or auto,
    `size` in pixels, placed and scaled as the points `like` would be.
    """

    faces: ArrayLike | None
    azimuth: float | None
    elevation: float
    up: str
    size: int
    like: ArrayLike | None


def chosen_columns(vectors: Array, columns: int | Sequence[int] | None, most: int = 10) -> Index:
    """Which columns of `vectors` (n, K) are drawn, `most` after the constant unless given."""
    k = vectors.shape[1]
    if columns is None:
        first = int(k > 1 and np.ptp(vectors[:, 0]) < 1e-3 * np.abs(vectors[:, 0]).max())
        return np.arange(k)[first : first + most]
    chosen = np.asarray(columns)
    if chosen.dtype.kind in "iu" and not chosen.ndim:
        chosen = np.arange(int(chosen))
    if chosen.dtype.kind not in "iu" or not ((chosen >= 0) & (chosen < k)).all():
        raise InputError(f"columns must be whole numbers in 0..{k - 1}, got {columns!r}")
    return chosen


def eigenfunctions(
    points: ArrayLike,
    vectors: ArrayLike,
    *,
    columns: int | Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    eigenvalues: ArrayLike | None = None,
    per_row: int = 5,
    path: Path | None = None,
    **view: Unpack[View],
) -> Figure:
    """Eigenfunctions on a cloud or mesh.

    Parameters
    ----------
    points
        ``(n, d)``; those of a line are drawn as curves.
    vectors
        Functions ``(n, K)``.
    columns
        Which of them, or a number: the first so many. By default ten after the constant.
    titles, eigenvalues
        What stands above them: words, by default numbers, and eigenvalues ``(K,)``.
    per_row, path
        Pictures side by side, and a file to write the figure to.
    view
        ``faces (f, 3)``, ``azimuth`` and ``elevation`` in degrees, ``up`` ("x", "y", "z" or
        "auto"), ``size`` in pixels, and points ``like`` which the picture is scaled.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> ball = np.random.default_rng(0).normal(size=(300, 3))
    >>> basis = decompose(ball / np.linalg.norm(ball, axis=1, keepdims=True), k=4)
    >>> figure = eigenfunctions(basis.points, basis.vectors, columns=[1, 2], size=60)
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['φ₂', 'φ₃']
    """
    v, x = to_numpy(vectors), to_numpy(points)
    if v.ndim != 2 or len(v) != len(x):
        raise InputError(f"vectors must have shape ({len(x)}, K), got {v.shape}")
    chosen = chosen_columns(v, columns)
    if titles is None:
        titles = [f"φ{str(column + 1).translate(SUBSCRIPT)}" for column in chosen]
    if eigenvalues is not None:
        values = to_numpy(eigenvalues)[chosen].round(9) + 0.0
        titles = [f"{name}   λ = {value:.3g}" for name, value in zip(titles, values, strict=True)]
    look: Any = view
    size, functions = look.pop("size", 380), v[:, chosen]
    bar = ScalarMappable(Normalize(-1, 1), colours.DIVERGING), "each scaled by its largest value"
    shapes = []
    if x.shape[1] == 1:  # graphs
        high = 0.3 * np.ptp(x)
        look["like"] = [[x.min(), -high], [x.max(), high]]
        heights = high * functions / np.abs(functions).max()
        shapes = [drawing(np.column_stack([x, height]), **look) for height in heights.T]
    shapes = shapes or [drawing(x, **look)] * len(chosen)
    pictures = [(shape, colours.diverging(each)) for shape, each in zip(shapes, functions.T)]
    return grid(pictures, titles, min(per_row, len(chosen)), path, size=size, scale=bar)


def gallery(
    clouds: Sequence[Any],
    titles: Sequence[str] | None = None,
    path: Path | None = None,
    *,
    per_row: int = 6,
    values: Sequence[ArrayLike] | None = None,
    signed: bool = True,
    row_labels: Sequence[str] = (),
    notes: Sequence[str] = (),
    **view: Unpack[View],
) -> Figure:
    """Many shapes on one page.

    Parameters
    ----------
    clouds
        Points ``(n, d)`` or pairs ``(points, faces)``.
    titles, path, per_row
        What stands above each shape, a file to write to, and shapes side by side.
    values
        A function ``(n,)`` on each shape; without them shapes are drawn in clay.
    signed
        Each function has a range of its own around zero; else all share one, whose scale is shown.
    row_labels, notes
        What stands beside each row, and under each shape.
    view
        As in `eigenfunctions`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> ball = np.random.default_rng(0).normal(size=(300, 3))
    >>> figure = gallery([ball, ball[:, :2]], ["ball", "disc"], values=[ball[:, 0]] * 2, size=60)
    >>> [axes.get_title() for axes in figure.axes]
    ['ball', 'disc']
    """
    if not len(clouds):
        raise InputError("gallery needs at least one cloud")
    size, pictures, scale = view.pop("size", 300), [], None
    functions = None if values is None else [to_numpy(each) for each in values]
    if functions is not None and not signed:
        bounds = Normalize(*colours.robust_range(np.concatenate(functions)))
        scale = ScalarMappable(bounds, colours.SEQUENTIAL), ""
    for index, item in enumerate(clouds):
        points, faces = item if isinstance(item, tuple) else (item, None)
        shades = np.tile(colours.CLAY, (len(points), 1))
        if functions is not None:
            each = functions[index]
            shades = scale[0].to_rgba(each)[:, :3] if scale else colours.diverging(each)
        look: Any = {**view, "faces": faces}
        pictures.append((drawing(points, **look), shades))
    words: Any = {"row_labels": row_labels, "notes": notes, "scale": scale}
    return grid(pictures, titles or [], min(per_row, len(pictures)), path, size=size, **words)
