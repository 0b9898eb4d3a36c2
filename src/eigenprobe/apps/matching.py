"""Maps between two shapes through their bases (Ovsjanikov et al. 2012; Melzi et al. 2019).

Source basis V_s (n_s, K), target basis V_t (n_t, K). A point map p (n_t,) takes each target point
to a source point, an index below n_s; it carries functions from the source to the target, f ->
f[p]. In the bases that is the matrix

    C = V_t^T M_t V_s[p]     (k_t, k_s): coefficients on the source -> on the target
    fit:      min_C |C A - B|^2 + w sum_ij (lambda_t,i - lambda_s,j)^2 C_ij^2
              A, B coefficients of given functions; C e_1 = e_1: the constant stays one
    back:     p(y) = argmin_x | V_s C^T (x) - V_t (y) |,  nearest rows in k_t dimensions
    ZoomOut:  repeat  C -> p -> C with one more row and column, from k to K
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..basis import A, Basis
from ..errors import InputError
from ..host.validation import as_array, validated
from ..neighbors.search import nearest_rows
from .descriptors import hks, wks
from .spectral import Array, like, rows, tensors


def _sizes(k: int | tuple[int, int] | None, source: Basis, target: Basis) -> tuple[int, int]:
    """(k_source, k_target), checked."""
    k_source, k_target = (source.k, target.k) if k is None else (k, k) if isinstance(k, int) else k
    if not (1 <= k_source <= source.k and 1 <= k_target <= target.k):
        raise InputError(
            f"expected map sizes within 1..{source.k} (source) and 1..{target.k} (target), got {k}"
        )
    return k_source, k_target


def _coefficients(basis: Basis, functions: Array, k: int) -> Tensor:
    vectors, mass, _ = tensors(basis)
    f = torch.as_tensor(functions).to(vectors)
    if f.ndim != 2 or f.shape[0] != basis.n:
        raise InputError(f"expected functions of shape ({basis.n}, m), got {tuple(f.shape)}")
    return (vectors[:, :k].T @ (mass[:, None] * f)).double().cpu()


@validated
def functional_map(
    source: Basis[A],
    target: Basis[A],
    source_functions: Array,
    target_functions: Array,
    *,
    k: int | tuple[int, int] | None = None,
    weight: float = 1e-3,
) -> A:
    """The functional map that takes the source's functions to the target's.

    Parameters
    ----------
    source, target
        Bases of the two shapes.
    source_functions, target_functions
        The same ``m`` functions on both: ``(n_s, m)`` and ``(n_t, m)``.
    k
        The size of the map, or ``(k_source, k_target)``; by default all vectors.
    weight
        Asks the map to commute with the two Laplacians, relative to the data: the functions are
        scaled to unit norm and the eigenvalues to a largest of 1 first.

    Returns
    -------
    Array
        ``C (k_t, k_s)``. Each of its rows is one ``k_s x k_s`` solve.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> x = np.random.default_rng(0).normal(size=(300, 3))
    >>> x *= [1, 2, 3] / np.linalg.norm(x, axis=1, keepdims=True)
    >>> source, target = decompose(x, k=8), decompose(x[::-1].copy(), k=8)
    >>> C = functional_map(source, target, x, x[::-1].copy(), k=4)
    >>> C.shape, float(C[0, 0])
    ((4, 4), 1.0)
    """
    k_source, k_target = _sizes(k, source, target)
    a = _coefficients(source, source_functions, k_source)
    b = _coefficients(target, target_functions, k_target)
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"expected as many functions on both shapes, got {a.shape[1]} and {b.shape[1]}"
        )
    # The same factor on both sides keeps the map what it was.
    scale = (a**2).sum(0).sqrt().clamp_min(1e-12)
    a, b = a / scale, b / scale
    values = [tensors(each)[2].double().cpu() for each in (source, target)]
    values_s, values_t = values[0][:k_source], values[1][:k_target]
    top = torch.cat([values_s, values_t]).max().clamp_min(1e-30)
    penalty = ((values_t[:, None] - values_s) / top) ** 2  # (k_t, k_s)
    # Any map of points takes the constant to the constant, so the first column is known: e_1. The
    # others are fitted.
    c = torch.zeros(k_target, k_source, dtype=a.dtype)
    c[0, 0] = 1.0
    rest, b = a[1:], b - c[:, :1] * a[:1]
    gram, right = rest @ rest.T / a.shape[1], b @ rest.T / a.shape[1]
    # A trace of ridge: fewer functions than k_s leave directions that neither term determines.
    ridge = 1e-10 * torch.eye(k_source - 1, dtype=a.dtype) * gram.diagonal().mean()
    systems = gram + ridge + weight * torch.diag_embed(penalty[:, 1:])
    c[:, 1:] = torch.linalg.solve(systems, right[:, :, None])[:, :, 0]
    return like(source, c.to(tensors(source)[0]))


@validated
def map_from_points(
    source: Basis[A], target: Basis[A], points: Any, *, k: int | tuple[int, int] | None = None
) -> A:
    """The functional map of a point map.

    Parameters
    ----------
    source, target
        Bases of the two shapes.
    points
        For every target point its source point ``(n_t,)``.
    k
        The size of the map, or ``(k_source, k_target)``; by default all vectors.

    Returns
    -------
    Array
        ``C (k_t, k_s)``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> x = np.random.default_rng(0).normal(size=(300, 3))
    >>> x *= [1, 2, 3] / np.linalg.norm(x, axis=1, keepdims=True)
    >>> source, target = decompose(x, k=8), decompose(x[::-1].copy(), k=8)
    >>> C = map_from_points(source, target, np.arange(300)[::-1])
    >>> bool(np.allclose(np.abs(C), np.eye(8), atol=1e-4))
    True
    """
    k_source, k_target = _sizes(k, source, target)
    vs, (vt, mass, _) = tensors(source)[0], tensors(target)
    index = rows(points, source.n, vs.device)
    if index.numel() != target.n:
        raise InputError(
            f"expected one source index for each of {target.n} target points, got {index.numel()}"
        )
    carried = vs[index, :k_source].to(vt)
    return like(source, (vt[:, :k_target].T @ (mass[:, None] * carried)).to(vs))


@validated
def point_map(matrix: Array, source: Basis[A], target: Basis[A]) -> A:
    """The point map of a functional map, by nearest rows.

    Parameters
    ----------
    matrix
        ``C (k_t, k_s)``.
    source, target
        Bases of the two shapes.

    Returns
    -------
    Array
        For every target point its source point ``(n_t,)``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> x = np.random.default_rng(0).normal(size=(300, 3))
    >>> x *= [1, 2, 3] / np.linalg.norm(x, axis=1, keepdims=True)
    >>> source, target = decompose(x, k=8), decompose(x[::-1].copy(), k=8)
    >>> C = map_from_points(source, target, np.arange(300)[::-1])
    >>> bool((point_map(C, source, target) == np.arange(300)[::-1]).all())
    True
    """
    vs, vt = tensors(source)[0], tensors(target)[0]
    c = torch.as_tensor(matrix).to(vs)
    if c.ndim != 2 or not 0 < c.shape[0] <= target.k or not 0 < c.shape[1] <= source.k:
        raise InputError(
            f"expected a map of 1 to at most ({target.k}, {source.k}), got {tuple(c.shape)}"
        )
    carried = vs[:, : c.shape[1]] @ c.T  # (n_s, k_t)
    return like(source, nearest_rows(carried, vt[:, : c.shape[0]].to(carried), 1)[0][:, 0])


@validated
def zoomout(
    matrix: Array, source: Basis[A], target: Basis[A], *, k: int | None = None, step: int = 1
) -> A:
    """Refine a functional map by growing it [Melzi et al. 2019].

    Parameters
    ----------
    matrix
        The map ``C (k_t, k_s)`` to start from.
    source, target
        Bases of the two shapes.
    k
        The size to grow to, by default all of both bases.
    step
        Rows and columns added at a time.

    Returns
    -------
    Array
        ``C (k, k)``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> x = np.random.default_rng(0).normal(size=(300, 3))
    >>> x *= [1, 2, 3] / np.linalg.norm(x, axis=1, keepdims=True)
    >>> source, target = decompose(x, k=8), decompose(x[::-1].copy(), k=8)
    >>> zoomout(map_from_points(source, target, np.arange(300)[::-1], k=3), source, target).shape
    (8, 8)
    """
    final = min(source.k, target.k) if k is None else k
    _sizes(final, source, target)
    if step < 1:
        raise InputError(f"expected step >= 1, got {step}")
    if len(matrix.shape) != 2:
        raise InputError(f"expected a map (k_t, k_s), got shape {tuple(matrix.shape)}")
    size = (int(matrix.shape[1]), int(matrix.shape[0]))
    while max(size) < final:
        size = (min(size[0] + step, final), min(size[1] + step, final))
        matrix = map_from_points(source, target, point_map(matrix, source, target), k=size)
    return matrix


@validated
def match(
    source: Basis[A],
    target: Basis[A],
    *,
    landmarks: Any = None,
    k: int = 20,
    refine_to: int | None = None,
    step: int = 1,
    weight: float = 1e-2,
    descriptors: int = 64,
) -> tuple[A, A]:
    """The map between two shapes, from wave kernel signatures, then ZoomOut.

    Parameters
    ----------
    source, target
        Bases of the two shapes.
    landmarks
        Pairs ``(s, 2)`` (source index, target index) of known matches. Signatures alone cannot tell
        a symmetric shape from its mirror image: a few landmarks do.
    k, weight
        Size and weight of the first map, as in `functional_map`.
    refine_to, step
        ``k`` and ``step`` of `zoomout`.
    descriptors
        Energies of the signatures.

    Returns
    -------
    points
        For every target point its source point ``(n_t,)``.
    matrix
        The functional map ``C``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> x = np.random.default_rng(0).normal(size=(300, 3))
    >>> x *= [1, 2, 3] / np.linalg.norm(x, axis=1, keepdims=True)
    >>> source, target = decompose(x, k=8), decompose(x[::-1].copy(), k=8)
    >>> points, matrix = match(source, target, landmarks=[[0, 299], [9, 290]], k=6)
    >>> bool((points == np.arange(300)[::-1]).mean() > 0.9)
    True
    """
    signatures = [[wks(each, descriptors)] for each in (source, target)]
    if landmarks is not None:
        pairs = as_array(landmarks, np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InputError(f"expected landmarks of shape (s, 2), got {pairs.shape}")
        for found, basis, points in zip(signatures, (source, target), pairs.T):
            found.append(wks(basis, descriptors, sources=points))
            found.append(hks(basis, descriptors // 2, sources=points, scaled=True))
    a, b = (torch.cat([torch.as_tensor(each) for each in found], 1) for found in signatures)
    k = min(k, source.k, target.k)
    matrix = functional_map(source, target, a, b, k=k, weight=weight)
    matrix = zoomout(matrix, source, target, k=refine_to, step=step)
    return point_map(matrix, source, target), matrix
