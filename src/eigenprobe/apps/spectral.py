"""Functions of the eigenvalues at work: filters, heat kernels, distances and parts.

    filters   f -> V g(lambda) V^T M f
        lowpass       1 for lambda <= cutoff, else 0
        highpass      its complement
        band          1 for low <= lambda <= high, else 0
        heat          exp(-time lambda)
        resolvent     1 / (1 + lambda / cutoff), Tikhonov smoothing
        butterworth   1 / (1 + (lambda / cutoff)^(2 order)), a lowpass without ringing
        bump          exp(-(lambda - centre)^2 / 2 width^2)
    distances d(x, y) = |E_x - E_y|,   E = V diag(g(lambda))
        diffusion     g = exp(-t lambda)     |h_t(x, .) - h_t(y, .)|_M [Coifman and Lafon 2006]
        commute       g = 1 / sqrt(lambda)   the square is the commute time over the volume
        biharmonic    g = 1 / lambda         smooth at the source [Lipman et al. 2010]

A basis of K vectors knows nothing above lambda_K. That part of f is dropped, unless `outside` gives
it a gain.  For s sources distances are (n, s); nothing n x n is ever formed unless every point is
asked for as a source.  Parts of a shape are clusters of the rows of E, by k-means, each row
weighted by its mass.  One backend inside, the caller's outside: tensors to compute with, and the
way back to what the basis holds.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from ..basis import A, Basis
from ..errors import InputError
from ..host.validation import as_array, validated
from ..points import Array


def tensors(basis: Basis) -> tuple[Tensor, Tensor, Tensor]:
    """V (n, K), mass (n,) and eigenvalues (K,), non-negative, as tensors on the basis' device."""
    vectors = torch.as_tensor(basis.vectors)
    mass = torch.as_tensor(basis.mass).to(vectors)
    return vectors, mass, torch.as_tensor(basis.eigenvalues).to(vectors).clamp_min(0)


def like(basis: Basis[A], values: Tensor) -> A:
    """`values` as the kind of array that `basis` holds."""
    given: Any = values
    return given.detach().cpu().numpy() if isinstance(basis.normalized, np.ndarray) else given


def positive(eigenvalues: Tensor) -> Tensor:
    """Mask (K,) of the eigenvalues that are not numerically zero (each component of the cloud has
    one that is).
    """
    return eigenvalues > 1e-6 * eigenvalues.max()


def rows(sources: Any, n: int, device: torch.device) -> Tensor:
    """Point indices (s,) from an int or a sequence of ints; an error names the range."""
    given = as_array(sources)
    if given.ndim > 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(
            "expected point indices (an int or a list of ints), "
            f"got {given.dtype} of shape {given.shape}"
        )
    index = torch.as_tensor(given.astype(np.int64), device=device).reshape(-1)
    if index.numel() == 0 or int(index.min()) < 0 or int(index.max()) >= n:
        raise InputError(f"expected point indices in 0..{n - 1}, got {index.tolist()[:5]}")
    return index


RESPONSES: dict[str, Callable[..., Tensor]] = {
    "lowpass": lambda values, *, cutoff: (values <= cutoff).to(values),
    "highpass": lambda values, *, cutoff: (values > cutoff).to(values),
    "band": lambda values, *, low, high: ((values >= low) & (values <= high)).to(values),
    "heat": lambda values, *, time: torch.exp(-time * values),
    "resolvent": lambda values, *, cutoff: 1 / (1 + values / cutoff),
    "butterworth": lambda values, *, cutoff, order=2: 1 / (1 + (values / cutoff) ** (2 * order)),
    "bump": lambda values, *, centre, width: torch.exp(-((values - centre) ** 2) / (2 * width**2)),
}


@validated
def response(name: str, **parameters: float) -> Callable[[Array], Array]:
    """A named response as a function of eigenvalues, for `Basis.filter`.

    Parameters
    ----------
    name
        A key of `RESPONSES`: lowpass, highpass, band, heat, resolvent, butterworth or bump.
    parameters
        Those of the response: ``cutoff``, ``low`` and ``high``, ``time``, ``order``, ``centre`` and
        ``width``.

    Returns
    -------
    Callable
        Eigenvalues ``(K,)``, numpy or torch, to gains ``(K,)``.

    Examples
    --------
    >>> response("heat", time=1.0)(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.3679])
    """
    if name not in RESPONSES:
        raise InputError(f"response must be one of {', '.join(RESPONSES)}, got {name!r}")
    chosen = RESPONSES[name]
    try:
        chosen(torch.zeros(1), **parameters)
    except TypeError as error:
        expected = ", ".join(list(inspect.signature(chosen).parameters)[1:])
        raise InputError(
            f"response {name!r} takes {expected}; got {', '.join(parameters) or 'nothing'}"
        ) from error

    def gain(values: Array) -> Array:
        result = chosen(torch.as_tensor(values), **parameters)
        return result if isinstance(values, Tensor) else result.numpy()

    return gain


