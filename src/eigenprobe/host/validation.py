"""Arguments of public functions, compared with their annotations before anything is computed.

@validated
def f(x: Array, k: int = 3) -> ...      f(x, "a") is one `InputError`: "k must be a whole number, got 'a'"
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from inspect import Parameter
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ..errors import InputError

Kind = tuple[str, Callable[[Any], bool]]  # what is asked in words, and the question itself
F = TypeVar("F", bound=Callable[..., Any])


def validated(function: F) -> F:
    """A public function (or dataclass) whose arguments must be what their annotations say, or are one `InputError`.

    Known are int, float (finite), bool, str, None, paths, ``Literal``, classes, pairs ``tuple[int, int]``, functions
    and ``Array``: finite numbers in a list, an array or a tensor; a list becomes an array, and an array one that torch
    takes. Others are not looked at.
    """
    if isinstance(function, type):
        function.__init__ = validated(function.__init__)  # type: ignore[misc]
        return function
    signature = inspect.signature(function)

    @wraps(function)
    def entered(*args: object, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments |= as_annotated(function, bound.arguments)
        return function(*bound.args, **bound.kwargs)

    return entered  # type: ignore[return-value]


def as_annotated(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a function that are what their annotations say; an `InputError` names the first that is not."""
    found: dict[str, Any] = {}
    for name, (kinds, keywords) in _annotated(function).items():
        if name in arguments and keywords:
            found[name] = {each: _as_one_of(kinds, each, value) for each, value in arguments[name].items()}
        elif name in arguments:
            found[name] = _as_one_of(kinds, name, arguments[name])
            if name == "seed" and found[name] is not None and not 0 <= found[name] < 2**32:
                raise InputError(f"seed must be from 0 to 2^32 - 1, got {found[name]}")
    return found


@cache
def _annotated(function: Callable[..., Any]) -> dict[str, tuple[list[Kind], bool]]:
    """The parameters whose annotation is known, and whether one stands for all further keywords."""
    found, names = {}, vars(sys.modules[function.__module__])
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation is not Parameter.empty and (kinds := _kinds(str(parameter.annotation), names)):
            found[name] = (kinds, parameter.kind == Parameter.VAR_KEYWORD)
    return found


def as_array(value: Any, dtype: Any = None) -> Any:
    """A numpy array of what is one, in a layout that torch takes: native bytes, ascending, at most double precision."""
    import numpy as np

    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()  # numpy has no bfloat16
        array = np.asarray(value, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise InputError(f"expected an array of numbers: {error}") from error
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    elif array.dtype.kind in "fiu":
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.copy() if min(array.strides, default=0) < 0 else array


def _kinds(annotation: str, names: Mapping[str, Any]) -> list[Kind]:
    """What an annotation asks in words, and the question itself; nothing where a part of it is unknown.

    A part is a simple type, a list of known ones, a ``Literal``, or the name of a class, a ``Literal`` or a union.
    """
    tree = ast.parse(annotation, mode="eval").body
    if isinstance(tree, ast.BinOp):
        left, right = _kinds(ast.unparse(tree.left), names), _kinds(ast.unparse(tree.right), names)
        return left + right if left and right else []
    text = ast.unparse(tree)
    if text in SIMPLE:
        return [SIMPLE[text]]
    if text.startswith("Sequence["):
        return [_list_of(_kinds(text[9:-1], names))]
    if text.startswith("Literal["):
        return [_one_of(ast.literal_eval(f"({text[8:-1]},)"))]
    if text.startswith("Callable["):
        return [("a function", callable)]
    kind = names.get(text)
    if get_origin(kind) is Literal:
        return [_one_of(get_args(kind))]
    if get_origin(kind) in (Union, UnionType):
        parts = [p.__name__ if isinstance(p, type) else str(p).replace("typing.", "") for p in get_args(kind)]
        return _kinds(" | ".join(parts), globals())
    if isinstance(kind, type) and kind is not Any:
        return [(f"a {text}", lambda value: isinstance(value, kind))]
    return []


WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null", Path: "a path"}


def in_words(hint: Any) -> str:
    """A type in the words of someone who types its values: into a recipe, or on the command line."""
    origin, options = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, options))
    if origin in (Union, UnionType):
        return " or ".join(map(in_words, options))
    if origin in (tuple, list):
        count = f" of {len(options)}" if len(options) > 1 and options[-1] is not Ellipsis else ""
        return f"a list{count}"
    return WORDS.get(hint, "keys and values")


def _one_of(choices: tuple[Any, ...]) -> Kind:
    return " or ".join(map(repr, choices)), lambda value: isinstance(value, str) and value in choices


def _list_of(inner: list[Kind]) -> Kind:
    def fits(values: object) -> bool:
        return isinstance(values, (list, tuple)) and all(any(ok(value) for _, ok in inner) for value in values)

    return f"a list, each {' or '.join(words for words, _ in inner)}", fits


def _as_one_of(kinds: list[Kind], name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(words == ARRAY for words, _ in kinds):
        listed = any(fits(value) for words, fits in kinds if words.startswith("a list"))
        value = value if listed else as_array(value)
    if not any(fits(value) for _, fits in kinds):
        got = repr(value)[:80]
        if getattr(value, "shape", None):
            got = f"{getattr(value, 'dtype', '')} {type(value).__name__} of shape {tuple(value.shape)}".strip()
            got += " with NaN, infinity or masked entries" if _numeric(value, finite=False) else ""
        asked = [words for words, _ in kinds if not (words.startswith("a list") and len(kinds) > 1)]
        raise InputError(f"{name} must be {' or '.join(asked)}, got {got}")
    if not hasattr(value, "strides") or not value.ndim or not any(words == ARRAY for words, _ in kinds):
        return value
    array = as_array(value)
    return array if array.flags.writeable else array.copy()  # torch warns of what it could not write to


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


def _pair(value: object, kind: type) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(each, kind) for each in value)


ARRAY = "an array of finite numbers"
SIMPLE: dict[str, Kind] = {
    "int": ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    "float": ("a finite number", lambda value: isinstance(value, Real) and abs(float(value)) < float("inf")),
    "bool": ("True or False", lambda value: isinstance(value, bool) or type(value).__name__ == "bool"),
    "str": ("a text", lambda value: isinstance(value, str)),
    "None": ("None", lambda value: value is None),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, os.PathLike)),
    "tuple[int, int]": ("a pair of whole numbers", lambda value: _pair(value, Integral)),
    "tuple[float, float]": ("a pair of numbers", lambda value: _pair(value, Real)),
    "Array": (ARRAY, _numeric),
    "A": ("an array of numbers", lambda value: not hasattr(value, "shape") or _numeric(value, False)),
}
