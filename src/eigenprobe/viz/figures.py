"""Publication figures of a basis, one function each; every one returns a matplotlib Figure and can
write it to a file.

Shapes: points (n, d), faces (f, 3) or None, vectors (n, K) of the unnormalised basis V, mass (n,),
eigenvalues (K,), embeddings (n, 2). Signed functions are drawn blue-white-orange on a symmetric
range, each scaled by itself. Nothing here touches pyplot, so no window opens and no global state
changes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from ..errors import InputError
from ..io.mesh import to_numpy
from . import colours
from .colours import Names, classes
from .drawing import PathLike, canvas, drawing, grid
from .scene import Array, Index, thin

__all__ = [
    "against_oracle",
    "eigenfunctions",
    "eigenvalue_curves",
    "embeddings",
    "gallery",
    "mass",
    "reconstructions",
]
MOST = 24  # classes in a legend
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


def _name(column: int) -> str:
    return f"φ{str(column + 1).translate(SUBSCRIPT)}"


def eigenfunctions(
    points: ArrayLike,
    vectors: ArrayLike,
    *,
    columns: int | Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    eigenvalues: ArrayLike | None = None,
    per_row: int = 5,
    path: PathLike | None = None,
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
        titles = [_name(column) for column in chosen]
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
    path: PathLike | None = None,
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


def mass(
    points: ArrayLike,
    mass: ArrayLike,
    *,
    reference: ArrayLike | None = None,
    path: PathLike | None = None,
    **view: Unpack[View],
) -> Figure:
    """The mass on the shape, as a multiple of an even share.

    Parameters
    ----------
    points, mass
        ``(n, d)`` and ``(n,)``.
    reference
        The true mass ``(n,)``, shown beside it in the same colours.
    path, view
        As in `eigenfunctions`; ``faces`` among them.

    Returns
    -------
    Figure

    Examples
    --------
    >>> ball = np.random.default_rng(0).normal(size=(300, 3))
    >>> figure = mass(ball, np.full(300, 1 / 300), reference=np.arange(300.0), size=60)
    >>> figure.axes[1].get_title()
    'reference'
    """
    shown = {"mass": mass} if reference is None else {"mass": mass, "reference": reference}
    shares = [to_numpy(each) / to_numpy(each).mean() for each in shown.values()]
    shapes = [(points, view.pop("faces", None))] * len(shown)
    return gallery(shapes, [*shown], path, values=shares, signed=False, **view)


def against_oracle(
    points: ArrayLike,
    vectors: ArrayLike,
    oracle_vectors: ArrayLike,
    cosines: ArrayLike,
    *,
    columns: int | Sequence[int] | None = None,
    names: tuple[str, str] = ("eigenprobe", "oracle"),
    path: PathLike | None = None,
    **view: Unpack[View],
) -> Figure:
    """A method's vectors (upper row) above the oracle's (lower row), signs matched.

    Parameters
    ----------
    points
        ``(n, d)``.
    vectors, oracle_vectors
        Functions ``(n, K)`` of both.
    cosines
        Agreement ``(K,)`` of each pair, which is written under it.
    columns, path, view
        As in `eigenfunctions`; by default eight columns.
    names
        Of the two rows.

    Returns
    -------
    Figure

    Examples
    --------
    >>> ball = np.random.default_rng(0).normal(size=(300, 3))
    >>> figure = against_oracle(ball, ball, -ball, [1.0, 1.0, 0.5], columns=[0, 2], size=60)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['', '', '|cos| = 1.000', '|cos| = 0.500']
    """
    v, reference, cosine = to_numpy(vectors), to_numpy(oracle_vectors), np.abs(to_numpy(cosines))
    n = len(to_numpy(points))
    if len(v) != n or len(reference) != n:
        raise InputError(f"both bases must have {n} rows, got {v.shape} and {reference.shape}")
    count = min(v.shape[1], reference.shape[1], len(cosine))
    chosen = chosen_columns(v[:, :count], columns, most=8)
    v, reference = v[:, chosen], reference[:, chosen]
    signed = v * np.where((v * reference).sum(0) < 0, -1.0, 1.0)
    return gallery(
        [(points, view.pop("faces", None))] * (2 * len(chosen)),
        [_name(column) for column in chosen],
        path,
        per_row=len(chosen),
        values=[*signed.T, *reference.T],
        row_labels=names,
        notes=[""] * len(chosen) + [f"|cos| = {value:.3f}" for value in cosine[chosen]],
        **view,
    )


def reconstructions(
    points: ArrayLike,
    results: Mapping[str, Mapping[int, ArrayLike]],
    *,
    path: PathLike | None = None,
    **view: Unpack[View],
) -> Figure:
    """Coordinates rebuilt from k basis vectors, one row per method, the input at the left.

    Parameters
    ----------
    points
        The input ``(n, d)``.
    results
        Coordinates ``(n, d)`` by method and by k, the same k of every method; the root mean square
        error stands under each.
    path, view
        As in `eigenfunctions`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> ball = np.random.default_rng(0).normal(size=(300, 3))
    >>> figure = reconstructions(ball, {"half": {3: 0.5 * ball}}, size=60)
    >>> [axes.get_title() for axes in figure.axes]
    ['input', 'k = 3']
    """
    sizes = {tuple(sorted(by_k)) for by_k in results.values()}
    if len(sizes) != 1 or () in sizes:
        raise InputError("reconstructions needs at least one k, and the same of every method")
    given, titles = to_numpy(points), ["input", *(f"k = {k}" for k in sizes.pop())]
    radius = np.linalg.norm(given - given.mean(0), axis=1).max()
    faces, notes = view.pop("faces", None), []
    shapes: list[Array] = []
    for by_k in results.values():
        shapes += [given, *(to_numpy(by_k[k]) for k in sorted(by_k))]
        errors = (np.square(x - given).sum(1).mean() ** 0.5 for x in shapes[1 - len(titles) :])
        notes += ["", *(f"RMS {100 * each / radius:.2f} % of radius" for each in errors)]
    words: Any = {"row_labels": list(results), "notes": notes, "like": given, **view}
    pairs = [(shape, faces) for shape in shapes]
    return gallery(pairs, titles, path, per_row=len(titles), **words)


def eigenvalue_curves(
    curves: Mapping[str, ArrayLike], path: PathLike | None = None, *, title: str | None = None
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
    path: PathLike | None = None,
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
