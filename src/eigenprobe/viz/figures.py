"""Publication figures of a basis, one function each; every one returns a matplotlib Figure and can write it to a file.

Shapes: points (n, d), faces (f, 3) or None, vectors (n, K) of the unnormalised basis V, mass (n,), eigenvalues (K,).
Signed functions are drawn blue-white-orange on a symmetric range, each scaled by itself; on meshes thin lines mark equal
values and a bold one the zero set. Nothing here touches pyplot, so no window opens and no global state changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files import atomic_path
from . import colours
from .raster import Raster, rasterise
from .scene import Array, Camera, as_faces, display_coordinates, look_at, thin, to_numpy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Path = str | os.PathLike[str]
FAINT = "#5b6470"
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _figure(width: float, height: float) -> Figure:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _finish(figure: Figure, path: Path | None) -> Figure:
    from matplotlib.font_manager import fontManager

    # Only installed families are named: matplotlib warns about each one that it cannot find.
    installed = set(fontManager.get_font_names())
    family = [name for name in ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans") if name in installed]
    for text in figure.findobj(lambda artist: hasattr(artist, "get_fontsize")):
        text.set_fontfamily(family)
        if text.get_color() == "black":
            text.set_color(colours.INK)
    if path is not None:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=200)
    return figure


def _grid(
    images: Sequence[Array], titles: Sequence[str], per_row: int, *, panel: float = 1.9, row_labels: Sequence[str] = (), notes: Sequence[str] = (),
    bar: str | None = None,
) -> Figure:
    """Images (h, w, 4) on a tight grid with small titles; `notes` go under the panels, `bar` names a signed colour bar."""
    rows = -(-len(images) // per_row)
    aspect = max(image.shape[0] for image in images) / max(image.shape[1] for image in images)
    width = panel if aspect < 1.3 else panel * 1.3 / aspect
    height = width * aspect
    label, foot = (0.32 if row_labels else 0.0), (0.5 if bar else 0.06)
    heads = [0.26 if any(titles[r * per_row : (r + 1) * per_row]) else 0.06 for r in range(rows)]
    feet = [0.2 if any(notes[r * per_row : (r + 1) * per_row]) else 0.0 for r in range(rows)]
    total = (label + per_row * width, rows * height + sum(heads) + sum(feet) + foot)
    figure = _figure(*total)
    for index, image in enumerate(images):
        row, column = divmod(index, per_row)
        left = label + column * width
        bottom = total[1] - (row + 1) * height - sum(heads[: row + 1]) - sum(feet[:row])
        box = (left + 0.03 * width, bottom + 0.02 * height, 0.94 * width, 0.96 * height)
        axes = figure.add_axes((box[0] / total[0], box[1] / total[1], box[2] / total[0], box[3] / total[1]))
        axes.imshow(image, interpolation="antialiased")
        axes.set_axis_off()
        middle = (left + width / 2) / total[0]
        if index < len(titles):
            figure.text(middle, (bottom + height + 0.06) / total[1], titles[index], ha="center", va="bottom", fontsize=9)
        if index < len(notes):
            figure.text(middle, (bottom - 0.02) / total[1], notes[index], ha="center", va="top", fontsize=8, color=FAINT)
        if column == 0 and row < len(row_labels):
            y = (bottom + height / 2) / total[1]
            figure.text(0.16 / total[0], y, row_labels[row], rotation=90, ha="center", va="center", fontsize=9.5)
    if bar:
        _signed_bar(figure, total, bar)
    return figure


def _signed_bar(figure: Figure, total: tuple[float, float], text: str) -> None:
    length = min(2.2, 0.5 * total[0])
    axes = figure.add_axes(((total[0] - length) / 2 / total[0], 0.24 / total[1], length / total[0], 0.085 / total[1]))
    axes.imshow(colours.DIVERGING[None], aspect="auto", extent=(-1, 1, 0, 1))
    axes.set_yticks([])
    axes.set_xticks([-1, 0, 1], ["\N{MINUS SIGN}max", "0", "max"], fontsize=7.5)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.text(((total[0] + length) / 2 + 0.12) / total[0], 0.28 / total[1], text, fontsize=7.5, va="center", color=FAINT)


def _signed_image(raster: Raster, values: Array) -> Array:
    limit = colours.symmetric_limit(values)
    shown = raster.interpolate(values)
    lines = raster.contours(shown, limit / 4) if raster.smooth and np.ptp(values) > 1e-6 * limit else None
    return raster.image(colours.diverging(shown, limit), lines)


def _view(points: Any, faces: Any, azimuth: float | None, elevation: float, up: str) -> tuple[Array, Any, Camera]:
    xyz = display_coordinates(points)
    return xyz, as_faces(faces, len(xyz)), look_at(xyz, azimuth=azimuth, elevation=elevation, up=up)


def _columns(count: int, columns: int | Sequence[int]) -> list[int]:
    chosen = list(range(min(columns, count))) if isinstance(columns, int) else [int(c) for c in columns]
    if not chosen or min(chosen) < 0 or max(chosen) >= count:
        raise InputError(f"columns must lie in 0..{count - 1}, got {columns}")
    return chosen


def eigenfunctions(
    points: Any, vectors: Any, *, faces: Any = None, columns: int | Sequence[int] | None = None, titles: Sequence[str] | None = None,
    eigenvalues: Any = None, per_row: int = 5, azimuth: float | None = None, elevation: float = 12.0, up: str = "auto", size: int = 420,
    path: Path | None = None,
) -> Figure:
    """Eigenfunctions on a cloud or mesh; `columns` says which (an int: the first so many; default ten after the constant)."""
    v = to_numpy(vectors)
    xyz, triangles, camera = _view(points, faces, azimuth, elevation, up)
    if v.ndim != 2 or len(v) != len(xyz):
        raise InputError(f"vectors must have shape ({len(xyz)}, K), got {v.shape}")
    first = int(v.shape[1] > 1 and np.ptp(v[:, 0]) < 1e-3 * np.abs(v[:, 0]).max())  # a constant is no picture
    chosen = _columns(v.shape[1], list(range(first, min(first + 10, v.shape[1]))) if columns is None else columns)
    if titles is None:
        names = [f"φ{str(c + 1).translate(SUBSCRIPT)}" for c in chosen]
        if eigenvalues is not None:
            values = to_numpy(eigenvalues)
            names = [f"{name}   λ = {0.0 if abs(values[c]) < 1e-9 else values[c]:.3g}" for name, c in zip(names, chosen, strict=True)]
        titles = names
    raster = rasterise(xyz, triangles, camera, size)
    figure = _grid([_signed_image(raster, v[:, c]) for c in chosen], titles, min(per_row, len(chosen)), bar="each scaled by itself")
    return _finish(figure, path)


def against_oracle(
    points: Any, vectors: Any, oracle_vectors: Any, cosines: Any, *, faces: Any = None, columns: int | Sequence[int] | None = None,
    names: tuple[str, str] = ("eigenprobe", "oracle"), azimuth: float | None = None, elevation: float = 12.0, up: str = "auto", size: int = 420,
    path: Path | None = None,
) -> Figure:
    """A method's vectors (upper row) above the oracle's (lower row), signs matched, |cosine| under each pair."""
    v, reference, cosine = to_numpy(vectors), to_numpy(oracle_vectors), np.abs(to_numpy(cosines))
    xyz, triangles, camera = _view(points, faces, azimuth, elevation, up)
    if v.shape[0] != len(xyz) or reference.shape[0] != len(xyz):
        raise InputError(f"both bases must have {len(xyz)} rows, got {v.shape} and {reference.shape}")
    count = min(v.shape[1], reference.shape[1], len(cosine))
    chosen = _columns(count, columns if columns is not None else list(range(1, min(count, 9))) or [0])
    raster = rasterise(xyz, triangles, camera, size)
    signs = [float(np.sign(v[:, c] @ reference[:, c])) or 1.0 for c in chosen]
    images = [_signed_image(raster, s * v[:, c]) for s, c in zip(signs, chosen, strict=True)]
    images += [_signed_image(raster, reference[:, c]) for c in chosen]
    titles = [f"φ{str(c + 1).translate(SUBSCRIPT)}" for c in chosen]
    notes = [""] * len(chosen) + [f"|cos| = {cosine[c]:.3f}" for c in chosen]
    return _finish(_grid(images, titles, len(chosen), row_labels=names, notes=notes, panel=1.6), path)


def mass(
    points: Any, mass: Any, *, faces: Any = None, reference: Any = None, azimuth: float | None = None, elevation: float = 12.0, up: str = "auto",
    size: int = 560, path: Path | None = None,
) -> Figure:
    """Mass times n (1 is an even share) on the shape; with `reference` also the true mass and one against the other."""
    m = to_numpy(mass) * len(to_numpy(mass))
    xyz, triangles, camera = _view(points, faces, azimuth, elevation, up)
    raster = rasterise(xyz, triangles, camera, size)
    truth = None if reference is None else to_numpy(reference) / to_numpy(reference).sum() * len(m)
    low, high = colours.robust_range(np.concatenate([m] if truth is None else [m, truth]))
    shown = [("mass", m)] + ([] if truth is None else [("reference", truth)])
    aspect = raster.height / raster.width
    panel = 2.6 / max(aspect, 1.0)
    tall, wide = max(panel * aspect, 2.2) + 0.4, panel * len(shown) + 0.8 + (0 if truth is None else 2.6)
    figure = _figure(wide, tall)
    for index, (name, values) in enumerate(shown):
        axes = figure.add_axes((index * panel / wide, 0.02, panel * 0.96 / wide, 1 - 0.36 / tall))
        axes.imshow(raster.image(colours.sequential(raster.interpolate(values), low, high)), interpolation="antialiased")
        axes.set_axis_off()
        axes.set_title(name, fontsize=9.5)
    bar = figure.add_axes(((panel * len(shown) + 0.12) / wide, 0.2, 0.09 / wide, 0.6))
    bar.imshow(colours.SEQUENTIAL[::-1, None], aspect="auto", extent=(0, 1, low, high))
    bar.set_xticks([])
    bar.yaxis.tick_right()
    bar.tick_params(labelsize=7.5, length=2, color="#9aa1a9")
    bar.set_title("× 1/n", fontsize=7.5)
    for spine in bar.spines.values():
        spine.set_visible(False)
    if truth is not None:
        axes = figure.add_axes((1 - 2.1 / wide, 0.5 / tall, 1.9 / wide, (tall - 0.9) / tall))
        keep = thin(len(m), 4000)
        axes.plot([low, high], [low, high], color="#9aa1a9", lw=0.8, zorder=1)
        axes.scatter(truth[keep], m[keep], s=3, alpha=0.35, lw=0, color=colours.OKABE_ITO[0], rasterized=True)
        axes.set(xlabel="reference", ylabel="mass", xlim=(low, high), ylim=(low, high))
        axes.set_title(f"correlation {np.corrcoef(truth, m)[0, 1]:+.3f}", fontsize=9)
        _tidy(axes)
    return _finish(figure, path)


def reconstructions(
    points: Any, results: Mapping[str, Mapping[int, Any]], *, faces: Any = None, azimuth: float | None = None, elevation: float = 12.0,
    up: str = "auto", size: int = 420, path: Path | None = None,
) -> Figure:
    """Coordinates rebuilt from k basis vectors, one row a method, the input at the left; RMS error under each."""
    xyz, triangles, camera = _view(points, faces, azimuth, elevation, up)
    if not results or not all(results.values()):
        raise InputError("reconstructions needs at least one method with at least one k")
    screen = camera.project(xyz)[0]
    bounds = np.stack([screen.min(0), screen.max(0)])
    sizes = sorted({k for by_k in results.values() for k in by_k})
    images, titles, notes = [], ["input", *(f"k = {k}" for k in sizes)], []
    original = rasterise(xyz, triangles, camera, size, bounds=bounds).image(colours.CLAY)
    for by_k in results.values():
        images.append(original)
        notes.append("")
        for k in sizes:
            if k not in by_k:
                images.append(np.ones_like(original) * [1, 1, 1, 0])
                notes.append("")
                continue
            rebuilt = display_coordinates(by_k[k])
            error = np.linalg.norm(rebuilt - xyz, axis=1)
            images.append(rasterise(rebuilt, triangles, camera, size, bounds=bounds).image(colours.CLAY))
            notes.append(f"RMS {100 * np.sqrt((error**2).mean()) / camera.radius:.2f} % of radius")
    return _finish(_grid(images, titles, len(sizes) + 1, row_labels=list(results), notes=notes), path)


def gallery(
    clouds: Sequence[Any], titles: Sequence[str] | None = None, path: Path | None = None, *, per_row: int = 6, values: Sequence[Any] | None = None,
    azimuth: float | None = None, elevation: float = 12.0, up: str = "auto", size: int = 300,
) -> Figure:
    """Many shapes on one page: each item is points (n, d) or a pair (points, faces); `values` colours them, else clay."""
    if not len(clouds):
        raise InputError("gallery needs at least one cloud")
    images = []
    for index, item in enumerate(clouds):
        points, faces = item if isinstance(item, tuple) else (item, None)
        xyz, triangles, camera = _view(points, faces, azimuth, elevation, up)
        raster = rasterise(xyz, triangles, camera, size)
        image = raster.image(colours.CLAY) if values is None else _signed_image(raster, to_numpy(values[index]))
        side = size + 8
        square = np.zeros((side, side, 4))
        top, left = (side - image.shape[0]) // 2, (side - image.shape[1]) // 2
        square[max(top, 0) :, max(left, 0) :][: image.shape[0], : image.shape[1]] = image[:side, :side]
        images.append(square)
    return _finish(_grid(images, list(titles or []), min(per_row, len(images)), panel=1.5), path)


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9aa1a9")
    axes.tick_params(labelsize=8, length=2.5, color="#9aa1a9")
    axes.xaxis.label.set_size(9)
    axes.yaxis.label.set_size(9)


def eigenvalue_curves(curves: Mapping[str, Any], path: Path | None = None, *, title: str | None = None) -> Figure:
    """Eigenvalues against index, one line a method; a method called oracle (or exact) is drawn dashed on top."""
    if not curves:
        raise InputError("eigenvalue_curves needs at least one curve")
    figure = _figure(4.2, 3.0)
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
    _tidy(axes)
    return _finish(figure, path)


def _is_reference(name: str) -> bool:
    return any(word in name.lower() for word in ("oracle", "exact", "analytic"))


def embeddings(
    methods: Mapping[str, Any], labels: Any = None, path: Path | None = None, *, names: Sequence[str] | None = None, per_row: int = 4,
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
    total = (columns * side, rows * (side + 0.25) + foot)
    figure = _figure(*total)
    for index, (name, value) in enumerate(arrays.items()):
        row, column = divmod(index, columns)
        bottom = total[1] - (row + 1) * (side + 0.25)
        axes = figure.add_axes(((column * side + 0.08) / total[0], (bottom + 0.05) / total[1], (side - 0.16) / total[0], (side - 0.1) / total[1]))
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
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], ls="", marker="o", ms=4.5, mew=0, color=palette[i], label=str(names[int(c)] if names is not None else c))
            for i, c in enumerate(categories)
        ]
        figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), int(3 * columns) + 1), frameon=False, fontsize=7.5, handletextpad=0.1, columnspacing=0.9)
    return _finish(figure, path)
