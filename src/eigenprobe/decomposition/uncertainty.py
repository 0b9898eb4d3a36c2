"""How far a basis is to be trusted: its own error, from a second basis on half of its points.

    e_i = FACTOR max( d_i, 1.4826 median over |j - i| <= w_i of d_j ),   d_j = |mu_j / lambda_j - 1|
    s_i = |P_i v_i|^2 / |v_i|^2      P_i: onto vectors of the half that are near v_i in eigenvalue
                                     or index

``w_i = max(4, i / 2)``; ``mu`` are the eigenvalues of the half, ``lambda`` and ``v`` those of the
basis, all (K,), inner products in the mass of the half, at its points.  The half is drawn at
random, the same one in whatever order the points come: what hangs on few points (outliers, sparse
regions, touching parts) changes with them, and an error of the spacing, h^2 ~ n^(-2 / dimension),
doubles on a surface.  Differences of single eigenvalues pass through zero, so those around speak as
well: a normal variable has 1.4826 times the median of its absolute values as its deviation, and one
function that changes, such as that of two limbs that touch in the half, leaves it as it is.  What
both share is not seen: of that the estimate knows the dimension that is counted
from the growth of neighbourhoods (above three), which boundaries lower, and that noisy points are
moved alike in either half.  Parts that touch do so in both, and are not seen.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from ..basis import Basis, Uncertainty
from ..cloud.inspection import LEAST
from ..errors import InputError, held_warnings
from ..host.validation import as_array
from ..points import Array
from ..smoothers import BALANCED_DIMENSIONS, neighbourhood_smoother
from .entry import decompose
from .settings import OperatorSettings


@dataclass(frozen=True)
class Calibration:
    """Constants of the estimate, chosen on the clouds of known spectrum of
    `benchmarks.calibration`.
    """

    # 90 % of true errors are below 3.0 times the difference, so below 1.5 times the estimate
    factor: float = 2.0
    # cubes of 4 to 8 dimensions are .17 to .23 low, whatever the number of points
    dimension: float = 0.1
    # points of a noisy surface are moved alike in either half: .01 to .03 on spheres
    cleaned: float = 0.01
    least: int = 4  # neighbours on either side whose median counts
    share: float = 0.5  # of the index: neighbours on either side, where that is more
    near: float = 0.15  # relative distance of eigenvalues whose vectors may turn into each other
    largest: float = 10.0  # error that is as bad as any other


CALIBRATION = Calibration()


def estimate_uncertainty(basis: Basis) -> Uncertainty:
    """Relative errors of the eigenvalues and reproducible shares of the vectors of a basis that has
    its points.
    """
    if basis.points is None:
        raise InputError("an estimate of its error needs points, this basis carries none")
    own, table = basis.numpy(), basis.info.get("smoother") == "neighbourhood"
    settings = {} if table else _settings(basis)
    points, vectors = basis.points, own.vectors
    if basis.source is not None and not (cloud := (prepared := basis.prepared()).cloud).whole:
        count = max(basis.k + 5, prepared.smoother.n // 2)  # half of the working sample
        if cloud.means is not None:
            settings["resolution"] = count
        if basis.n // 2 < max(count, LEAST) or basis.points.shape[1] not in (2, 3):
            # of too few points no other is made: half of this one
            settings |= {"resolution": "all", "parts": "all"}
            points = cloud.points
            vectors = cloud.collect(torch.as_tensor(vectors).to(points.device)).cpu().numpy()
    n = len(points)
    rows = _half(as_array(points))
    # more, so that the last ones find what they turned into
    k = min(basis.k + max(4, basis.k // 4), len(rows) - 1)
    if k < 1:
        raise InputError(
            f"an estimate of its error needs the basis of half of the points, got {n} points"
        )
    halved = {name: _of_rows(value, rows, n) for name, value in settings.items()}
    with held_warnings():  # said of the whole cloud already
        if table:
            half = _table_basis(basis, points[rows], k)
        else:
            half = decompose(points[rows], k, **halved).numpy()
    return Uncertainty(_errors(own, half), _shares(own, half, vectors[rows]))


def _half(points: Array) -> Array:
    """Rows ``(n // 2,)`` of a random half of the points ``(n, d)``, the same points in whatever
    order they come: drawn from their order along a fixed direction."""
    generator = np.random.default_rng(0)
    along = points.astype(np.float64) @ generator.normal(size=points.shape[1])
    return np.sort(
        along.argsort(kind="stable")[generator.permutation(len(points))[: len(points) // 2]]
    )


def _table_basis(basis: Basis, points: Any, k: int) -> Basis:
    """The basis of some rows of a table, by the neighbours and the metric of an estimator's."""
    from ..manifold.precomputed import arranged
    from ..manifold.solvers import fit_direct

    graph = basis.prepared().smoother.known_graph
    if not graph.points.shape[1]:
        raise InputError("an estimate of its error needs rows, this basis is one of distances")
    rows = torch.as_tensor(points)
    cloud = arranged(rows, graph.k, graph.metric, graph.options)
    return fit_direct(cloud, neighbourhood_smoother(cloud.graph), k, seed=0).numpy()


def _settings(basis: Basis) -> dict[str, Any]:
    """Arguments of `decompose` for the operator of a basis."""
    settings = None if basis.source is None else basis.source.settings
    if "explained" in basis.info or "estimator" in basis.info:
        raise InputError(
            "the error is estimated for eigenvectors of an operator, this basis is one of "
            "given probes"
        )
    if settings is None and basis.info.get("method") in ("network", "pretrained"):
        settings = OperatorSettings()
    if (
        not isinstance(settings, OperatorSettings)
        or settings.arrays
        or not isinstance(settings.smoother, str)
    ):
        raise InputError(
            "the error is estimated from half of the points, and this operator is known for "
            "all of them"
        )
    return {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.name not in ("moving", "arrays")
    }


def _of_rows(value: Any, rows: np.ndarray, n: int) -> Any:
    return value[rows] if getattr(value, "shape", ())[:1] == (n,) else value


def _errors(own: Basis, half: Basis) -> Array:
    """Relative errors (K,); those that the half has too few points for count as 1."""
    known = min(own.k, half.k)
    ours, theirs = own.eigenvalues[:known], half.eigenvalues[:known]
    # of eigenvalues that are 0
    floor = max(1e-6 * float(np.abs(own.eigenvalues).max()), np.finfo(float).tiny)
    apart = np.minimum(np.abs(theirs - ours) / np.maximum(np.abs(ours), floor), CALIBRATION.largest)
    first = int(apart[0] < 1e-3)  # the constant: exact, and no measure of the others
    result = np.ones(own.k)
    result[:first] = 0.0
    for i in range(first, known):
        width = max(CALIBRATION.least, int(CALIBRATION.share * i))
        usual = 1.4826 * np.median(apart[max(first, i - width) : i + width + 1])
        result[i] = max(apart[i], usual)
    extra = (
        CALIBRATION.dimension if float(own.info.get("dimension", 0)) > BALANCED_DIMENSIONS else 0.0
    )
    quality = own.info.get("quality")  # of a file it may be anything
    cleaned = isinstance(quality, dict) and bool(quality.get("cleaned"))
    extra = np.hypot(extra, CALIBRATION.cleaned if cleaned else 0.0)
    result[first:known] = np.minimum(
        CALIBRATION.factor * np.hypot(result[first:known], extra), CALIBRATION.largest
    )
    return result


def _shares(own: Basis, half: Basis, vectors: Array) -> Array:
    """What of every vector (K,), ``vectors`` at the points of the half, lies in those of the half
    that are near it.
    """
    values = np.nan_to_num(vectors) * np.sqrt(half.mass)[:, None]
    products = np.square(half.normalized.T @ values) / np.maximum(
        np.square(values).sum(0), np.finfo(float).tiny
    )
    apart = np.abs(half.eigenvalues[:, None] - own.eigenvalues) <= CALIBRATION.near * np.abs(
        own.eigenvalues
    )
    place = np.abs(np.arange(half.k)[:, None] - np.arange(own.k)) <= np.maximum(
        1, 0.1 * np.arange(own.k)
    )
    return np.clip((products * (apart | place)).sum(0), 0.0, 1.0)
