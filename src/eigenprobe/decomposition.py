"""The one front door: a cloud in, a `Basis` out, by whichever of the three methods.

    direct       the closed-form optimum: leading eigenvectors of the smoother (the PCA of its probes)
    network      a network trained on this cloud alone
    pretrained   one forward pass of a model trained on many shapes, then a Ritz rotation

Points are centred and scaled before anything else, and eigenvalues scaled back, so units and offsets cost no digits.
Coinciding points are merged: each copy gets the value and an equal share of the mass of the one point they are.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .basis import Array, Basis
from .cloud import _distinct, _first, check_points, unit_scale
from .eigen.solve import solve
from .eigen.span import canonical_signs
from .errors import EigenprobeWarning, InputError
from .extensions.kernel import KernelExtension
from .graph.neighbours import Metric
from .probes.spectrum import quotients, rayleigh
from .smoothers.smoother import KINDS, NEIGHBOURS, Kind, Smoother, build_smoother
from .threads import ONE_THREAD, threads_for

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
        from .pretrained.model import SpectralModel

        basis = SpectralModel.from_pretrained(options.pop("model", "surface")).encode(x, k=k, **options)
    info = basis.info | {"method": method, "seconds": round(time.perf_counter() - began, 4)}
    return restore(replace(basis, info=info))


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
