"""Publication figures of a basis, one function each; every one returns a matplotlib Figure and can write it to a file.

Shapes: points (n, d), faces (f, 3) or None, vectors (n, K) of the unnormalised basis V, mass (n,), eigenvalues (K,).
Signed functions are drawn blue-white-orange on a symmetric range, each scaled by itself; on meshes thin lines mark
equal values and a bold one the zero set. Nothing here touches pyplot, so no window opens and no global state changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..errors import InputError
from ..readers.mesh import to_numpy
from . import colours
from .charts import eigenvalue_curves, embeddings, functions_on_a_line
from .layout import AXIS, Path, canvas, grid
from .raster import Raster, rasterise
from .scene import Array, as_faces, display_coordinates, look_at, thin

__all__ = ["against_oracle", "eigenfunctions", "eigenvalue_curves", "embeddings", "gallery", "mass", "reconstructions"]
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _signed_image(raster: Raster, values: Array) -> Array:
    limit = colours.symmetric_limit(values)
    shown = raster.interpolate(values)
    lines = raster.contours(shown, limit / 4) if raster.smooth and np.ptp(values) > 1e-6 * limit else None
    return raster.image(colours.diverging(shown, limit), lines)


class View(TypedDict, total=False):
    """How a shape is drawn: `faces` (f, 3) of a mesh, angles in degrees, `up` x, y, z or auto, `size` in pixels."""

    faces: ArrayLike | None
    azimuth: float | None
    elevation: float
    up: str
    size: int


class _Stage:
    """A shape before its camera."""

    def __init__(self, points: ArrayLike, view: View, size: int = 420) -> None:
        angles: Any = dict(view)
        self.xyz = display_coordinates(points)
        self.faces, self.size = as_faces(angles.pop("faces", None), len(self.xyz)), angles.pop("size", size)
        self.camera = look_at(self.xyz, **angles)

    def raster(self, xyz: Array | None = None, bounds: Array | None = None) -> Raster:
        return rasterise(self.xyz if xyz is None else xyz, self.faces, self.camera, self.size, bounds=bounds)


def chosen_columns(
    vectors: Array, columns: int | Sequence[int] | None, eigenvalues: ArrayLike | None = None, most: int = 10
) -> tuple[list[int], list[str]]:
    """Which columns of `vectors` (n, K) are drawn, `most` after the constant unless given, and their titles."""
    k = vectors.shape[1]
    if columns is None:
        first = int(k > 1 and np.ptp(vectors[:, 0]) < 1e-3 * np.abs(vectors[:, 0]).max())
        chosen = list(range(first, min(first + most, k)))
    else:
        chosen = list(range(min(int(columns), k))) if np.ndim(columns) == 0 else [int(c) for c in columns]  # type: ignore[arg-type,union-attr]
    if not chosen or min(chosen) < 0 or max(chosen) >= k:
        raise InputError(f"columns must lie in 0..{k - 1}, got {columns}")
    titles = [f"φ{str(c + 1).translate(SUBSCRIPT)}" for c in chosen]
    if eigenvalues is not None:
        shown = [0.0 if abs(value) < 1e-9 else value for value in to_numpy(eigenvalues)[chosen]]
        titles = [f"{name}   λ = {value:.3g}" for name, value in zip(titles, shown, strict=True)]
    return chosen, titles


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
    """Eigenfunctions on a cloud or mesh; `columns` says which (a number: the first so many).

    `view` takes faces (f, 3), azimuth, elevation (degrees), up ("x", "y", "z" or "auto") and size (pixels).
    """
    v = to_numpy(vectors)
    stage = _Stage(points, view)
    if v.ndim != 2 or len(v) != len(stage.xyz):
        raise InputError(f"vectors must have shape ({len(stage.xyz)}, K), got {v.shape}")
    chosen, named = chosen_columns(v, columns, eigenvalues)
    titles = named if titles is None else titles
    if to_numpy(points).shape[1] == 1:
        return functions_on_a_line(stage.xyz[:, 0], v[:, chosen], titles, per_row, path)
    raster = stage.raster()
    images = [_signed_image(raster, v[:, c]) for c in chosen]
    return grid(images, titles, min(per_row, len(chosen)), path, bar="each scaled by itself")


def against_oracle(
    points: ArrayLike,
    vectors: ArrayLike,
    oracle_vectors: ArrayLike,
    cosines: ArrayLike,
    *,
    columns: int | Sequence[int] | None = None,
    names: tuple[str, str] = ("eigenprobe", "oracle"),
    path: Path | None = None,
    **view: Unpack[View],
) -> Figure:
    """A method's vectors (upper row) above the oracle's (lower row), signs matched, |cosine| under each pair."""
    v, reference, cosine = to_numpy(vectors), to_numpy(oracle_vectors), np.abs(to_numpy(cosines))
    stage = _Stage(points, view)
    n = len(stage.xyz)
    if v.shape[0] != n or reference.shape[0] != n:
        raise InputError(f"both bases must have {n} rows, got {v.shape} and {reference.shape}")
    count = min(v.shape[1], reference.shape[1], len(cosine))
    chosen, titles = chosen_columns(v[:, :count], columns, most=8)
    raster = stage.raster()
    v, reference = v[:, chosen], reference[:, chosen]
    signed = v * np.where((v * reference).sum(0) < 0, -1.0, 1.0)
    images = [_signed_image(raster, function) for function in np.concatenate([signed, reference], 1).T]
    notes = [""] * len(chosen) + [f"|cos| = {cosine[c]:.3f}" for c in chosen]
    return grid(images, titles, len(chosen), path, row_labels=names, notes=notes, panel=1.6)


def mass(
    points: ArrayLike,
    mass: ArrayLike,
    *,
    reference: ArrayLike | None = None,
    path: Path | None = None,
    **view: Unpack[View],
) -> Figure:
    """Mass times n (1 is an even share) on the shape; with `reference` also the true mass and one against the other."""
    raster = _Stage(points, view, 560).raster()
    shown = {"mass": to_numpy(mass)} | ({} if reference is None else {"reference": to_numpy(reference)})
    shown = {name: values * len(values) for name, values in shown.items()}
    if reference is not None:
        shown["reference"] /= shown["reference"].mean()
    low, high = colours.robust_range(np.concatenate([*shown.values()]))
    panel = 2.6 / max(raster.height / raster.width, 1.0)
    widths = [panel] * len(shown) + ([] if reference is None else [2.6])
    tall = max(panel * raster.height / raster.width, 2.2) + 0.4
    with canvas(sum(widths) + 0.8, tall, path, layout="constrained") as figure:
        axes = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        for picture, (name, values) in zip(axes, shown.items(), strict=False):
            picture.imshow(raster.image(colours.sequential(raster.interpolate(values), low, high)))
            picture.set(title=name)
            picture.set_axis_off()
        scale = ScalarMappable(Normalize(low, high), ListedColormap(colours.SEQUENTIAL))
        bar = figure.colorbar(scale, ax=axes[len(shown) - 1], shrink=0.6, pad=0.02)
        bar.outline.set_visible(False)  # type: ignore[operator]
        bar.ax.set_title("× 1/n", fontsize=7.5)
        if reference is not None:
            m, truth, keep = shown["mass"], shown["reference"], thin(len(shown["mass"]), 4000)
            axes[-1].plot((low, high), (low, high), color=AXIS, lw=0.8, zorder=1)
            axes[-1].scatter(truth[keep], m[keep], s=3, alpha=0.35, lw=0, color=colours.OKABE_ITO[0], rasterized=True)
            varied = min(np.ptp(truth), np.ptp(m)) > 1e-9
            title = f"correlation {np.corrcoef(truth, m)[0, 1]:+.3f}" if varied else "constant"
            axes[-1].set(xlabel="reference", ylabel="mass", xlim=(low, high), ylim=(low, high), title=title)
    return figure


def reconstructions(
    points: ArrayLike, results: Mapping[str, Mapping[int, ArrayLike]], *, path: Path | None = None, **view: Unpack[View]
) -> Figure:
    """Coordinates rebuilt from k basis vectors, one row per method, the input at the left; RMS error under each."""
    stage = _Stage(points, view)
    if not results or not all(results.values()):
        raise InputError("reconstructions needs at least one method with at least one k")
    screen = stage.camera.project(stage.xyz)[0]
    bounds = np.stack([screen.min(0), screen.max(0)])
    sizes = sorted({k for by_k in results.values() for k in by_k})
    original = stage.raster(bounds=bounds).image(colours.CLAY)
    images, notes = [], []
    for by_k in results.values():
        images += [original, *(np.zeros_like(original) for _ in sizes)]
        notes += [""] * (len(sizes) + 1)
        for k, coordinates in by_k.items():
            place, rebuilt = sizes.index(k) - len(sizes), display_coordinates(coordinates)
            error = np.linalg.norm(rebuilt - stage.xyz, axis=1)
            images[place] = stage.raster(rebuilt, bounds).image(colours.CLAY)
            notes[place] = f"RMS {100 * np.sqrt((error**2).mean()) / stage.camera.radius:.2f} % of radius"
    titles = ["input", *(f"k = {k}" for k in sizes)]
    return grid(images, titles, len(titles), path, row_labels=list(results), notes=notes)


def small_picture(points: ArrayLike, values: ArrayLike, faces: ArrayLike | None, size: int) -> Array:
    """Signed values on a shape as an image (h, w, 4), of ``size`` pixels at most."""
    return _signed_image(_Stage(points, {"faces": faces}, size).raster(), to_numpy(values))


def gallery(
    clouds: Sequence[Any],
    titles: Sequence[str] | None = None,
    path: Path | None = None,
    *,
    per_row: int = 6,
    values: Sequence[ArrayLike] | None = None,
    **view: Unpack[View],
) -> Figure:
    """Many shapes on one page: points (n, d) or pairs (points, faces), in clay or coloured by `values`."""
    if not len(clouds):
        raise InputError("gallery needs at least one cloud")
    images = []
    for index, item in enumerate(clouds):
        points, faces = item if isinstance(item, tuple) else (item, None)
        raster = _Stage(points, {**view, "faces": faces}, 300).raster()
        images.append(raster.image(colours.CLAY) if values is None else _signed_image(raster, to_numpy(values[index])))
    return grid(images, titles or [], min(per_row, len(images)), path, panel=1.5)
