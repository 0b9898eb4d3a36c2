"""Filters f -> V g(lambda) V^T M f with named responses g.

    lowpass     1 for lambda <= cutoff, else 0          highpass   its complement
    heat        exp(-time lambda)                       resolvent  1 / (1 + lambda / cutoff), Tikhonov smoothing
    band        1 for low <= lambda <= high, else 0     bump       exp(-(lambda - centre)^2 / 2 width^2)
    butterworth 1 / (1 + (lambda / cutoff)^(2 order)), a lowpass without ringing

A basis of K vectors knows nothing above lambda_K. That part of f is dropped, unless `outside` gives it a gain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from ..annotations import door
from ..basis import Basis
from ..errors import InputError
from .arrays import Array, like, rows, tensors

RESPONSES: dict[str, Callable[..., Tensor]] = {
    "lowpass": lambda values, *, cutoff: (values <= cutoff).to(values),
    "highpass": lambda values, *, cutoff: (values > cutoff).to(values),
    "band": lambda values, *, low, high: ((values >= low) & (values <= high)).to(values),
    "heat": lambda values, *, time: torch.exp(-time * values),
    "resolvent": lambda values, *, cutoff: 1 / (1 + values / cutoff),
    "butterworth": lambda values, *, cutoff, order=2: 1 / (1 + (values / cutoff) ** (2 * order)),
    "bump": lambda values, *, centre, width: torch.exp(-((values - centre) ** 2) / (2 * width**2)),
}


@door
def response(name: str, **parameters: float) -> Callable[[Array], Array]:
    """The named response as a function of eigenvalues (numpy or torch), for `Basis.filter`.

    >>> response("heat", time=1.0)(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.3679])
    """
    if name not in RESPONSES:
        raise InputError(f"response must be one of {', '.join(RESPONSES)}, got {name!r}")
    chosen = RESPONSES[name]
    try:
        inspect.signature(chosen).bind(torch.zeros(1), **parameters)
    except TypeError as error:
        expected = ", ".join(list(inspect.signature(chosen).parameters)[1:])
        raise InputError(f"response {name!r} takes {expected}; got {', '.join(parameters) or 'nothing'}") from error

    def gain(values: Array) -> Array:
        result = chosen(torch.as_tensor(values), **parameters)
        return result if isinstance(values, Tensor) else result.numpy()

    return gain


@door
def apply_filter(
    basis: Basis, f: Array, name: str | Callable[[Array], Array], *, outside: float = 0.0, **parameters: float
) -> Array:
    """Filter a function (n,) or functions (n, m) by a named response or a callable; `outside` scales the rest."""
    gain = response(name, **parameters) if isinstance(name, str) else name
    result = basis.filter(f, gain)
    if outside:
        result = result + outside * (basis._functions(f) - basis.reconstruct(basis.project(f)))
    return result


@door
def heat_kernel(basis: Basis, source: int, time: float) -> Array:
    """h_t(source, .) (n,): heat after `time` from a unit of heat at one point, a density against the mass."""
    vectors, _, values = tensors(basis)
    index = rows(source, basis.n, vectors.device)
    return like(basis, vectors @ (torch.exp(-float(time) * values) * vectors[index[0]]))
