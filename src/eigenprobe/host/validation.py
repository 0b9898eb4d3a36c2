"""Arguments of public functions: the annotation of each is the check, done before any work.

@validated
def f(x: Array, k: int = 3) -> ...      f(x, "a") is one `InputError`: "k must be a whole number,
                                        got 'a'"

Known are int, float (finite), bool, str, None, paths, ``Literal``, classes, pairs of numbers,
functions, lists of these, and ``Array``: finite numbers in a list, an array or a tensor. A list
becomes an array, and an array one that torch takes. A parameter with another annotation is not
looked at.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import abc
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ..errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
LARGEST = sys.float_info.max
UNIONS, LISTS, LIST = (Union, UnionType), (abc.Sequence, tuple), "a list"


class Numbers:
    """Stands for ``Array`` in an annotation."""


WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "True or False",
    str: "a text",
    Numbers: "an array of finite numbers",
    os.PathLike: "a path",
    NoneType: "None",
}


def validated(function: F) -> F:
    """The function (or dataclass) with its arguments checked."""
    if isinstance(function, type):
        function.__init__ = validated(function.__init__)  # type: ignore[misc]
        return function
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        if "neighbors" in kwargs and "neighbours" in names:
            kwargs.setdefault("neighbours", kwargs.pop("neighbors"))
        first = as_annotated(function, dict(zip(names, args)))
        others = as_annotated(function, kwargs)
        return function(*first.values(), *args[len(names) :], **others)

    return entered  # type: ignore[return-value]


def as_annotated(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, lists as arrays; an `InputError` names the first that is not what its
    annotation says.
    """
    hints = _annotated(function)  # further ones are called parameters
    for name, value in arguments.items():
        arguments[name] = checked(hints.get(name, hints.get("parameters")), name, value)
    if not 0 <= (arguments.get("seed") or 0) < 2**32:
        raise InputError(f"seed must be from 0 to 2^32 - 1, got {arguments['seed']}")
    return arguments


@cache
def _annotated(function: Callable[..., Any]) -> dict[str, Any]:
    """The type of every parameter whose annotation is known."""
    names, found = {**vars(sys.modules[function.__module__]), "Array": Numbers}, {}
    for name, hint in function.__annotations__.items():
        with suppress(NameError):  # of a module that is only imported for types
            found[name] = eval(str(hint), names)
    return found


def checked(hint: Any, name: str, value: Any) -> Any:
    """The value, where it is what a type asks; else an `InputError` with its name."""
    array = Numbers in (hint, *get_args(hint))
    wanted = _wanted(hint, value)
    if wanted and array and isinstance(value, (list, tuple)):
        wanted = _wanted(hint, value := as_array(value))
    if wanted:
        shown = repr(value)[:80]
        if getattr(value, "shape", None):
            kind, shape = type(value).__name__, tuple(value.shape)
            shown = f"{getattr(value, 'dtype', '')} {kind} of shape {shape}".strip()
            shown += " with NaN, infinity or masked entries" * _numeric(value, finite=False)
        raise InputError(f"{name} must be {wanted}, got {shown}")
    if not array or not getattr(value, "strides", None):
        return value
    value = as_array(value)
    return value if value.flags.writeable else value.copy()  # torch warns of read-only memory


def _wanted(hint: Any, value: Any) -> str:
    """What a type asks that a value is not, in words; of a type that is not known nothing."""
    kind, parts = get_origin(hint) or hint, get_args(hint)  # Basis[A] asks for a Basis
    if kind in UNIONS:
        asked = [_wanted(part, value) for part in parts]
        return " or ".join(each for each in asked if each != LIST) if all(asked) else ""
    words = WORDS.get(kind) or f"a {getattr(kind, '__name__', '')}"
    if kind is Literal:
        fits, words = isinstance(value, str) and value in parts, " or ".join(map(repr, parts))
    elif kind in LISTS:
        pair = kind is tuple and Ellipsis not in parts
        words = f"a pair of {_wanted(parts[0], ...)[2:]}s" if pair else LIST
        fits = isinstance(value, (list, tuple)) and (not pair or len(value) == 2)
        fits = fits and not any(_wanted(parts[0], each) for each in value)
    elif kind is Numbers:
        fits = _numeric(value)
    elif kind is bool:
        fits = type(value).__name__ == "bool"  # numpy's too
    elif kind in (int, float):
        fits = isinstance(value, Integral if kind is int else Real) and value is not bool(value)
        fits = fits and (kind is int or abs(value) <= LARGEST)
    else:
        fits = not isinstance(kind, type) or kind is Any or isinstance(value, kind)
    return "" if fits else words


def as_array(value: Any, dtype: Any = None) -> Any:
    """A numpy array of what is one, in a layout that torch takes: native bytes, ascending, at most
    double precision.
    """
    import numpy as np

    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            short = str(value.dtype) == "torch.bfloat16"  # which numpy has not
            value = (value.float() if short else value).numpy()
        array = np.asarray(value, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise InputError(f"expected an array of numbers: {error}") from error
    long = array.dtype.kind == "f" and array.dtype.itemsize > 8
    array = array.astype(float if long else array.dtype.newbyteorder("="), copy=False)
    return array.copy() if min(array.strides, default=0) < 0 else array


def _numeric(value: Any, finite: bool = True) -> bool:
    """Whether an array or tensor holds real, finite, unmasked numbers."""
    import numpy as np

    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return False
    if hasattr(value, "detach"):
        if value.is_meta or value.is_quantized or value.is_complex():
            return False
        return not finite or bool(value.detach().isfinite().all())
    array = np.asarray(value)
    real = array.dtype.kind in "fiub" and not np.ma.is_masked(value)
    return real and (not finite or bool(np.isfinite(array).all()))
