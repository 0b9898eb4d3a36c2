"""Publication figures of a basis, one function each; every one returns a matplotlib Figure and can write it to a file.

Shapes: points (n, d), faces (f, 3) or None, vectors (n, K) of the unnormalised basis V, mass (n,), eigenvalues (K,).
Signed functions are drawn blue-white-orange on a symmetric range, each scaled by itself; on meshes thin lines mark
equal values and a bold one the zero set. Nothing here touches pyplot, so no window opens and no global state changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from matplotlib.figure import Figure

from ..errors import InputError
from ..readers.mesh import to_numpy
from . import colours
from .charts import eigenvalue_curves, embeddings, functions_on_a_line
from .layout import AXIS, Path, axes_at, bare, finish, grid, new_figure, tidy
from .raster import Raster, rasterise
from .scene import Array, as_faces, display_coordinates, look_at, thin

__all__ = ["against_oracle", "eigenfunctions", "eigenvalue_curves", "embeddings", "gallery", "mass", "reconstructions"]
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _name(column: int) -> str:
    return f"φ{str(column + 1).translate(SUBSCRIPT)}"


def _signed_image(raster: Raster, values: Array) -> Array:
    limit = colours.symmetric_limit(values)
    shown = raster.interpolate(values)
    lines = raster.contours(shown, limit / 4) if raster.smooth and np.ptp(values) > 1e-6 * limit else None
    return raster.image(colours.diverging(shown, limit), lines)


class View(TypedDict, total=False):
    """How a shape is drawn: `faces` (f, 3) of a mesh, angles in degrees, `up` x, y, z or auto, `size` in pixels."""

    faces: Any
    azimuth: float | None
    elevation: float
    up: str
    size: int


class _Stage:
    """A shape before its camera."""

    def __init__(self, points: Any, view: View, size: int = 420) -> None:
        self.xyz = display_coordinates(points)
        self.faces = as_faces(view.get("faces"), len(self.xyz))
        angles = {name: value for name, value in view.items() if name not in ("faces", "size")}
        self.camera = look_at(self.xyz, **angles)  # type: ignore[arg-type]
        self.size = view.get("size", size)

    def raster(self, xyz: Array | None = None, bounds: Array | None = None) -> Raster:
        return rasterise(self.xyz if xyz is None else xyz, self.faces, self.camera, self.size, bounds=bounds)


def _columns(count: int, columns: int | Sequence[int]) -> list[int]:
    whole = isinstance(columns, int | np.integer)
    chosen = list(range(min(int(columns), count))) if whole else [int(c) for c in columns]  # type: ignore[arg-type,union-attr]
    if not chosen or min(chosen) < 0 or max(chosen) >= count:
        raise InputError(f"columns must lie in 0..{count - 1}, got {columns}")
    return chosen


def chosen_columns(
    vectors: Array, columns: int | Sequence[int] | None, eigenvalues: Any = None
) -> tuple[list[int], list[str]]:
    """Which columns of `vectors` (n, K) are drawn, ten after the constant unless given, and their titles."""
    k = vectors.shape[1]
    first = int(k > 1 and np.ptp(vectors[:, 0]) < 1e-3 * np.abs(vectors[:, 0]).max())
    chosen = _columns(k, list(range(first, min(first + 10, k))) if columns is None else columns)
    titles = [_name(c) for c in chosen]
    if eigenvalues is not None:
        shown = [0.0 if abs(value) < 1e-9 else value for value in to_numpy(eigenvalues)[chosen]]
        titles = [f"{name}   λ = {value:.3g}" for name, value in zip(titles, shown, strict=True)]
    return chosen, titles


def eigenfunctions(
    points: Any,
    vectors: Any,
    *,
    columns: int | Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    eigenvalues: Any = None,
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
        return finish(functions_on_a_line(stage.xyz[:, 0], v[:, chosen], titles, per_row), path)
    raster = stage.raster()
    images = [_signed_image(raster, v[:, c]) for c in chosen]
    return finish(grid(images, titles, min(per_row, len(chosen)), bar="each scaled by itself"), path)


def against_oracle(
    points: Any,
    vectors: Any,
    oracle_vectors: Any,
    cosines: Any,
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
    chosen = _columns(count, columns if columns is not None else list(range(1, min(count, 9))) or [0])
    raster = stage.raster()
    signs = [float(np.sign(v[:, c] @ reference[:, c])) or 1.0 for c in chosen]
    images = [_signed_image(raster, s * v[:, c]) for s, c in zip(signs, chosen, strict=True)]
    images += [_signed_image(raster, reference[:, c]) for c in chosen]
    titles = [_name(c) for c in chosen]
    notes = [""] * len(chosen) + [f"|cos| = {cosine[c]:.3f}" for c in chosen]
    return finish(grid(images, titles, len(chosen), row_labels=names, notes=notes, panel=1.6), path)


def mass(points: Any, mass: Any, *, reference: Any = None, path: Path | None = None, **view: Unpack[View]) -> Figure:
    """Mass times n (1 is an even share) on the shape; with `reference` also the true mass and one against the other."""
    m = to_numpy(mass) * len(to_numpy(mass))
    raster = _Stage(points, view, 560).raster()
    truth = None if reference is None else to_numpy(reference) / to_numpy(reference).sum() * len(m)
    low, high = colours.robust_range(np.concatenate([m] if truth is None else [m, truth]))
    shown = [("mass", m)] + ([] if truth is None else [("reference", truth)])
    aspect = raster.height / raster.width
    panel = 2.6 / max(aspect, 1.0)
    tall, wide = max(panel * aspect, 2.2) + 0.4, panel * len(shown) + 0.8 + (0 if truth is None else 2.6)
    figure = new_figure(wide, tall)
    for index, (name, values) in enumerate(shown):
        axes = figure.add_axes((index * panel / wide, 0.02, panel * 0.96 / wide, 1 - 0.36 / tall))
        picture = raster.image(colours.sequential(raster.interpolate(values), low, high))
        axes.imshow(picture, interpolation="antialiased")
        axes.set_axis_off()
        axes.set_title(name, fontsize=9.5)
    bar = figure.add_axes(((panel * len(shown) + 0.12) / wide, 0.2, 0.09 / wide, 0.6))
    bar.imshow(colours.SEQUENTIAL[::-1, None], aspect="auto", extent=(0, 1, low, high))
    bar.set_xticks([])
    bar.yaxis.tick_right()
    bar.tick_params(labelsize=7.5, length=2, color=AXIS)
    bar.set_title("× 1/n", fontsize=7.5)
    bare(bar)
    if truth is not None:
        _one_against_other(figure, truth, m, (low, high))
    return finish(figure, path)


def _one_against_other(figure: Figure, truth: Array, m: Array, limits: tuple[float, float]) -> None:
    wide, tall = figure.get_size_inches()
    axes = axes_at(figure, wide - 2.1, 0.5, 1.9, tall - 0.9)
    keep = thin(len(m), 4000)
    axes.plot(limits, limits, color=AXIS, lw=0.8, zorder=1)
    axes.scatter(truth[keep], m[keep], s=3, alpha=0.35, lw=0, color=colours.OKABE_ITO[0], rasterized=True)
    axes.set(xlabel="reference", ylabel="mass", xlim=limits, ylim=limits)
    varied = min(np.ptp(truth), np.ptp(m)) > 1e-9
    axes.set_title(f"correlation {np.corrcoef(truth, m)[0, 1]:+.3f}" if varied else "constant", fontsize=9)
    tidy(axes)


def reconstructions(
    points: Any, results: Mapping[str, Mapping[int, Any]], *, path: Path | None = None, **view: Unpack[View]
) -> Figure:
    """Coordinates rebuilt from k basis vectors, one row per method, the input at the left; RMS error under each."""
    stage = _Stage(points, view)
    if not results or not all(results.values()):
        raise InputError("reconstructions needs at least one method with at least one k")
    screen = stage.camera.project(stage.xyz)[0]
    bounds = np.stack([screen.min(0), screen.max(0)])
    sizes = sorted({k for by_k in results.values() for k in by_k})
    images, titles, notes = [], ["input", *(f"k = {k}" for k in sizes)], []
    original = stage.raster(bounds=bounds).image(colours.CLAY)
    for by_k in results.values():
        images.append(original)
        notes.append("")
        for k in sizes:
            if k not in by_k:
                images.append(np.ones_like(original) * [1, 1, 1, 0])
                notes.append("")
                continue
            rebuilt = display_coordinates(by_k[k])
            error = np.linalg.norm(rebuilt - stage.xyz, axis=1)
            images.append(stage.raster(rebuilt, bounds).image(colours.CLAY))
            notes.append(f"RMS {100 * np.sqrt((error**2).mean()) / stage.camera.radius:.2f} % of radius")
    return finish(grid(images, titles, len(sizes) + 1, row_labels=list(results), notes=notes), path)


def small_picture(points: Any, values: Any, faces: Any, size: int) -> Array:
    """Signed values on a shape as an image (h, w, 4), of ``size`` pixels at most."""
    return _signed_image(_Stage(points, {"faces": faces}, size).raster(), to_numpy(values))


def gallery(
    clouds: Sequence[Any],
    titles: Sequence[str] | None = None,
    path: Path | None = None,
    *,
    per_row: int = 6,
    values: Sequence[Any] | None = None,
    **view: Unpack[View],
) -> Figure:
    """Many shapes on one page: points (n, d) or pairs (points, faces), in clay or coloured by `values`."""
    if not len(clouds):
        raise InputError("gallery needs at least one cloud")
    images = []
    for index, item in enumerate(clouds):
        points, faces = item if isinstance(item, tuple) else (item, None)
        stage = _Stage(points, {**view, "faces": faces}, 300)
        raster = stage.raster()
        image = raster.image(colours.CLAY) if values is None else _signed_image(raster, to_numpy(values[index]))
        side = stage.size + 8
        square = np.zeros((side, side, 4))
        top, left = (side - image.shape[0]) // 2, (side - image.shape[1]) // 2
        square[max(top, 0) :, max(left, 0) :][: image.shape[0], : image.shape[1]] = image[:side, :side]
        images.append(square)
    return finish(grid(images, list(titles or []), min(per_row, len(images)), panel=1.5), path)
