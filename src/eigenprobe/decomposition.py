"""The one front door: a cloud in, a `Basis` out, by whichever of the three methods.

    direct       the closed-form optimum: leading eigenvectors of the smoother (the PCA of its probes)
    network      a network trained on this cloud alone
    pretrained   one forward pass of a model trained on many shapes, then a Ritz rotation

Several clouds give a list of bases in the order of the clouds.

Points are centred and scaled before anything else, and eigenvalues scaled back, so units and offsets cost no digits.
Coinciding points are merged: each copy gets the value and an equal share of the mass of the one point they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from .basis import Basis
from .cloud import Array, check_points, is_mesh_pair, points_and_faces
from .eigen import Span, rotate, solve
from .eigen.basis import basis_of
from .errors import InputError
from .extensions import KernelExtension
from .graph import Metric
from .graph.arranged import Arranged, arrange
from .pretrained.neighbours import Neighbours, without_short_cuts
from .probes.given import Eigenvalues, best_basis, check_estimator, with_eigenvalues
from .smoothers import BALANCED_DIMENSIONS, NEIGHBOURS, Kind, Smoother, build_smoother, check_kind
from .smoothers.altered import alter, numbers
from .smoothers.balanced import FIRM, balanced_smoother
from .threads import limited_threads

Method = Literal["direct", "network", "pretrained"]
PER_POINT = ("potential", "boundary", "probes")


@overload
def decompose(
    points: np.ndarray | Tensor, k: int = 50, method: Method = "direct", **options: Any
) -> Basis: ...  # a batch (b, n, d) gives a list, which no annotation of an array can tell


@overload
def decompose(points: Sequence[Array], k: int = 50, method: Method = "direct", **options: Any) -> list[Basis]: ...


def decompose(
    points: Array | Sequence[Array],
    k: int = 50,
    method: Method = "direct",
    *,
    smoother: Kind | Smoother = "adaptive",
    metric: Metric = "euclidean",
    neighbours: Neighbours | None = None,
    bandwidth: float | None = None,
    dimension: float | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    tol: float = 1e-6,
    potential: Array | None = None,
    boundary: str | Array | None = None,
    probes: Array | None = None,
    eigenvalues: Eigenvalues = "rayleigh",
    **options: Any,
) -> Basis | list[Basis]:
    """The spectral decomposition of a point cloud, or of each of several.

    Parameters
    ----------
    points
        ``(n, d)`` numpy array or torch tensor. What comes back is of the same kind, precision and device. Also a path,
        a pair ``(V, F)`` or an object of trimesh, Open3D, PyVista or PyTorch Geometric: its faces are not used, and
        kept for pictures. A list of such, of any sizes, or a batch ``(b, n, d)`` gives a list of bases in the same
        order; the settings are shared.
        A list given as ``potential``, ``boundary`` or ``probes`` then has one entry per cloud.
    k
        How many basis vectors, the constant one included.
    method
        ``"direct"`` (closed form), ``"network"`` (trained on this cloud) or ``"pretrained"`` (feed-forward).
    smoother
        ``"adaptive"`` (default, measures area whatever the sampling), ``"symmetric"``, ``"row"`` (the paper's), or a
        `Smoother` of these very points.
    neighbours
        Which neighbours are real. ``"learned"`` (default on surfaces in three dimensions): the shipped network cuts
        edges that are short-cuts through thin parts and between touching ones; ``"plain"``: all of the nearest;
        a number: that many, uncut.
    metric, bandwidth, dimension
        Of the graph and the smoother; all are chosen from the data by default.
    seed, device
        Of random starts; where to compute (default: where the points are).
    tol
        Residual ``|A q - mu q|`` that ``direct`` guarantees.
    potential
        ``v (n,)`` in ``length^-2``: the spectrum of ``L + diag(v)`` (Schroedinger, Hamiltonian). The first vector is
        the ground state instead of the constant, and eigenvalues are at least ``min v``. Direct only.
    boundary
        ``"dirichlet"``: functions that vanish at the boundary of the cloud, that is at its outermost points; or where
        a bool mask ``(n,)`` says. Without it the boundary is free (Neumann). Direct only.
    probes
        Functions ``f (n, m)``: the basis that best reconstructs them in the norm of the mass, by descending energy
        (``info["explained"]``), instead of the smoothest one. Its eigenvalues are Rayleigh quotients and need not
        ascend. Needs at least ``k`` independent ones. Direct only.
    eigenvalues
        How they are estimated: ``"rayleigh"`` quotients of the smoother; or the paper's ``"mean"`` and ``"worst"``, one
        over the mean or the largest error with which the vectors before reconstruct probes, the first one 0 and the
        sum that of the Rayleigh quotients. Direct only.
    options
        Passed on to the network fit or to the pretrained model's ``encode``.

    Examples
    --------
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> basis.eigenvalues.round(2).tolist()
    [0.0, 1.0, 1.0, 4.0, 4.0]
    """
    settings = {**locals()}  # before anything else: all that the caller chose, for each of several clouds
    if (clouds := _several(settings.pop("points"))) is not None:
        return _each(clouds, settings.pop("options") | settings)
    if method not in ("direct", "network", "pretrained"):
        raise InputError(f"method must be 'direct', 'network' or 'pretrained', got {method!r}")
    if isinstance(points, (str, os.PathLike)):
        from .geometry import load

        points = load(points)
    points, faces = points_and_faces(points)
    x, origin = check_points(points, k, device)
    began = time.perf_counter()
    chosen: dict[str, Any] = {
        "metric": metric,
        "neighbours": neighbours,
        "bandwidth": bandwidth,
        "dimension": dimension,
    }
    if eigenvalues != "rayleigh":
        check_estimator(eigenvalues)
    asked = {"potential": potential, "boundary": boundary, "probes": probes}
    if method != "direct":
        _direct_only(method, asked | {"eigenvalues": None if eigenvalues == "rayleigh" else eigenvalues})
    if method == "direct":
        if options:
            raise InputError(f"method 'direct' does not know the option {sorted(options)[0]!r}")
        with limited_threads(x.device, len(x)):
            basis = _direct(x, k, smoother, seed, tol, chosen, asked | {"eigenvalues": eigenvalues})
    elif method == "network":
        from .training.fit import fit_network

        with limited_threads(x.device):
            basis = fit_network(x, k, seed=seed, smoother=smoother, **chosen, **options)
    else:
        from .pretrained.model import SpectralModel

        _refuse({**chosen, "smoother": smoother, "seed": seed, "tol": tol})
        basis = SpectralModel.from_pretrained(options.pop("model", "surface")).encode(x, k=k, **options)
    info = basis.info | {"method": method, "seconds": round(time.perf_counter() - began, 4)}
    return replace(basis, info=info, faces=faces).as_given(origin)


def _several(points: Any) -> list[Array] | None:
    """The clouds of a list or of a batch ``(b, n, d)``; None where it is one cloud, as nested lists of numbers are."""
    if isinstance(points, (list, tuple)) and not is_mesh_pair(points):
        if not points:
            raise InputError("expected at least one cloud, got an empty list")
        return list(points) if any(_is_cloud(each) for each in points) else None
    return list(points) if getattr(points, "ndim", 2) == 3 else None


def _is_cloud(each: Any) -> bool:
    if isinstance(each, (list, tuple)):
        return bool(each) and (isinstance(each[0], (list, tuple)) or getattr(each[0], "ndim", 0) > 0)
    carrier = any(getattr(each, name, None) is not None for name in ("vertices", "points", "pos"))
    return getattr(each, "ndim", 0) > 1 or isinstance(each, (str, os.PathLike)) or carrier


def _each(clouds: list[Array], settings: dict[str, Any]) -> list[Basis]:
    """Cloud by cloud; an error says which one it was."""
    several = {name: settings[name] for name in PER_POINT if isinstance(settings.get(name), (list, tuple))}
    for name, value in several.items():
        if len(value) != len(clouds):
            raise InputError(f"expected a {name} for each of {len(clouds)} clouds, got {len(value)}")
    bases = []
    for number, cloud in enumerate(clouds):
        own = {name: value[number] for name, value in several.items()}
        try:
            bases.append(decompose(cloud, **(settings | own)))
        except InputError as error:
            raise InputError(f"cloud {number}: {error}") from error
    return bases


def _refuse(chosen: dict[str, Any]) -> None:
    """A pretrained model has its graph and its smoother built in: settings of others are errors, not silence."""
    default = {"metric": "euclidean", "smoother": "adaptive", "seed": 0, "tol": 1e-6}
    for name, value in chosen.items():
        if value != default.get(name):
            raise InputError(f"method 'pretrained' does not take {name}, got {name}={value!r}: use method='direct'")


def _direct_only(method: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is known to method 'direct' only, got method {method!r}")


def _direct(
    x: Tensor,
    k: int,
    smoother: Kind | Smoother,
    seed: int,
    tol: float,
    chosen: dict[str, Any],
    asked: dict[str, Any],
) -> Basis:
    """The closed-form optimum on float64 points ``(n, d)``."""
    cloud, ready = smoothed(x, k, smoother, **chosen)
    potential, boundary, kind = asked["potential"], asked["boundary"], asked["eigenvalues"]
    plain = potential is None and boundary is None
    parts = ready.warn_of_parts() if plain else ready.components[0]
    balanced = (
        chosen["bandwidth"] is None and chosen["metric"] == "euclidean" and ready.dimension <= BALANCED_DIMENSIONS
    )
    if boundary is not None and smoother == "adaptive" and balanced and ready.graph is not None:
        ready = balanced_smoother(ready.graph, ready.dimension, FIRM)
    ready = alter(ready, cloud, k, potential, boundary)
    generator = torch.Generator(ready.device).manual_seed(seed)
    facts: dict[str, Any] = {"components": parts}
    facts |= {name: True for name in ("potential", "boundary") if asked[name] is not None}
    functions = None
    if asked["probes"] is None:
        pairs = solve(ready, k, tol=tol, generator=generator)
        rotation = rotate(Span(pairs.vectors, pairs.gaps), ready, k)
    elif plain:
        functions = cloud.collect(numbers(asked["probes"], "probes", len(x)).to(ready.device))
        rotation, found = best_basis(functions, ready, k)
        facts |= found
    else:
        raise InputError("probes replace the operator: not together with a potential or a boundary")
    if kind != "rayleigh":
        rotation = with_eigenvalues(rotation, ready, kind, functions=functions, generator=generator)
        facts["eigenvalues"] = kind
    return basis_of(
        rotation,
        ready,
        cloud,
        info=facts,
        extension=lambda rotation: KernelExtension.fit(cloud.points, rotation.vectors, chosen["metric"]),
    )


def smoothed(
    x: Tensor,
    k: int,
    smoother: Kind | Smoother,
    metric: Metric,
    neighbours: Neighbours | None,
    bandwidth: float | None,
    dimension: float | None,
) -> tuple[Arranged, Smoother]:
    """The cloud made ready, without short-cuts, and its smoother: the one given, or one built from the graph."""
    if isinstance(smoother, Smoother):
        if smoother.n != len(x):
            raise InputError(f"expected a smoother of these {len(x)} points, got one of {smoother.n}")
        return Arranged.plain(x, smoother.graph), smoother
    check_kind(smoother)
    count = neighbours if isinstance(neighbours, int) else NEIGHBOURS[smoother]
    cloud = arrange(x, count, k, metric)
    width = None if bandwidth is None else bandwidth / cloud.frame.scale
    if smoother == "adaptive" and bandwidth is None:
        cloud, dimension = without_short_cuts(cloud, neighbours, dimension)
    assert cloud.graph is not None
    return cloud, build_smoother(cloud.graph, smoother, bandwidth=width, dimension=dimension)
