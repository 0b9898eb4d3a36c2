"""One function: a cloud in, a `Basis` out, by whichever of the three methods.

    direct       the closed-form optimum: leading eigenvectors of the smoother (the PCA of its
                 probes)
    network      a network trained on this cloud alone
    pretrained   one forward pass of a model trained on many shapes, then a Ritz rotation

Several clouds give a list of bases in the order of the clouds; on a device small ones are solved as
stacks (`stack`).

Points are centred and scaled before anything else, and eigenvalues scaled back, so units and
offsets cost no digits. Coinciding points are merged: each copy gets the value and an equal share of
the mass of the one point they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cloud
from ..cloud.edges import Neighbours
from ..eigen import RitzPairs, basis_of, rotate, solve, with_derivatives
from ..errors import InputError, heard_warnings, near
from ..extensions import KernelExtension
from ..host.files import Facts
from ..host.threads import limited_threads
from ..host.validation import validated
from ..points import (
    Array,
    Origin,
    call_by_cloud,
    check_points,
    listed_clouds,
    opened,
    points_and_faces,
    values_by_cloud,
)
from ..probes.estimates import Eigenvalues, best_basis, with_eigenvalues
from ..probes.families import best_of_family
from ..smoothers import Kind, Smoother
from ..smoothers.alteration import numbers
from ..smoothers.prepared import OperatorSource
from .indicators import warn_of_errors
from .lift import lift
from .settings import Method, OperatorSettings, Parts, Request, Resolution, Space, prepare
from .stack import solve_stacks

if TYPE_CHECKING:
    from pathlib import Path

    from ..probes.objective import Projection
    from ..training.fit import FitSettings, Subset
    from ..training.module import Optimisation
    from ..training.runs import RunSettings

# points up to which a basis holds on to its graph and smoother (1 kB a point); beyond: built again
KEPT = 1_000_000


class OperatorOptions(TypedDict, total=False):
    """The options of the operator, as `decompose` documents them."""

    smoother: Kind | Smoother
    metric: Space
    neighbours: Neighbours | None
    neighbors: Neighbours | None  # the same
    dimension: float | None
    device: str | torch.device | None
    potential: Array | Sequence[Array] | None
    boundary: str | Array | Sequence[str | Array] | None
    anisotropy: float | Array | Sequence[float | Array] | None
    measure: float | Array | Sequence[float | Array] | None
    resolution: Resolution
    parts: Parts | None


class Options(OperatorOptions, total=False):
    """The options of `decompose`; those of the two methods that learn come last."""

    bandwidth: float | None
    seed: int
    tol: float
    probes: Array | str | Callable[[Any], Array] | Sequence[Array | str] | None
    eigenvalues: Eigenvalues
    # "pretrained"
    model: str | PathLike[str]
    ritz: bool  # "network" takes it too
    refine: int
    # "network": fields of `FitSettings`, and how it is run
    settings: FitSettings | None
    run: RunSettings | None
    folder: Path | None
    preset: str | None
    sizes: dict[str, Any] | None
    optimisation: Optimisation | None
    steps: int | None
    loss: Literal["expected", "sampled"]
    projection: Projection | None
    probe: Literal["mean", "worst"]
    resamplings: int | Literal["fresh"] | None
    size: int | None
    subset: Subset
    clouds: int
    precision: Literal["auto", "32", "bf16"]
    accelerate: Literal["auto", "none", "graph"]


Pair = tuple[NDArray[Any], NDArray[Any]]  # vertices and faces
Given = NDArray[Any] | Sequence[Sequence[float]] | str | PathLike[str] | Pair


@overload  # a batch (b, n, d) gives a list, which no annotation can tell
def decompose(  # type: ignore[overload-overlap]
    points: Given, k: int = 50, method: Method = "direct", **options: Unpack[Options]
) -> Basis[NDArray[Any]]: ...


@overload
def decompose(  # type: ignore[overload-overlap]
    points: Tensor, k: int = 50, method: Method = "direct", **options: Unpack[Options]
) -> Basis[Tensor]: ...


@overload
def decompose(  # type: ignore[overload-overlap]
    points: Sequence[Given], k: int = 50, method: Method = "direct", **options: Unpack[Options]
) -> list[Basis[NDArray[Any]]]: ...


@overload
def decompose(  # type: ignore[overload-overlap]
    points: Sequence[Tensor], k: int = 50, method: Method = "direct", **options: Unpack[Options]
) -> list[Basis[Tensor]]: ...


@overload
def decompose(  # type: ignore[overload-overlap]
    points: Sequence[Any] | Iterator[Any],
    k: int = 50,
    method: Method = "direct",
    **options: Unpack[Options],
) -> list[Basis]: ...


@overload
def decompose(  # a mesh, or another library's object that carries points
    points: object, k: int = 50, method: Method = "direct", **options: Unpack[Options]
) -> Basis[NDArray[Any]]: ...


@validated
def decompose(
    points: Any,
    k: int = 50,
    method: Method = "direct",
    *,
    smoother: Kind | Smoother = "adaptive",
    metric: Space = "euclidean",
    neighbours: Neighbours | None = None,
    bandwidth: float | None = None,
    dimension: float | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    tol: float = 1e-6,
    potential: Array | Sequence[Array] | None = None,
    boundary: str | Array | Sequence[str | Array] | None = None,
    anisotropy: float | Array | Sequence[float | Array] | None = None,
    measure: float | Array | Sequence[float | Array] | None = None,
    probes: Array | str | Callable[[Any], Array] | Sequence[Array | str] | None = None,
    eigenvalues: Eigenvalues = "rayleigh",
    resolution: Resolution = "auto",
    parts: Parts | None = None,
    **options: Any,
) -> Basis | list[Basis]:
    """The spectral decomposition of a point cloud, or of each of several.

    Parameters
    ----------
    points
        ``(n, d)`` numpy array or torch tensor. What comes back is of the same kind, precision and
        device; where a tensor requires gradients, eigenvalues, vectors and mass have them
        (docs/operators.md). Also a path, a pair ``(V, F)`` or an object of trimesh, Open3D, PyVista
        or PyTorch Geometric: its faces are not used, and kept for pictures. A list of such, of any
        sizes, a generator, or a batch ``(b, n, d)`` gives bases in the same order; the settings are
        shared. A list given as ``potential``, ``boundary``, ``anisotropy``, ``measure`` or
        ``probes`` then has one entry per cloud.
    k
        How many basis vectors, the constant one included.
    method
        ``"direct"`` (closed form), ``"network"`` (trained on this cloud) or ``"pretrained"``
        (feed-forward).
    smoother
        ``"adaptive"`` (default, measures area whatever the sampling), ``"symmetric"``, ``"row"``
        (the paper's), or a `Smoother` of these very points.
    neighbours
        Which neighbours are real. ``"learned"`` (default on surfaces in three dimensions): the
        shipped network cuts edges that are short-cuts through thin parts and between touching ones;
        ``"plain"``: all of the nearest; a number: that many, uncut.
    metric, bandwidth, dimension
        Of the graph and the smoother; all are chosen from the data by default.
        ``metric="scale-invariant"``: that of the surface times its Gaussian curvature, in which
        eigenvalues do not depend on the size of any part. Direct only.
    seed, device
        Of random starts; where to compute (default: where the points are).
    tol
        Residual ``|A q - mu q|`` that ``direct`` guarantees.
    potential
        ``v (n,)`` in ``length^-2``: the spectrum of ``L + diag(v)`` (Schroedinger, Hamiltonian).
        The first vector is the ground state instead of the constant, and eigenvalues are at least
        ``min v``. Direct only.
    boundary
        ``"dirichlet"``: functions that vanish at the boundary of the cloud, that is at its
        outermost points, which form loops on a surface; or where a bool mask ``(n,)`` says.
        ``info["boundary"]`` lists the rows. Without it the boundary is free (Neumann). Direct only.
    anisotropy
        A field ``(n, d)``: lengths along it count ``1 + |field|`` times, so heat moves more slowly
        that way; or a number, the strength along the direction of strongest curvature of a surface.
        Direct only.
    measure
        Weights ``(n,)`` above 0: ``div(w grad f) / w``, and a mass that is weighted by them. Or a
        number, alpha of diffusion maps: 1 measures area (the default), 1/2 the density of the
        samples, 0 its square. Direct only.
    probes
        Functions ``f (n, m)``, or what makes them from the points (a function, `Probes`): the basis
        that best reconstructs them in the norm of the mass, by descending energy
        (``info["explained"]``), instead of the smoothest one. Needs at least ``k`` independent
        ones. Or a family by name, ``"heat"``, ``"resolvent"``, ``"polynomial"``, ``"wavelet"``,
        ``"hadamard"``, ``"features"`` (`probes.families`): the same through its exact covariance.
        Eigenvalues are Rayleigh quotients and need not ascend. Direct only.
    eigenvalues
        How they are estimated: ``"rayleigh"`` quotients of the smoother; or the paper's ``"mean"``
        and ``"worst"``, one over the mean or the largest error with which the vectors before
        reconstruct probes, the first one 0 and the sum that of the Rayleigh quotients. Direct only.
    resolution
        How many points the operator is made on. ``"auto"`` looks at the sampling
        (``info["quality"]``): outliers are left out (``info["strays"]`` lists them, they have
        values and no mass), and the other points are taken as they are wherever they are a surface
        with their nearest. Scan lines far apart, noise above the spacing and copies lead to a
        working sample, an even set of averaged points (``info["resolution"]``), from which vectors
        and mass are lifted to all points. A number asks for about so many points; ``"all"`` takes
        every point as it is. Direct only.
    parts
        ``"largest"``: the basis of the largest connected part alone; ``"all"``: of all parts. By
        default parts of less than a twentieth of the largest are left out where they hold at most a
        tenth of the points; what was left out is in ``info["left_out"]``, has values and no mass.
    options
        Passed on to the network fit or to the pretrained model's ``encode``.

    Returns
    -------
    Basis or list of Basis
        A list where several clouds came, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> basis.eigenvalues.round(2).tolist()
    [0.0, 1.0, 1.0, 4.0, 4.0]
    """
    shared = OperatorSettings(
        smoother, metric, neighbours, bandwidth, dimension, resolution=resolution, parts=parts
    )
    request = Request(
        k,
        method,
        shared,
        seed=seed,
        device=device,
        tol=tol,
        eigenvalues=eigenvalues,
        options=options,
    )
    per_point = {"potential": potential, "boundary": boundary, "anisotropy": anisotropy}
    per_point |= {"measure": measure, "probes": probes}
    if (clouds := listed_clouds(points)) is None:
        return _decompose_cloud(points, request.of(**per_point))
    own = values_by_cloud(per_point, len(clouds))
    plain = all(value is None for value in own[0].values())
    stacked = solve_stacks(clouds, request) if plain else {}

    def one(number: int) -> Basis:
        if number in stacked:
            return stacked[number]
        return _decompose_cloud(clouds[number], request.of(**own[number]))

    return call_by_cloud(len(clouds), one)


def _decompose_cloud(points: object, request: Request) -> Basis:
    """The basis of one cloud, in the kind of array that its points came in."""
    if not request.tol >= 0:
        raise InputError(f"tol must be a number of at least 0, got {request.tol}")
    with heard_warnings() as told:
        basis, rows = _basis_of(points, request)
    info = basis.info | {"warnings": told} | ({} if rows is None else {"rows": rows.tolist()})
    return replace(basis, info=info, rows=rows)


def _basis_of(source: object, request: Request) -> tuple[Basis, Any]:
    """The basis, and the rows of a file that its points are, where some were left out."""
    shape = opened(source)
    points, faces = points_and_faces(shape)
    x, origin = check_points(points, request.k, request.device)
    began = time.perf_counter()
    named = ["neighbours by name"] * isinstance(request.operator.neighbours, str)
    if request.method != "direct" and (asked := [*request.operator.asked, *request.asked, *named]):
        raise InputError(
            f"{asked[0]} is known to method 'direct' only, got method {request.method!r}"
        )
    basis = METHODS[request.method](x, origin, request)
    info = basis.info | {"method": request.method, "seconds": round(time.perf_counter() - began, 4)}
    return replace(basis, info=info, faces=faces).as_given(origin), getattr(shape, "rows", None)


def _direct(x: Tensor, origin: Origin, request: Request) -> Basis:
    """The closed form: leading eigenvectors of the smoother."""
    _check_options(request)
    with limited_threads(x.device, len(x)):
        wanted = request.operator.traced(origin, request.asked)
        if request.asked:
            if isinstance(wanted.resolution, int):
                raise InputError(f"{request.asked[0]} is not taken together with a resolution")
            wanted = replace(wanted, resolution="all", parts="all")
        prepared = prepare(x, wanted, request.k)
        cloud, smoother = prepared.cloud, prepared.smoother
        info: Facts = {
            "components": smoother.warn_of_parts()
            if wanted.fixes_constant
            else smoother.components[0]
        }
        info |= dict.fromkeys(wanted.asked, True)
        if smoother.fixed is not None:
            held = smoother.fixed if cloud.rows is None else smoother.fixed[cloud.rows]
            info["boundary"] = held.nonzero()[:, 0].tolist()
        rotation, found, following = _rotation(smoother, cloud, request, wanted.moving)
        usual = wanted.smoother == "adaptive" and not (wanted.asked or request.asked)
        if usual and info["components"] == 1:
            warn_of_errors(prepared, rotation, wanted.dimension is not None)
        function = KernelExtension(cloud.points, rotation.vectors, wanted.search_metric)
        basis = basis_of(rotation, smoother, cloud, info=info | found, extension=function)
        if wanted.differentiable(smoother):
            basis = with_derivatives(basis, rotation, smoother, cloud, origin.points, following)
    kept = isinstance(wanted.smoother, Smoother) or smoother.n <= KEPT
    basis = replace(basis, source=OperatorSource(wanted, prepared if kept else None))
    return basis if cloud.whole else lift(basis, function, cloud)


def _check_options(request: Request, *known: str) -> None:
    """An error where an option is none of the method."""
    if unknown := sorted({*request.options} - {*known}):
        name, known = unknown[0], tuple(Options.__annotations__)
        asked = ", which is one of another method" if name in known else near(name, known)
        raise InputError(f"method {request.method!r} does not know the option {name!r}{asked}")


def _network(x: Tensor, origin: Origin, request: Request) -> Basis:
    """A network trained on this cloud alone."""
    from ..training.fit import fit_network

    with limited_threads(x.device):
        return fit_network(
            x, request.k, seed=request.seed, **request.graph_settings, **request.options
        )


def _pretrained(x: Tensor, origin: Origin, request: Request) -> Basis:
    """One forward pass of a model. It has its graph and smoother built in: settings of others are
    errors.
    """
    from ..pretrained.model import SpectralModel

    usual = {"metric": "euclidean", "smoother": "adaptive", "seed": 0, "tol": 1e-6}
    for name, value in {**request.graph_settings, "seed": request.seed, "tol": request.tol}.items():
        if value != usual.get(name):
            raise InputError(
                f"method 'pretrained' does not take {name}, got {name}={value!r}: use "
                "method='direct'"
            )
    _check_options(request, "model", "ritz", "refine")
    options = dict(request.options)
    return SpectralModel.from_pretrained(options.pop("model", "surface")).encode(
        x, k=request.k, **options
    )


METHODS: dict[Method, Callable[[Tensor, Origin, Request], Basis]] = {
    "direct": _direct,
    "network": _network,
    "pretrained": _pretrained,
}


def _rotation(
    smoother: Smoother, cloud: Cloud, request: Request, moving: bool
) -> tuple[RitzPairs, Facts, float]:
    """The closed-form optimum, of the smoother's probes or of given ones, facts about it, and the
    eigenvalue after the last one, which derivatives ask for (where points are ``moving``)."""
    generator, probes, k = (
        torch.Generator(smoother.device).manual_seed(request.seed),
        request.probes,
        request.k,
    )
    functions: Tensor | str = probes if isinstance(probes, str) else "heat"
    facts: Facts = {}
    following = math.inf
    if probes is None:
        count = min(k + moving, smoother.n)
        pairs = solve(smoother, count, tol=request.tol, generator=generator)
        rotation = rotate(pairs.vectors[:, :k], smoother, k, gaps=pairs.gaps[:k])
        if len(pairs.gaps) > k:
            following = float(pairs.gaps[k]) / float(smoother.step_time)
    elif smoother.lowest is None and isinstance(probes, str):
        rotation, facts = best_of_family(probes, smoother, k, generator=generator)
    elif smoother.lowest is None:
        made = probes(cloud.given) if callable(probes) and not hasattr(probes, "shape") else probes
        functions = cloud.collect(numbers(made, "probes", len(cloud.given)).to(smoother.device))
        rotation, facts = best_basis(functions, smoother, k)
    else:
        raise InputError("probes replace the operator: not together with a potential or a boundary")
    if request.eigenvalues != "rayleigh":
        rotation = with_eigenvalues(
            rotation, smoother, request.eigenvalues, functions=functions, generator=generator
        )
        facts["estimator"] = request.eigenvalues
    return rotation, facts, following
