"""The result: an ordered basis, its mass and its eigenvalues, its file and its display.

    Q (n, K)   normalised basis, Euclidean-orthonormal, q_1 > 0;   mass M = diag(q_1^2), sums to 1
    V (n, K)   unnormalised basis, V = M^{-1/2} Q, v_1 = 1, V^T M V = I

Numpy arrays and torch tensors share the operators used here, so a `Basis` holds whichever its maker
gave it. Pictures are made by `viz` and files for other programs by `geometry`, imported when one is
asked for.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from .errors import InputError
from .host.device import moved
from .host.files import Facts, atomic_path, reading
from .host.validation import as_array, validated
from .points import LARGEST, Array, Origin, check_finite, real_numbers

if TYPE_CHECKING:
    from .neighbors.graph import Graph
    from .smoothers import Smoother
    from .smoothers.prepared import OperatorSource, Prepared

FORMAT = "eigenprobe.basis/1"
# The arrays of a file: those that convert with the basis, and others.
CONVERTED = ("normalized", "mass", "eigenvalues", "points", "lifted")
STORED = (*CONVERTED, "faces", "rows", "short_cuts")
PLACES = ("faces", "short_cuts")  # of which each number is a point of the basis
A = TypeVar("A", bound=Any)  # NDArray[Any] or Tensor: the arrays of a basis
Numpy = NDArray[Any]


class Extension(Protocol):
    """Values of the fitted vectors ``V`` at new points; row ``i`` of the result depends on row
    ``i`` alone.
    """

    def __call__(self, points: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class SpectralOperator(Generic[A]):
    """The implicit operator ``left diag(values) right^T``, applied without ever forming the n x n
    matrix.
    """

    left: A  # (n, K)
    values: A  # (K,)
    right: A  # (n, K)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.left.shape[0], self.left.shape[0])

    def __matmul__(self, f: A) -> A:
        return self.left @ _scaled(self.values, self.right.T @ f)

    def to_dense(self) -> A:
        """The n x n matrix itself: for small n and for tests."""
        return (self.left * self.values) @ self.right.T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(_numpy(self.to_dense()), dtype=dtype)


@dataclass(frozen=True)
class Uncertainty:
    """A basis's estimate of its own error: nine of ten true errors lie within twice
    ``eigenvalues``.
    """

    eigenvalues: Numpy  # (K,) relative errors
    vectors: Numpy  # (K,) reproducible share in [0, 1]

    def __repr__(self) -> str:
        skipped = int(len(self.eigenvalues) > 1)  # the constant
        error, share = (each[skipped:][:10] for each in (self.eigenvalues, self.vectors))
        return (
            f"eigenvalues within about {100 * error.mean():.2g} %, "
            f"vectors {share.mean():.2f} reproducible (first {len(share)})"
        )


@dataclass(frozen=True, eq=False)
class Basis(Generic[A]):
    """A spectral decomposition, of numpy arrays or of torch tensors, as the points came.

    The methods apply the mass, so that ``basis.reconstruct(basis.project(f))`` is the M-orthogonal
    projection. A basis equals itself only: two decompositions are compared by
    ``evaluation.compare``.

    Parameters
    ----------
    normalized, mass, eigenvalues, points, info
        As below; `decompose` makes a basis, and nobody else has to.
    extension, faces, rows, short_cuts, lifted, source
        What it knows of the rest: values at new points, the mesh, the rows of the file, the edges
        that were cut, and what made it.

    Attributes
    ----------
    vectors
        Eigenvectors ``V (n, K)``: the first is constant, ``V^T M V = I``; signs are canonical.
    eigenvalues
        ``(K,)``, ascending, in the units of the points: one over a length squared.
    mass
        ``(n,)``, sums to 1.
    normalized
        ``Q = M^1/2 V (n, K)``, with orthonormal columns.
    info
        What is known about how it was made: method, dimension, components, seconds, ...

    Examples
    --------
    >>> import eigenprobe as ep
    >>> angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    >>> basis = ep.decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> basis.eigenvalues.round(2).tolist()
    [0.0, 1.0, 1.0, 4.0, 4.0]
    >>> np.abs(basis.project(3 * basis.vectors[:, 2])).round(6).tolist()
    [0.0, 0.0, 3.0, 0.0, 0.0]
    """

    normalized: A  # Q (n, K)
    mass: A  # (n,)
    eigenvalues: A  # (K,)
    points: A | None = None  # (n, d)
    info: Facts = field(default_factory=dict)
    extension: Extension | None = None
    # (f, 3) of the mesh whose vertices the points are: for pictures only
    faces: Numpy | None = None
    # (n,) the points of the source that these are, where some were chosen
    rows: Numpy | None = None
    short_cuts: Array | None = None  # (c, 2) pairs of points whose edge was cut from the graph
    lifted: A | None = None  # (n, K) the vectors, where some points have no mass to divide by
    # of `graph` and `smoother`: not in the file
    source: OperatorSource | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        shapes = [_shape(each) for each in (self.normalized, self.mass, self.eigenvalues)]
        n, k = shapes[0] if shapes[0] and len(shapes[0]) == 2 else (0, 0)
        if shapes != [(n, k), (n,), (k,)]:
            raise InputError(
                "expected a basis (n, K), mass (n,) and eigenvalues (K,) of real numbers, "
                f"got shapes {shapes}"
            )

    def __repr__(self) -> str:
        facts = ", ".join(
            f"{key}={value!r}" for key, value in self.info.items() if key in ("method", "dimension")
        )
        if "uncertainty" in self.__dict__:
            facts += f", {self.uncertainty!r}"
        return f"Basis(n={self.n}, k={self.k}{', ' + facts if facts else ''})"

    @property
    def n(self) -> int:
        return int(self.normalized.shape[0])

    @property
    def k(self) -> int:
        return int(self.normalized.shape[1])

    @property
    def vectors(self) -> A:
        """The eigenvectors ``V = M^{-1/2} Q`` (n, K): ``v_1`` is constant, ``V^T M V = I``."""
        return self.normalized / (self.mass**0.5)[:, None] if self.lifted is None else self.lifted

    @property
    def graph(self) -> Graph:
        """The graph that made this basis: its distinct points, in their order and units, and who is
        next to whom.

        Short-cuts are not in it. Built again from the points, by the settings in the file, after
        `load`.
        """
        graph = self.prepared().graph
        return graph.numpy() if isinstance(self.normalized, np.ndarray) else graph

    @property
    def smoother(self) -> Smoother:
        """The smoother ``A`` that made this basis, on the rows of `graph`: ``A q = (1 - lambda
        step_time) q``.
        """
        return self.prepared().smoother_as_given

    def prepared(self) -> Prepared:
        """The cloud as the smoother sees it (distinct points in memory order, in a frame of size
        one), and both.
        """
        if self.source is None:
            raise self._lacks("does not know what made it")
        return self.source.prepared(self.points)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Its own error, estimated when first asked for from the basis of half of the points:
        ``eigenvalues (K,)`` relative errors, and ``vectors (K,)`` the share of each that is
        reproducible.
        """
        from .decomposition.uncertainty import estimate_uncertainty

        return estimate_uncertainty(self)

    def project(self, f: Array) -> A:
        """Coefficients of a function in this basis.

        Parameters
        ----------
        f
            A function ``(n,)`` on the points, or several ``(n, m)``.

        Returns
        -------
        ``V^T M f``, ``(K,)`` or ``(K, m)``.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> (basis.project(np.ones(200)).round(6) + 0.0).tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0]
        """
        return self.normalized.T @ _scaled(self.mass**0.5, self._functions(f))

    def reconstruct(self, coefficients: Array) -> A:
        """The function with given coefficients.

        Parameters
        ----------
        coefficients
            ``(k,)`` or ``(k, m)``; fewer than K use the first vectors.

        Returns
        -------
        ``V c``, ``(n,)`` or ``(n, m)``.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> f = basis.points[:, 0]
        >>> bool(np.allclose(basis.reconstruct(basis.project(f)), f, atol=1e-3))
        True
        """
        c = self._like(coefficients)
        if c.ndim > 2 or len(c) > self.k:
            raise InputError(
                f"expected at most {self.k} coefficients (k,) or (k, m), got shape {tuple(c.shape)}"
            )
        return self.vectors[:, : len(c)] @ c

    def filter(self, f: Array, response: Callable[[A], Array] | Array) -> A:
        """A function with its frequencies weighted.

        Parameters
        ----------
        f
            ``(n,)`` or ``(n, m)``.
        response
            ``g``: a function of the eigenvalues, or K numbers; ``lambda e: np.exp(-t * e)`` is heat
            after a time ``t``.

        Returns
        -------
        ``V g(lambda) V^T M f``.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> warm = basis.filter(basis.points[:, 0], lambda e: np.exp(-e))
        >>> bool(np.allclose(warm, np.exp(-1) * basis.points[:, 0], atol=1e-3))
        True
        """
        if isinstance(response, str):
            raise InputError(
                f"expected a function of the eigenvalues or {self.k} numbers, got {response!r}: "
                "ep.apps.response makes a function of a name"
            )
        gain = self._like(response(self.eigenvalues) if callable(response) else response)
        if tuple(gain.shape) != (self.k,):
            raise InputError(
                f"expected a response of {self.k} numbers, got shape {tuple(gain.shape)}"
            )
        return self.reconstruct(_scaled(gain, self.project(f)))

    def operator(self, normalized: bool = True) -> SpectralOperator[A]:
        """The operator that the basis stands for, without ever forming the ``n x n`` matrix.

        Parameters
        ----------
        normalized
            ``Q diag(lambda) Q^T``; else ``M^{-1/2} Q diag(lambda) Q^T M^{1/2}``, which acts on
            functions.

        Returns
        -------
        SpectralOperator
            Which has ``@``, ``shape`` and ``to_dense()``.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> f = basis.vectors[:, 1]
        >>> bool(np.allclose(basis.operator(normalized=False) @ f, f, atol=1e-2))
        True
        """
        left, right = self.normalized, self.normalized
        if not normalized:
            left, right = self.vectors, _scaled(self.mass**0.5, right)
        return SpectralOperator(left, self.eigenvalues, right)

    @validated
    def truncate(self, k: int) -> Basis[A]:
        """The basis of the first vectors only.

        Parameters
        ----------
        k
            How many, from 1 to K.

        Returns
        -------
        Basis

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> basis.truncate(3).vectors.shape
        (200, 3)
        """
        if not 1 <= k <= self.k:
            raise InputError(f"expected 1 <= k <= {self.k}, got {k}")
        lifted = None if self.lifted is None else self.lifted[:, :k]
        return replace(
            self, normalized=self.normalized[:, :k], eigenvalues=self.eigenvalues[:k], lifted=lifted
        )

    def __call__(self, points: Array) -> A:
        """Values of the eigenvectors at new points.

        Parameters
        ----------
        points
            ``(m, d)``, in the units of the fitted ones.

        Returns
        -------
        ``(m, K)``. Each row depends on its own point alone, and is the fitted one at a fitted
        point.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> bool(np.allclose(basis(basis.points[:7]), basis.vectors[:7]))
        True
        """
        if self.extension is None:
            raise self._lacks("has no values at new points")
        x = real_numbers(points, "new points")[1]
        if x.ndim != 2 or (self.points is not None and x.shape[1] != self.points.shape[1]):
            d = "d" if self.points is None else self.points.shape[1]
            raise InputError(f"expected new points of shape (m, {d}), got {tuple(x.shape)}")
        check_finite(x, "new points")
        values: Any = self.extension(x)[:, : self.k].to(torch.as_tensor(self.normalized).dtype)
        return _numpy(values) if isinstance(self.normalized, np.ndarray) else values

    def numpy(self) -> Basis[Numpy]:
        """The same basis with numpy arrays.

        Returns
        -------
        Basis

        Examples
        --------
        >>> import torch
        >>> from eigenprobe import decompose
        >>> basis = decompose(torch.rand(300, 3), k=4)
        >>> type(basis.numpy().vectors).__name__
        'ndarray'
        """
        return self._map(_numpy)

    def torch(self, device: torch.device | str = "cpu") -> Basis[Tensor]:
        """The same basis with torch tensors.

        Parameters
        ----------
        device
            Where they lie.

        Returns
        -------
        Basis

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> basis = decompose(np.random.default_rng(0).normal(size=(300, 3)), k=4)
        >>> type(basis.torch().vectors).__name__
        'Tensor'
        """
        return self._map(lambda a: moved(torch.as_tensor(a), device))

    def as_given(self, origin: Origin) -> Basis:
        """The same basis in the kind of array, precision and device that the points came in."""
        result = self.torch(origin.device)._map(
            lambda a: _within(a, origin.dtype) if a.is_floating_point() else a
        )
        return replace(result.numpy() if origin.numpy else result, points=origin.points)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, the extension included, as one file (whole or not at all).

        Parameters
        ----------
        path
            A safetensors file, which `load` reads. Other suffixes are for other programs
            (`geometry.export`): ply, vtk and vtu carry the points, the faces and the vectors as
            scalars, npz and mat the arrays, csv a line per point.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from eigenprobe import decompose
        >>> angle = np.arange(200) * np.pi / 100
        >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
        >>> with TemporaryDirectory() as folder:
        ...     basis.save(f"{folder}/ring.safetensors")
        ...     Basis.load(f"{folder}/ring.safetensors").k
        5
        """
        if os.path.splitext(path)[1].lower() not in ("", ".safetensors"):
            from .geometry.export import write_functions

            return write_functions(path, self)
        tensors = {name: each for name in STORED if (each := getattr(self, name)) is not None}
        header: Facts = {"format": FORMAT, "info": self.info}
        if self.source is not None and (record := self.source.record()) is not None:
            header["operator"] = record
        if self.extension is not None:
            from .extensions.functions import packed

            own, facts = packed(self.extension)
            tensors |= {f"extension.{name}": tensor for name, tensor in own.items()}
            header["extension"] = {"kind": facts.pop("kind"), "facts": facts}
        for name, tensor in tensors.items():
            tensors[name] = torch.as_tensor(tensor).detach().cpu().contiguous().clone()
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata={"eigenprobe": json.dumps(header, default=str)})

    @classmethod
    @validated
    def load(cls, path: str | os.PathLike[str]) -> Basis[Numpy]:
        """Read what `save` wrote, as numpy arrays.

        Parameters
        ----------
        path
            A safetensors file.

        Returns
        -------
        Basis

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from eigenprobe import decompose
        >>> basis = decompose(np.random.default_rng(0).normal(size=(300, 3)), k=4)
        >>> with TemporaryDirectory() as folder:
        ...     basis.save(f"{folder}/cloud.safetensors")
        ...     same = Basis.load(f"{folder}/cloud.safetensors")
        >>> bool((same.vectors == basis.vectors).all())
        True
        """
        if not os.path.isfile(path):
            raise InputError(f"no such basis file: {path}")
        with reading(path, "a basis written by eigenprobe"):
            with safe_open(path, framework="pt") as file:
                header = json.loads((file.metadata() or {}).get("eigenprobe", "{}"))
                if (found := header.get("format")) != FORMAT:
                    raise InputError(
                        f"expected a basis written by eigenprobe ({FORMAT}), got {found!r}"
                    )
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            _check_stored(tensors)
            extension, facts = None, header.get("extension")
            if facts is not None and facts["kind"] != "pretrained":  # a model of the third edition
                from .extensions.functions import beginning_with, unpacked

                own = beginning_with("extension.", tensors)
                extension = unpacked(own, facts["facts"] | {"kind": facts["kind"]})
            stored: dict[str, Any] = {name: tensors.get(name) for name in STORED}
            info = dict(header.get("info", {}))
            if not 0 <= float(info.get("dimension", 0)) < math.inf:
                raise InputError(f"expected a dimension, got {info['dimension']!r}")
            if (record := header.get("operator")) is not None:
                from .decomposition.settings import OperatorSettings
                from .smoothers.prepared import OperatorSource

                stored["source"] = OperatorSource(OperatorSettings(**record))
            return Basis(**stored, info=info, extension=extension).numpy()

    def plot(
        self,
        indices: int | Sequence[int] | None = None,
        *,
        interactive: bool = False,
        faces: Array = None,
        **view: Any,
    ) -> Any:
        """Eigenfunctions drawn on the points.

        Parameters
        ----------
        indices
            Which columns of ``vectors``, or a number: the first so many. By default ten after the
            constant.
        interactive
            Whether to make a scene to turn, for a notebook.
        faces
            Triangles ``(f, 3)`` between the points, if not those of the basis.
        view
            Options of `viz.figures.eigenfunctions`: path, per_row, azimuth, elevation, up, size; of
            an interactive scene: limit, the most points in it.

        Returns
        -------
        A matplotlib Figure, or a scene.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> basis = decompose(np.random.default_rng(0).normal(size=(300, 3)), k=4)
        >>> len(basis.plot([1, 2]).get_axes()) > 0
        True
        """
        if self.points is None:
            raise InputError("a plot needs points, this basis carries none")
        if interactive and (unknown := sorted(set(view) - {"limit"})):
            raise InputError(
                f"an interactive plot does not take {unknown[0]}: turn it with the mouse"
            )
        from .viz.figures import eigenfunctions
        from .viz.report import interactive_scene

        view |= {"columns": indices, "faces": self.faces if faces is None else faces}
        if interactive:
            return interactive_scene(self, **view)
        # Outliers, which have no mass, are no part of a cloud's surface.
        rows = slice(None) if view["faces"] is not None else self.mass > 0
        return eigenfunctions(
            self.points[rows], self.vectors[rows], eigenvalues=self.eigenvalues, **view
        )

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write one HTML page to explore in a browser.

        Parameters
        ----------
        path
            An html file.
        options
            Of `viz.report.write_report`.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from eigenprobe import decompose
        >>> basis = decompose(np.random.default_rng(0).normal(size=(300, 3)), k=4)
        >>> with TemporaryDirectory() as folder:
        ...     basis.report(path := Path(folder) / "cloud.html")
        ...     path.read_text().startswith("<!doctype html>")
        True
        """
        from .viz.report import write_report

        write_report(path, self, **{"faces": self.faces, "facts": self.info, **options})

    def show(self, values: Any = None, **options: Any) -> Any:
        """The report, live in the browser.

        Parameters
        ----------
        values
            Functions ``(n,)`` of your own to show on the shape: by their names, or one.
        options
            Of `viz.viewer.serve`, which returns at once (``block=False``).

        Returns
        -------
        Viewer
            With `set`, `choice`, `url` and `stop`.

        Examples
        --------
        >>> from eigenprobe import decompose
        >>> basis = decompose(np.random.default_rng(0).normal(size=(300, 3)), k=4)
        >>> viewer = basis.show(values={"height": basis.points[:, 2]})
        >>> viewer.set(index=3)
        >>> viewer.stop()
        """
        from .viz.page import open_browser
        from .viz.viewer import serve

        viewer = serve(self, values=values, **{"block": False, **options})
        open_browser(viewer.url)
        return viewer

    def _map(self, convert: Callable[[Array], Array]) -> Basis:
        arrays: dict[str, Any] = {}
        for name in STORED:
            if (array := getattr(self, name)) is not None:
                arrays[name] = convert(array) if name in CONVERTED else _numpy(array)
        return replace(self, **arrays)

    def _lacks(self, what: str) -> InputError:
        method = self.info.get("method", "unknown")
        return InputError(f"this basis (method {method!r}) {what}: decompose its points")

    def _like(self, values: Array) -> Array:
        if not isinstance(values, Tensor):
            values = as_array(values)
            if values.dtype.kind not in "fiubc" or values.ndim == 0:
                raise InputError(
                    f"expected an array of numbers, got {values.dtype} of shape {values.shape}"
                )
        if isinstance(self.normalized, np.ndarray):
            return np.asarray(_numpy(values))
        return torch.as_tensor(values, dtype=self.normalized.dtype, device=self.normalized.device)

    def _functions(self, f: Array) -> Array:
        f = self._like(f)
        if f.ndim not in (1, 2) or f.shape[0] != self.n:
            raise InputError(
                f"expected a function of shape ({self.n},) or ({self.n}, m), got {tuple(f.shape)}"
            )
        return f


