"""What is asked of points before anything is computed: checks, a frame of size one, coinciding
points.

    frame       y = (x - centre) / scale    centre = mean, scale = max_i |x_i - centre|
    unit rows   y = x / |x|                 for the cosine distance, which sees angles only

Eigenvalues are length^-2: those of the framed points are divided by scale^2.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .errors import InputError, warn
from .host.device import resolved
from .host.validation import as_array

R = TypeVar("R")
Array = Any  # np.ndarray or torch.Tensor: what came in goes out
CARRIERS = ("vertices", "points", "pos")  # attributes of objects of other libraries
BLOCK = 1 << 18  # numbers moved into a frame at once on a processor
# sizes of a cloud whose eigenvalues, one over its square, are ordinary numbers
SMALLEST, LARGEST = 1e-140, 1e140
SOME = 1000  # rows that are looked at


@dataclass(frozen=True)
class Origin:
    """The kind of array that the caller gave: what comes back is of the same kind, precision and
    device.
    """

    points: Array
    dtype: torch.dtype
    device: torch.device
    numpy: bool


def opened(source: Any) -> Any:
    """The shape that a file holds, with points drawn on its faces where its vertices do not cover
    them; anything else as it is."""
    if not isinstance(source, (str, os.PathLike)):
        return source
    # The folders that read files and draw points are later ones: imported when needed.
    from .geometry.draws import covered
    from .io.shapes import load

    return covered(load(source))


def points_and_faces(source: Any) -> tuple[Any, np.ndarray | None]:
    """The points of whatever carries them, and the triangles ``(f, 3)`` between them, if it has
    any.

    A file; a pair ``(V, F)``; ``vertices`` (`geometry.Shape`, trimesh, Open3D meshes); ``points``
    (Open3D clouds, PyVista); ``pos`` (PyTorch Geometric). Arrays, tables and lists are points
    already.
    """
    source = opened(source)
    if is_mesh_pair(source):
        return source[0], as_array(source[1]).astype(np.int64)
    if hasattr(source, "columns"):  # a table
        names = {str(name).lower(): name for name in source.columns}
        if {"x", "y", "z"} <= names.keys():
            source = source[[names[axis] for axis in ("x", "y", "z")]]
    if hasattr(source, "ndim") or isinstance(source, (list, tuple)):
        return source, None
    points = _first(source, CARRIERS)
    if points is None:
        raise InputError(
            "expected points (n, d), a file, a mesh, or an object with vertices, points or pos, "
            f"got {type(source).__name__}"
        )
    faces = as_array(_first(source, ("faces", "triangles", "face")))
    if faces.ndim == 1 and len(faces) % 4 == 0 and (faces[::4] == 3).all():
        faces = faces.reshape(-1, 4)[:, 1:]  # VTK: 3, a, b, c, 3, d, e, f, ...
    elif getattr(source, "face", None) is not None:
        faces = faces.T  # PyTorch Geometric: (3, f)
    if faces.ndim != 2 or faces.size == 0:
        return _array(points), None
    return _array(points), faces.astype(np.int64)


def _first(source: object, names: tuple[str, ...]) -> Any:
    return next(
        (found for name in names if (found := getattr(source, name, None)) is not None), None
    )


def is_mesh_pair(source: object) -> bool:
    """Whether this is ``(V, F)``: points and triples of their indices, and not two clouds."""
    if not isinstance(source, tuple) or len(source) != 2:
        return False
    points, faces = map(_array, source)
    triples = points.ndim == faces.ndim == 2 and faces.shape[1] == 3 and len(faces) > 0
    whole = triples and "int" in str(faces.dtype)
    return bool(whole and faces.min() >= 0 and faces.max() < len(points))


def listed_clouds(points: Any) -> list[Any] | None:
    """The clouds of a list, a generator or a batch ``(b, n, d)``; None where it is one, as lists of
    numbers are.
    """
    if isinstance(points, Tensor) and points.is_nested:  # clouds of several sizes
        return list(points.unbind())
    listed = isinstance(points, (list, tuple, Iterator)) and not is_mesh_pair(points)
    if not listed and getattr(points, "ndim", 2) != 3:
        return None
    clouds = list(points)
    if not clouds:
        kind = "list" if listed else "batch"
        raise InputError(f"expected at least one cloud, got an empty {kind}")
    if isinstance(points, (list, tuple)) and not any(_is_cloud(each) for each in clouds):
        return None
    return clouds


def _is_cloud(each: object) -> bool:
    if isinstance(each, (list, tuple)):
        return bool(each) and (isinstance(each[0], (list, tuple)) or np.ndim(each[0]) > 0)
    named = isinstance(each, (str, os.PathLike)) or _first(each, CARRIERS) is not None
    return named or getattr(each, "ndim", 0) > 1


def _warn_of_rounding(array: Any) -> None:
    """Coordinates far from the origin that single precision has rounded, here or in a file: a step
    between two such numbers is ``eps max|x|``, and points of a surface lie about ``size / sqrt(n)``
    apart. Areas and angles show a step of a fiftieth of that (2 % of an edge). A text of
    nine digits tells all numbers in float32 apart, and is off by at most ``5e-9 max|x|``, a 24th of
    a step; numbers that were not rounded lie anywhere."""
    n = len(array)
    values = as_array(array[:: max(1, n // SOME)])
    if values.shape[1] != 3 or values.dtype.kind != "f":
        return
    largest, spacing = float(np.abs(values).max()), float(np.ptp(values, axis=0).max()) / n**0.5
    step = float(np.finfo(np.float32).eps) * largest
    if not step > 0.02 * spacing > 0 or not np.isfinite(largest):
        return
    rounded = np.abs(values - values.astype(np.float32)).max() <= step / 24
    whole = values.dtype.itemsize > 4 and (values == values.round()).all()  # as grids are
    if rounded and not whole:
        warn(
            f"coordinates of {largest:.3g} in float32 are rounded to {step:.2g}, and points lie "
            f"about {spacing:.2g} apart: subtract an offset from the original numbers, or read "
            "them as float64"
        )


def values_by_cloud(values: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """The values of every cloud: a list has an entry for each of ``count`` clouds, anything else is
    shared.
    """
    found = [dict(values) for _ in range(count)]
    for name, value in values.items():
        if not isinstance(value, (list, tuple)):
            continue
        if len(value) != count:
            raise InputError(f"expected a {name} for each of {count} clouds, got {len(value)}")
        for own, each in zip(found, value, strict=True):
            own[name] = each
    return found


def call_by_cloud(count: int, call: Callable[[int], R]) -> list[R]:
    """``call(number)`` for every cloud; an error says which cloud it was."""
    found = []
    for number in range(count):
        try:
            found.append(call(number))
        except InputError as error:
            raise InputError(f"cloud {number}: {error}") from error
    return found


def _array(values: object) -> Any:
    return values if isinstance(values, Tensor) else as_array(values)


def real_numbers(points: Any, what: str = "points") -> tuple[Array, Tensor]:
    """An array or tensor of real numbers, dense and unmasked, as it is and as a tensor (an array in
    double precision)."""
    if isinstance(points, np.ma.MaskedArray) and np.ma.is_masked(points):
        bad = np.flatnonzero(np.ma.getmaskarray(points).reshape(len(points), -1).any(1))
        raise InputError(
            f"expected {what} without masked entries, got {len(bad)} rows with some, "
            f"the first {bad[0]}"
        )
    array: Array = strided(points) if isinstance(points, Tensor) else np.asarray(as_array(points))
    tensor = array
    if isinstance(points, Tensor):
        real = not (array.is_complex() or array.dtype == torch.bool)
    elif real := array.dtype.kind in "fiu":
        tensor = torch.as_tensor(np.require(array, np.float64, ["C", "W"]))  # writable
    if not real:
        raise InputError(f"expected {what} of real numbers, got dtype {array.dtype}")
    return array, tensor


def check_points(
    points: Array, k: int, device: str | torch.device | None = None, *, finite: bool = True
) -> tuple[Tensor, Origin]:
    """The points as a float64 tensor ``(n, d)`` on ``device``, finite if so asked, and where they
    came from.
    """
    points, _ = points_and_faces(points)
    array, tensor = real_numbers(points)
    if array.ndim != 2 or array.shape[1] < 1:
        raise InputError(f"expected points of shape (n, d), got {tuple(array.shape)}")
    check_count(array.shape[0], k)
    _warn_of_rounding(array)
    single = str(array.dtype).endswith(("float16", "float32"))  # bfloat16 too
    dtype = torch.float32 if single else torch.float64
    origin = Origin(array, dtype, tensor.device, isinstance(array, np.ndarray))
    tensor = tensor.detach().to(None if device is None else resolved(device), torch.float64)
    if finite:
        check_finite(tensor, "points")
    return tensor, origin


def check_finite(points: Tensor, what: str) -> None:
    """Whether all rows are finite numbers."""
    bad = (~torch.isfinite(points).all(1)).nonzero()
    if len(bad):
        raise InputError(
            f"expected finite {what}, got {len(bad)} with NaN or infinity, the first in row "
            f"{int(bad[0])}"
        )


def as_tensor(points: object) -> Tensor:
    """Tensors as they are; anything else that `points_and_faces` takes, checked, in its own
    precision.
    """
    if isinstance(points, Tensor) and points.dtype in (torch.float32, torch.float64):
        return strided(points)
    tensor, origin = check_points(points, 1)
    return tensor.to(origin.dtype)


def strided(points: Tensor) -> Tensor:
    """The tensor itself; one that is sparse, nested, quantised or without storage is an error."""
    odd = points.is_nested or points.is_quantized or points.is_meta
    if odd or points.layout != torch.strided:
        raise InputError(
            f"expected a dense tensor of ordinary numbers, got {points.dtype} in layout "
            f"{points.layout} on {points.device}"
        )
    return points


def check_count(n: int, k: int, kind: str = "") -> None:
    """Whether ``n`` points are enough for ``k`` vectors."""
    if k < 1:
        raise InputError(f"k must be a whole number of at least 1, got {k}")
    if n < max(k + 1, 3):
        raise InputError(f"k={k} needs at least {max(k + 1, 3)} {kind}points, got {n}")


@dataclass(frozen=True)
class Frame:
    """``x -> (x - centre) / scale``; ``unit`` first divides every point by its norm."""

    centre: Tensor  # (d,) float64
    scale: float
    unit: bool = False

    @classmethod
    def of(cls, points: Tensor, metric: str = "euclidean", *, centred: bool = True) -> Frame:
        """The frame of ``points (n, d)``. With the cosine metric rows are made unit vectors first;
        ``centred=False`` then leaves them so, because moving them would change their angles.
        """
        unit = metric == "cosine"
        if unit and not centred:
            return cls(points.new_zeros(points.shape[1], dtype=torch.float64), 1.0, True)
        points = points.detach().double()
        if unit:
            points = unit_rows(points)
        largest = float(points.abs().max())
        if largest > LARGEST:
            raise InputError(
                f"expected coordinates of at most {LARGEST:.0e}, got {largest:.3g}: change the unit"
            )
        centre = points.mean(0)
        extent = float((points - centre).abs().max())
        if not extent > 1e-12 * largest or not math.isfinite(extent):
            raise InputError(f"expected distinct points, got {len(points)} that are all equal")
        if extent < SMALLEST:
            raise InputError(
                f"expected a cloud larger than {SMALLEST:.0e}, got size {extent:.3g}: "
                "change the unit"
            )
        return cls(centre, extent * float(((points - centre) / extent).norm(dim=1).max()), unit)

    def __call__(self, points: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        # In parts: of large tables no copy in double precision is made, and from a processor's
        # cache it is faster.
        numbers = BLOCK if points.device.type == "cpu" else BLOCK << 7
        size = max(1, numbers // max(1, points.shape[1]))
        found = torch.empty(points.shape, dtype=dtype, device=points.device)
        for i, part in enumerate(points.split(size)):
            part = unit_rows(part.double(), i * size) if self.unit else part.double()
            part = (part - self.centre.to(points.device)) / self.scale
            found[i * size : i * size + len(part)] = part
        if dtype == torch.float32 and not bool(torch.isfinite(found).all()):
            row = int((~torch.isfinite(found)).any(1).nonzero()[0, 0])
            raise InputError(
                f"row {row} is too far from the fitted points for single precision: change its unit"
            )
        return found


def unit_rows(points: Tensor, first: int = 0) -> Tensor:
    """Rows of length one, scaled by their largest entry first: squares of tiny or huge numbers
    leave the range.

    ``first`` is the number of the first row, for messages.
    """
    largest = points.abs().amax(1, keepdim=True)
    if not bool((largest > 0).all()):
        row = first + int((largest[:, 0] == 0).nonzero()[0, 0])
        raise InputError(
            f"cosine distance needs non-zero rows, row {row} is all zeros (use metric='euclidean')"
        )
    points = points / largest
    return points / points.norm(dim=1, keepdim=True)
