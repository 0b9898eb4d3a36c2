"""The one front door: a cloud in, a `Basis` out, by whichever of the three methods.

    direct       the closed-form optimum: leading eigenvectors of the smoother (the PCA of its probes)
    network      a network trained on this cloud alone
    pretrained   one forward pass of a model trained on many shapes, then a Ritz rotation

Points are centred and scaled before anything else, and eigenvalues scaled back, so units and offsets cost no digits.
Coinciding points are merged: each copy gets the value and an equal share of the mass of the one point they are.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .basis import Array, Basis, canonical_signs
from .direct import solve
from .errors import EigenprobeWarning, InputError
from .extension import KernelExtension
from .graph import Graph, Metric, build_graph
from .locality import ONE_THREAD, threads_for
from .smoothing import KINDS, NEIGHBOURS, Kind, Smoother, build_smoother
from .spectrum import quotients, rayleigh

Method = Literal["direct", "network", "pretrained"]
ROW_STEPS = 20  # smoothing steps of the probes whose principal components `direct` takes with a row smoother


def decompose(
    points: Array,
    k: int = 50,
    method: Method = "direct",
    *,
    smoother: Kind | Smoother = "adaptive",
    metric: Metric = "euclidean",
    neighbours: int | None = None,
    bandwidth: float | None = None,
    dimension: float | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    tol: float = 1e-6,
    **options: Any,
) -> Basis:
    """The spectral decomposition of a point cloud.

    Parameters
    ----------
    points
        ``(n, d)`` numpy array or torch tensor. What comes back is of the same kind, precision and device.
    k
        How many basis vectors, the constant one included.
    method
        ``"direct"`` (closed form), ``"network"`` (trained on this cloud) or ``"pretrained"`` (feed-forward).
    smoother
        ``"adaptive"`` (default, measures area whatever the sampling), ``"symmetric"``, ``"row"`` (the paper's), or a
        `Smoother` of these very points.
    metric, neighbours, bandwidth, dimension
        Of the graph and the smoother; all are chosen from the data by default.
    seed, device
        Of random starts; where to compute (default: where the points are).
    tol
        Residual ``|A q - mu q|`` that ``direct`` guarantees.
    options
        Passed on to the network fit or to the pretrained model's ``encode``.

    Examples
    --------
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> basis.eigenvalues.round(2).tolist()
    [0.0, 1.0, 1.0, 4.0, 4.0]
    """
    if method not in ("direct", "network", "pretrained"):
        raise InputError(f"method must be 'direct', 'network' or 'pretrained', got {method!r}")
    x, restore = check_points(points, k, device)
    began = time.perf_counter()
    if method == "direct":
        if options:
            raise InputError(f"method 'direct' does not know the option {sorted(options)[0]!r}")
        built = smoother if isinstance(smoother, Smoother) else None
        kind: Kind = "adaptive" if isinstance(smoother, Smoother) else smoother
        with threads_for(len(x), x.device):
            basis = _direct(x, k, built, kind, metric, neighbours, bandwidth, dimension, seed, tol)
    elif method == "network":
        from .training.fit import fit_network

        with threads_for(ONE_THREAD, x.device):
            basis = fit_network(
                x,
                k,
                seed=seed,
                device=x.device,
                metric=metric,
                neighbours=neighbours,
                bandwidth=bandwidth,
                dimension=dimension,
                smoother=smoother,
                **options,
            )
    else:
        from .model import SpectralModel

        basis = SpectralModel.from_pretrained(options.pop("model", "surface")).encode(x, k=k, **options)
    info = basis.info | {"method": method, "seconds": round(time.perf_counter() - began, 4)}
    return restore(replace(basis, info=info))


def check_points(points: Array, k: int, device: str | torch.device | None = None) -> tuple[Tensor, Any]:
    """The points as a finite float64 tensor on ``device``, and a function that gives a basis the caller's types."""
    is_numpy = not isinstance(points, Tensor)
    array: Any = np.asarray(points) if is_numpy else points
    if is_numpy and (array.dtype.kind not in "fiu"):
        raise InputError(f"expected points of real numbers, got dtype {array.dtype}")
    if not is_numpy and (array.is_complex() or array.dtype == torch.bool):
        raise InputError(f"expected points of real numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] < 1:
        raise InputError(f"expected points of shape (n, d), got {tuple(array.shape)}")
    n = array.shape[0]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, got {k!r}")
    if n < max(k + 1, 3):
        raise InputError(f"k={k} needs at least {max(k + 1, 3)} points, got {n}")
    tensor = torch.as_tensor(np.ascontiguousarray(array, np.float64) if is_numpy else array)
    single = (array.dtype.itemsize if is_numpy else tensor.element_size()) <= 4 and (
        array.dtype.kind == "f" if is_numpy else tensor.is_floating_point()
    )
    home = tensor.device
    tensor = tensor.detach().to(device=device, dtype=torch.float64)
    finite = torch.isfinite(tensor).all(1)
    if not bool(finite.all()):
        bad = (~finite).nonzero()[:, 0]
        raise InputError(f"expected finite points, got {len(bad)} with NaN or infinity, the first in row {int(bad[0])}")
    dtype = torch.float32 if single else torch.float64

    def restore(basis: Basis) -> Basis:
        result = basis.torch(home)._map(lambda a: a.to(dtype))
        result = result.numpy() if is_numpy else result
        return replace(result, points=points if isinstance(points, (np.ndarray, Tensor)) else np.asarray(points))

    return tensor, restore


def _direct(
    x: Tensor,
    k: int,
    smoother: Smoother | None,
    kind: Kind,
    metric: Metric,
    neighbours: int | None,
    bandwidth: float | None,
    dimension: float | None,
    seed: int,
    tol: float,
) -> Basis:
    if kind not in KINDS:
        raise InputError(f"smoother must be one of {', '.join(KINDS)}, got {kind!r}")
    if smoother is not None:
        if smoother.n != x.shape[0]:
            raise InputError(f"expected a smoother of these {x.shape[0]} points, got one of {smoother.n}")
        unique, scale, merged = x, 1.0, None
    else:
        centred, scale = unit_scale(x, metric)
        unique, graph, merged = _distinct(centred, k, neighbours or NEIGHBOURS[kind], metric)
        width = None if bandwidth is None else bandwidth / (scale if metric == "euclidean" else 1.0)
        smoother = build_smoother(graph, kind, bandwidth=width, dimension=dimension)
        scale = scale if metric == "euclidean" else 1.0
    count = _warn_components(smoother)
    q, mass, values = spectrum_of(smoother, k, seed=seed, tol=tol)
    vectors = q / mass.sqrt()[:, None]
    info = {"smoother": smoother.kind, "dimension": smoother.dimension, "components": count}
    extension = KernelExtension.fit(x[_first(merged, len(x))] if merged is not None else x, vectors, metric)
    if merged is not None:
        copies = torch.bincount(merged, minlength=len(unique))[merged]
        mass, vectors = mass[merged] / copies, vectors[merged]
        q = vectors * mass.sqrt()[:, None]
        info["duplicates"] = len(x) - len(unique)
    return Basis(q, mass, values / scale**2, x, info, extension)


def spectrum_of(smoother: Smoother, k: int, *, seed: int = 0, tol: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """``Q (n, k)``, ``mass (n,)`` and eigenvalues ``(k,)`` of the closed-form optimum of one smoother."""
    generator = torch.Generator(smoother.device).manual_seed(seed)
    if smoother.mass is not None:
        q, mu = solve(smoother, k, tol=tol, generator=generator)
        q[:, 0], mass = smoother.mass.sqrt(), smoother.mass
        values = rayleigh(mu, smoother.step_time)
    else:
        # the covariance of the paper's probes; its leading eigenvector is positive (Perron) and defines the mass
        def covariance(f: Tensor) -> Tensor:
            f = f.to(smoother.dtype)
            for _ in range(ROW_STEPS):
                f = smoother.apply_transpose(f)
            return smoother.power(f, ROW_STEPS)

        q = solve(covariance, k, n=smoother.n, tol=tol, generator=generator)[0].to(smoother.dtype)
        q[:, 0] = q[:, 0].abs().clamp_min(torch.finfo(q.dtype).eps)
        mass = q[:, 0].square() / q[:, 0].square().sum()
        v = q / mass.sqrt()[:, None]
        values = rayleigh(quotients(q * mass.sqrt()[:, None], smoother.apply(v)), smoother.step_time)
    values = values.clamp_min(0)
    values[0] = 0
    order = torch.argsort(values, stable=True)
    q, values = q[:, order], values[order]
    q = q * canonical_signs(q / mass.sqrt()[:, None], mass)
    q[:, 0] = mass.sqrt()
    return q, mass, values


def unit_scale(x: Tensor, metric: Metric = "euclidean") -> tuple[Tensor, float]:
    """Points of size one about the origin; angles between rows, which cosine distance measures, are left alone."""
    centre = x.mean(0)
    scale = float((x - centre).abs().max())
    if not scale > 1e-12 * float(x.abs().max()) or not math.isfinite(scale):
        raise InputError(f"expected distinct points, got {len(x)} that are all equal")
    return (x if metric == "cosine" else x - centre) / scale, scale


def _distinct(x: Tensor, k: int, neighbours: int, metric: Metric) -> tuple[Tensor, Graph, Tensor | None]:
    """The graph of the distinct points; where some coincide, also the map from every point to its representative."""
    graph = build_graph(x, min(neighbours, len(x) - 1), metric=metric)
    if float(graph.distances[:, 0].min()) > 0:
        return x, graph, None
    unique, inverse = torch.unique(x, dim=0, return_inverse=True)
    if len(unique) == len(x):
        return x, graph, None  # distinct, though nearer than the metric can tell
    warnings.warn(
        f"{len(x) - len(unique)} of {len(x)} points coincide with others; each copy shares the value and the mass",
        EigenprobeWarning,
        stacklevel=4,
    )
    if len(unique) < max(k + 1, 3):
        raise InputError(f"k={k} needs at least {max(k + 1, 3)} distinct points, got {len(unique)}")
    return unique, build_graph(unique, min(neighbours, len(unique) - 1), metric=metric), inverse


def _first(inverse: Tensor, n: int) -> Tensor:
    """The first point of every group of coinciding ones."""
    groups = int(inverse.max()) + 1
    places = torch.full((groups,), n, dtype=torch.int64, device=inverse.device)
    return places.scatter_reduce_(0, inverse, torch.arange(n, device=inverse.device), "amin")


def _warn_components(smoother: Smoother) -> int:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    m = smoother.matrix
    parts = (m.values().cpu().numpy(), m.col_indices().cpu().numpy(), m.crow_indices().cpu().numpy())
    count, labels = connected_components(csr_array(parts, shape=tuple(m.shape)), directed=True, connection="weak")
    if count > 1:
        sizes = np.sort(np.bincount(labels))[::-1]
        shown = ", ".join(map(str, sizes[:5])) + (", ..." if count > 5 else "")
        warnings.warn(
            f"the cloud has {count} separate parts ({shown} points): the first {count} eigenvalues are 0",
            EigenprobeWarning,
            stacklevel=5,
        )
    return int(count)