def _shape(values: Any) -> tuple[int, ...] | None:
    """The shape of a tensor or an array of real numbers, None of anything else."""
    real = isinstance(values, Tensor) or (
        isinstance(values, np.ndarray) and values.dtype.kind in "fiu"
    )
    return tuple(values.shape) if real else None


def _check_stored(tensors: dict[str, Tensor]) -> None:
    """Whether the tensors of a file are numbers that fit each other."""
    q, mass = tensors["normalized"], tensors["mass"]
    n = len(q)
    shapes = {"lifted": q.shape, "rows": (n,), "points": (n, *tensors.get("points", q).shape[1:2])}
    for name, tensor in tensors.items():
        index = name in ("faces", "rows", "short_cuts") or name.endswith("indices")
        most = n - 1 if name in PLACES else math.inf if name == "eigenvalues" else LARGEST
        sound = tuple(tensor.shape) == tuple(shapes.get(name, tensor.shape))
        sound &= bool((tensor.isfinite() & (tensor.double().abs() <= most)).all())
        sound &= not index or bool((tensor >= 0).all())
        if (name.startswith("extension.") and not index) or tensor is q:
            sound &= tensor.dtype in (torch.float32, torch.float64)
        if not sound:
            raise InputError(
                f"expected finite numbers in {name!r} that fit a basis {tuple(q.shape)}, "
                f"got others in {tensor.dtype} of shape {tuple(tensor.shape)}"
            )
    if not bool((mass >= 0 if "lifted" in tensors else mass > 0).all()):
        raise InputError("expected a positive mass, got others")


def _within(values: Tensor, dtype: torch.dtype) -> Tensor:
    """``values`` in this precision, unless its range ends before them: eigenvalues are one over a
    length squared.
    """
    converted, eps = values.to(dtype), torch.finfo(dtype).eps
    if values.ndim > 1 or values.dtype == dtype:
        return converted
    same = torch.isclose(converted.to(values.dtype), values, rtol=eps, atol=0)
    return converted if bool(same.all()) else values


def _scaled(weights: Array, values: Array) -> Array:
    """``diag(weights)`` times a column or several."""
    return weights * values if values.ndim == 1 else weights[:, None] * values


def _numpy(values: Array) -> Array:
    return as_array(values) if isinstance(values, Tensor) else values