@validated
def apply_filter(
    basis: Basis[A],
    f: Array,
    name: str | Callable[[Array], Array],
    *,
    outside: float = 0.0,
    **parameters: float,
) -> A:
    """Filter functions in the basis: ``V g(lambda) V^T M f``.

    Parameters
    ----------
    basis
        Of the shape.
    f
        A function ``(n,)`` or functions ``(n, m)``.
    name
        A response by its name, or any function of the eigenvalues.
    outside
        The gain of what the basis does not span; by default it is dropped.
    parameters
        Of the response, as in `response`.

    Returns
    -------
    Array
        The shape of ``f``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> smooth = apply_filter(basis, basis.points[:, 0], "lowpass", cutoff=2.0)
    >>> bool(np.allclose(smooth, basis.points[:, 0], atol=1e-3))  # the cosine has frequency 1
    True
    """
    found = basis.filter(f, response(name, **parameters) if isinstance(name, str) else name)
    if not outside:
        return found
    return found + outside * (basis._functions(f) - basis.reconstruct(basis.project(f)))


@validated
def heat_kernel(basis: Basis[A], source: int, time: float) -> A:
    """Heat after some time from a unit of heat at one point, a density against the mass.

    Parameters
    ----------
    basis
        Of the shape.
    source
        The index of the point.
    time
        In the units of one over the eigenvalues.

    Returns
    -------
    Array
        ``(n,)``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> round(float(basis.mass @ heat_kernel(basis, 0, time=0.1)), 3)
    1.0
    """
    vectors, _, values = tensors(basis)
    index = rows(source, basis.n, vectors.device)
    return like(basis, vectors @ (torch.exp(-float(time) * values) * vectors[index[0]]))


Kind = Literal["diffusion", "commute", "biharmonic"]


def _embedding(basis: Basis, kind: Kind, time: float | None) -> Tensor:
    vectors, _, values = tensors(basis)
    keep = positive(values)
    if not bool(keep.any()):
        raise InputError("a spectral distance needs at least one eigenvalue above zero")
    if kind == "diffusion":
        # Without a time: the scale at which the first mode has decayed by half.
        time = math.log(2) / float(values[keep].min()) if time is None else float(time)
        if time < 0:
            raise InputError(f"expected a diffusion time >= 0, got {time}")
        # The constants of several components must stay: they are what tells the components apart.
        return vectors * torch.exp(-time * values)
    if time is not None:
        raise InputError(f"only the diffusion distance has a time, got time={time} for {kind!r}")
    return vectors[:, keep] * (values[keep] ** (-0.5 if kind == "commute" else -1.0))


@validated
def spectral_embedding(
    basis: Basis[A], kind: Kind = "biharmonic", *, time: float | None = None
) -> A:
    """Coordinates whose Euclidean distances are spectral distances, for neighbours and clusters.

    Parameters
    ----------
    basis
        Of the shape.
    kind, time
        As in `distance`.

    Returns
    -------
    Array
        ``(n, K')``: of diffusion all K functions, else those with an eigenvalue above zero.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> spectral_embedding(basis).shape
    (200, 4)
    """
    return like(basis, _embedding(basis, kind, time))


@validated
def distance(
    basis: Basis[A], sources: Any, kind: Kind = "biharmonic", *, time: float | None = None
) -> A:
    """Spectral distances from every point to each source.

    Between components of a disconnected cloud, commute-time and biharmonic distances compare the
    components' own modes only and do not mean anything; the diffusion distance does.

    Parameters
    ----------
    basis
        Of the shape.
    sources
        The index of a point, or a list of ``s`` of them.
    kind
        "diffusion", "commute" or "biharmonic".
    time
        Of diffusion; by default the first mode has decayed by half.

    Returns
    -------
    Array
        ``(n,)`` for one index, ``(n, s)`` for a list.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> int(distance(basis, 0).argmax())  # the opposite point of the circle
    100
    """
    embedding = _embedding(basis, kind, time)
    index = rows(sources, basis.n, embedding.device)
    columns = torch.stack([(embedding - embedding[i]).norm(dim=1) for i in index], 1)
    return like(basis, columns[:, 0] if np.ndim(sources) == 0 else columns)


