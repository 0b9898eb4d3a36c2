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

Kind = tuple[str, Callable[[Any], bool]]  # what is asked in words, and the question itself
F = TypeVar("F", bound=Callable[..., Any])
LIST = "a list"


def validated(function: F) -> F:
    """The function (or dataclass) with its arguments checked."""
    if isinstance(function, type):
        function.__init__ = validated(function.__init__)  # type: ignore[misc]
        return function
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        if "neighbors" in kwargs and "neighbours" in names and "neighbours" not in kwargs:
            kwargs["neighbours"] = kwargs.pop("neighbors")
        first = as_annotated(function, dict(zip(names, args, strict=False)))
        others = as_annotated(function, kwargs)
        return function(*first.values(), *args[len(names) :], **others)

    return entered  # type: ignore[return-value]


def as_annotated(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, lists as arrays; an `InputError` names the first that is not what its
    annotation says.
    """
    kinds = _annotated(function)
    for name, value in arguments.items():
        if asked := kinds.get(name, kinds.get("")):
            arguments[name] = _checked(asked, name, value)
    if not 0 <= (arguments.get("seed") or 0) < 2**32:
        raise InputError(f"seed must be from 0 to 2^32 - 1, got {arguments['seed']}")
    return arguments


def checked(hint: Any, name: str, value: Any) -> Any:
    """The value, where it is what a type asks; else an `InputError` with its name."""
    kinds = _kinds(hint)
    return _checked(kinds, name, value) if kinds else value


@cache
def _annotated(function: Callable[..., Any]) -> dict[str, list[Kind]]:
    """What every parameter asks; nothing where a part of its annotation is unknown."""
    names = {**vars(sys.modules[function.__module__]), "Array": Numbers}
    found: dict[str, list[Kind]] = {}
    for each in inspect.signature(function).parameters.values():
        name = "" if each.kind == each.VAR_KEYWORD else each.name  # which stands for all others
        found[name] = []
        with suppress(NameError):  # of a module that is only imported for types
            hint = each.annotation
            found[name] = _kinds(eval(hint, names) if isinstance(hint, str) else hint)
    return found


def _kinds(hint: Any) -> list[Kind]:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        each = [_kinds(part) for part in parts]
        return [kind for part in each for kind in part] if all(each) else []
    if origin is Literal:
        words = " or ".join(map(repr, parts))
        return [(words, lambda value: isinstance(value, str) and value in parts)]
    if hint in SIMPLE:
        return [SIMPLE[hint]]
    if origin in (abc.Sequence, tuple) and (inner := _kinds(parts[0])):
        pair = origin is tuple and Ellipsis not in parts
        words = f"a pair of {inner[0][0].split(' ', 1)[1]}s" if pair else LIST
        return [(words, lambda x: _is_list(x, inner) and (not pair or len(x) == 2))]
    hint = hint if origin is None else origin  # Basis[A] asks for a Basis
    known = isinstance(hint, type) and hint not in (Any, inspect.Parameter.empty)
    return [(f"a {hint.__name__}", lambda value: isinstance(value, hint))] if known else []


def _is_list(values: object, inner: list[Kind]) -> bool:
    return isinstance(values, (list, tuple)) and all(
        any(fits(value) for _, fits in inner) for value in values
    )


def _checked(kinds: list[Kind], name: str, value: Any) -> Any:
    array = SIMPLE[Numbers] in kinds
    if array and isinstance(value, (list, tuple)):
        listed = any(fits(value) for words, fits in kinds if words == LIST)
        value = value if listed else as_array(value)
    if not any(fits(value) for _, fits in kinds):
        got = repr(value)[:80]
        if getattr(value, "shape", None):
            dtype, kind = getattr(value, "dtype", ""), type(value).__name__
            got = f"{dtype} {kind} of shape {tuple(value.shape)}".strip()
            if array and _numeric(value, finite=False):
                got += " with NaN, infinity or masked entries"
        asked = [words for words, _ in kinds if words != LIST or len(kinds) == 1]
        raise InputError(f"{name} must be {' or '.join(asked)}, got {got}")
    if not array or not getattr(value, "strides", None):
        return value
    value = as_array(value)
    return value if value.flags.writeable else value.copy()  # torch warns of read-only memory


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
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    elif array.dtype.kind in "fiu":
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.copy() if min(array.strides, default=0) < 0 else array


def _numeric(value: Any, finite: bool = True) -> bool:
    """Whether an array or tensor holds real, finite, unmasked numbers."""
    import numpy as np

    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return False
    if hasattr(value, "detach"):
        if value.is_meta or value.is_quantized:
            return False
        return not value.is_complex() and (not finite or bool(value.detach().isfinite().all()))
    array = np.asarray(value)
    real = array.dtype.kind in "fiub" and not np.ma.is_masked(value)
    return real and (not finite or bool(np.isfinite(array).all()))


def _real(x: object) -> bool:
    return isinstance(x, Real) and not isinstance(x, bool)


class Numbers:
    """Stands for ``Array`` in an annotation."""


SIMPLE: dict[Any, Kind] = {
    int: ("a whole number", lambda x: isinstance(x, Integral) and not isinstance(x, bool)),
    float: ("a finite number", lambda x: _real(x) and abs(float(x)) < float("inf")),
    bool: ("True or False", lambda x: type(x).__name__ == "bool"),
    str: ("a text", lambda x: isinstance(x, str)),
    os.PathLike[str]: ("a path", lambda x: isinstance(x, os.PathLike)),
    Numbers: ("an array of finite numbers", _numeric),
    **dict.fromkeys((None, NoneType), ("None", lambda x: x is None)),
}
