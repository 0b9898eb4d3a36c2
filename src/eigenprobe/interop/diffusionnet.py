"""The operators that DiffusionNet (Sharp et al. 2022) takes, of a bare cloud, and the files that it
caches them in.

    frames (n, 3, 3)          rows X, Y, N: a right-handed orthonormal tangent frame and the normal,
                              unoriented
    mass (n,)                 areas;  L (n, n) positive semi-definite, L v = lambda diag(mass) v
    evals (k,), evecs (n, k)  the first k pairs, evecs^T diag(mass) evecs = I
    gradX, gradY (n, n)       derivatives along X and Y, exact for linear functions

A cache is a folder of npz files named by the SHA-1 of the bytes of vertices and faces; float32,
matrices in CSC.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csc_matrix
from torch import Tensor

from ..errors import InputError
from ..host.files import reading_npz, writable_folder, write_npz
from ..host.validation import as_array, validated
from ..operators import gradients
from ..points import Array, Origin, check_points
from .objects import spectrum

ARRAYS = ("frames", "mass", "evals", "evecs")
MATRICES = ("L", "gradX", "gradY")
PARTS = ("data", "indices", "indptr", "shape")


class DiffusionNetOperators(NamedTuple):
    """In the order in which DiffusionNet's ``get_operators`` returns them."""

    frames: Tensor  # (n, 3, 3)
    mass: Tensor  # (n,)
    L: Tensor  # (n, n) sparse COO
    evals: Tensor  # (k,)
    evecs: Tensor  # (n, k)
    gradX: Tensor  # (n, n) sparse COO
    gradY: Tensor  # (n, n) sparse COO


@validated
def diffusionnet_operators(
    points: Any,
    k_eig: int = 128,
    *,
    faces: Array | None = None,
    op_cache_dir: str | os.PathLike[str] | None = None,
) -> DiffusionNetOperators:
    """The operators that DiffusionNet takes, of a surface sampled by points: those of `decompose`
    with ``dimension=2``.

    Parameters
    ----------
    points
        ``(n, 3)``.
    k_eig
        How many eigenpairs.
    faces
        Those that DiffusionNet is called with, for the name of the file in its cache; they are not
        used otherwise.
    op_cache_dir
        DiffusionNet's cache: the operators are read from this folder, or computed and put there, so
        that its own ``get_operators(verts, faces, k_eig, op_cache_dir)`` finds them. ``points`` and
        ``faces`` must be the very arrays that it is called with, precision included.

    Returns
    -------
    DiffusionNetOperators
        ``frames, mass, L, evals, evecs, gradX, gradY``. Tensors give tensors of their precision on
        their device, numpy arrays float32 on the host (what DiffusionNet computes in).

    Examples
    --------
    >>> sphere = np.random.default_rng(0).normal(size=(500, 3))
    >>> sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    >>> operators = diffusionnet_operators(sphere, k_eig=16)
    >>> round(float(operators.mass.sum() / np.pi))
    4
    """
    x, origin = check_points(points, k_eig)
    if x.shape[1] != 3:
        raise InputError(f"DiffusionNet takes points of shape (n, 3), got {tuple(x.shape)}")
    if op_cache_dir is None:
        return _as_given(_computed(x, k_eig), origin)
    given = (origin.points, np.zeros(0, np.float32) if faces is None else faces)
    own, triangles = (np.ascontiguousarray(as_array(each)) for each in given)
    digest = hashlib.sha1(own.tobytes() + triangles.tobytes()).hexdigest()
    path = writable_folder(op_cache_dir) / f"{digest}_0.npz"
    found = _read(path, own, k_eig) if path.exists() else None
    if found is None:
        found = _computed(x, k_eig)
        _write(path, own, triangles, found)
    return _as_given(found, origin)


def _computed(x: Tensor, k: int) -> dict[str, Any]:
    """The operators by name, numpy arrays and scipy matrices."""
    made, own = spectrum(x, k, dimension=2.0)
    tangent, (along, across) = gradients(made.cloud, made.smoother)
    forward, left = tangent[:, :, 0], tangent[:, :, 1]
    frames = np.stack([forward, left, np.cross(forward, left)], 1)
    found = {"frames": frames, "mass": own["mass"].diagonal(), "L": own["stiffness"]}
    found |= {"evals": own["eigenvalues"], "evecs": own["eigenvectors"]}
    return found | {"gradX": along, "gradY": across}


def _write(path: Path, points: np.ndarray, faces: np.ndarray, found: dict[str, Any]) -> None:
    arrays = {"verts": points, "faces": faces, "k_eig": len(found["evals"])}
    arrays |= {name: np.asarray(found[name], np.float32) for name in ARRAYS}
    for name in MATRICES:
        matrix = found[name].tocsc().astype(np.float32)
        arrays |= {f"{name}_{part}": np.asarray(getattr(matrix, part)) for part in PARTS}
    write_npz(path, arrays)


def _read(path: Path, points: np.ndarray, k: int) -> dict[str, Any] | None:
    """The operators of a file, where they are of these points and enough of them."""
    with reading_npz(path) as stored:
        if not {"k_eig", "verts", *ARRAYS} <= set(stored.keys()):
            return None
        if not np.array_equal(stored["verts"], points) or int(stored["k_eig"]) < k:
            return None
        found: dict[str, Any] = {name: stored[name] for name in ARRAYS}
        found |= {"evals": found["evals"][:k], "evecs": found["evecs"][:, :k]}
        for name in MATRICES:
            *parts, shape = (stored[f"{name}_{part}"] for part in PARTS)
            found[name] = csc_matrix(tuple(parts), shape=tuple(shape))
    return found


def _as_given(found: dict[str, Any], origin: Origin) -> DiffusionNetOperators:
    dtype, tensors = torch.float32 if origin.numpy else origin.dtype, {}
    for name, value in found.items():
        if name in MATRICES:
            own = value.tocoo()
            places = torch.as_tensor(np.stack([own.row, own.col]).astype(np.int64))
            data = torch.as_tensor(own.data)
            tensor = torch.sparse_coo_tensor(places, data, own.shape, check_invariants=False)
            tensor = tensor.coalesce()
        else:
            tensor = torch.as_tensor(np.ascontiguousarray(value))
        tensors[name] = tensor.to(origin.device, dtype)
    return DiffusionNetOperators(**tensors)