@validated
def pseudotime(basis: Basis[A], root: int, kind: Literal["path", "commute"] = "path") -> A:
    """Progress from a root point, between 0 and 1.

    Parameters
    ----------
    basis
        Of the points.
    root
        The index of the point where it starts.
    kind
        ``"path"``: the length of the shortest path along the neighbours that made the basis.
        ``"commute"``: the time of a random walk to a point and back, which grows along the branches
        of a tree as the path does, where every branch is a mode of the basis; wrong neighbours
        between branches matter little. It is also the answer where the graph is not known, or that
        of a sample of the points.

    Returns
    -------
    Array
        ``(n,)``, over the longest one. Points of parts that cannot be reached from the root have
        infinity.

    Examples
    --------
    >>> t = np.linspace(0, 1, 200)
    >>> from eigenprobe import decompose
    >>> pseudotime(decompose(np.stack([t, t**2], 1), 20), root=0)[[0, -1]].tolist()
    [0.0, 1.0]
    """
    if not 0 <= root < basis.n:
        raise InputError(f"expected a root between 0 and {basis.n - 1}, got {root}")
    found = None if kind == "commute" else _path_lengths(basis, root)
    if found is None:
        vectors, _, values = tensors(basis)
        zero = vectors[:, ~positive(values)]
        heat = zero @ zero[root]  # after an endless time: 0 on other parts, the same on this one
        found = torch.as_tensor(distance(basis, root, "commute")).square()
        found = torch.where(heat > heat[root] / 2, found, torch.inf)
    longest = found[found.isfinite()].max().clamp_min(torch.finfo(found.dtype).tiny)
    return like(basis, found / longest)


def _path_lengths(basis: Basis, root: int) -> Tensor | None:
    """Lengths ``(n,)`` of the shortest paths along the graph of a basis, infinite to other parts,
    if it is known.
    """
    try:
        prepared = basis.prepared()
    except InputError:  # not recorded
        return None
    known = prepared.smoother.graph
    if not prepared.cloud.whole or known is None or not known.k:
        return None
    graph, rows = known.without_loops(), prepared.cloud.rows
    heads = np.repeat(np.arange(graph.n), graph.k)
    tails = graph.indices.cpu().numpy().ravel()
    lengths = np.sqrt(graph.squared.double().cpu().numpy().ravel())
    lengths = np.maximum(lengths, np.finfo(float).tiny)  # a zero would be no edge
    steps = csr_matrix((lengths, (heads, tails)), shape=(graph.n, graph.n))
    start = root if rows is None else int(rows[root])
    found = torch.from_numpy(dijkstra(steps, directed=False, indices=start))
    return (found if rows is None else found[rows.cpu()]).to(tensors(basis)[0])


@validated
def segment(
    basis: Basis[A], parts: int, kind: Kind = "commute", *, time: float | None = None, seed: int = 0
) -> A:
    """Parts of a shape that heat leaves slowly, by k-means on a spectral embedding.

    Parameters
    ----------
    basis
        Of the shape.
    parts
        How many.
    kind, time
        As in `spectral_embedding`.
    seed
        Of the starts of k-means.

    Returns
    -------
    Array
        A label ``(n,)`` from 0 to ``parts - 1`` for every point, the largest mass first.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> np.bincount(segment(basis, 2)).tolist()
    [100, 100]
    """
    if not 1 <= parts <= basis.n:
        raise InputError(f"expected 1 to {basis.n} parts, got {parts}")
    from sklearn.cluster import KMeans

    rows = np.asarray(torch.as_tensor(spectral_embedding(basis, kind, time=time)).double().cpu())
    mass = tensors(basis)[1].double().cpu().numpy()
    labels = KMeans(parts, n_init=10, random_state=seed).fit(rows, sample_weight=mass).labels_
    place = np.argsort(np.argsort(-np.bincount(labels, mass, minlength=parts), kind="stable"))
    return like(basis, torch.from_numpy(place[labels]).to(tensors(basis)[0].device))
