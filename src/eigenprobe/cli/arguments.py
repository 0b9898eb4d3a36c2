"""From a typed function to a command of cyclopts: its signature is the parser, its docstring the
help.

A parameter without a default is positional, ``list[...]`` takes several values, ``bool`` becomes
``--x`` or ``--no-x``, everything else is ``--name VALUE``. The first paragraph of the
docstring is the summary, ``Examples:`` is printed as it is, ``Args:`` gives each option its line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from cyclopts import App, Parameter

from .session import Session

# One word for one thing on every command; the second one is short, or what it was called before.
CALLED = {
    "k": ("--k", "-k"),
    "method": ("--method", "-m"),
    "measure": ("--alpha", "--measure"),
    "n": ("--samples", "--n"),
    "neighbors": ("--neighbours", "--neighbors"),
    "neighbours": ("--neighbours", "--neighbors"),
}
SHARED = ("seed", "device")  # which a `Session` has
ARRAY = " (an array is given as a .npy file)"
Function = Callable[..., Any]


def group(name: str, summary: str, *parts: Function | App, **more: Any) -> App:
    """Commands under one name."""
    app = App(name, help=summary, help_format="plaintext", **{"version_flags": (), **more})
    for part in parts:
        app.command(part if isinstance(part, App) else command(part))
    return app


def command(function: Function, name: str = "", library: Function | None = None) -> App:
    """The command that a function is.

    One that runs a function of the library has the parameters of that function too, as its
    ``**options``, with their types, defaults and descriptions, as far as they can be typed: words,
    numbers, and ``.npy`` files for arrays.
    """
    own, hints, lines = inspect.signature(function).parameters, get_type_hints(function), {}
    parameters = [each for each in own.values() if each.kind != each.VAR_KEYWORD]
    if library is not None:
        lines, known = descriptions(library), get_type_hints(library)
        for each in inspect.signature(library).parameters.values():
            new = each.default is not each.empty and each.name not in (*own, *SHARED)
            if new and (typed := _typed(known[each.name])) is not None:
                hints[each.name] = typed
                lines[each.name] += ARRAY if Any in get_args(known[each.name]) else ""
                parameters.append(each.replace(kind=each.KEYWORD_ONLY))
    lines |= descriptions(function)

    def chosen(*positional: Any, **options: Any) -> Any:
        return function, dict(zip(own, positional, strict=False)) | options

    found = []
    for each in parameters:
        if each.name == "session":
            found.append(each.replace(annotation=Session | None, default=None))
            continue
        # "--no-force" says nothing new: only what is on by default can be switched off
        more: Any = {"negative": None if each.default is True else ""}
        more["consume_multiple"] = get_origin(hints[each.name]) is list
        about = Parameter(CALLED.get(each.name), help=lines[each.name], **more)
        found.append(each.replace(annotation=Annotated[_exact(hints[each.name]), about]))
    found.sort(key=lambda each: (each.kind, each.name == "session"))
    chosen.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    chosen.__annotations__ = {each.name: each.annotation for each in found}
    summary, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:\n")
    epilogue = "Examples:\n" + examples.partition("\n\nArgs:\n")[0] if examples else None
    help: Any = {"help": summary, "help_format": "plaintext", "help_epilogue": epilogue}
    app = App(name or function.__name__, version_flags=(), **help)
    app.default(chosen)
    return app


class Int(int):
    """A whole number; as a plain int cyclopts would take 2.5 for 2."""

    def __new__(cls, word: str) -> Any:
        return int(word)


Int.__name__ = "int"  # in messages


def _exact(hint: Any) -> Any:
    """The type with `Int` for int."""
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(map(_exact, get_args(hint)))]  # noqa: UP007
    return {int: Int, list[int]: list[Int]}.get(hint, hint)


def _typed(hint: Any) -> Any:
    """What of a type can be typed; None: nothing."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kept = [part for part in parts if get_origin(part) is Literal]
    kept += [kind for kind in (int, float) if kind in parts]
    kept += [str] if str in parts or Any in parts else []
    return Union[(*kept, None)] if kept else None


def descriptions(function: Function) -> dict[str, str]:
    """What a docstring says of every parameter, as plain text."""
    from docstring_parser import parse

    found: dict[str, str] = {}
    for each in parse(inspect.getdoc(function) or "").params:
        text = " ".join((each.description or "").replace("`", "").split())
        found |= dict.fromkeys(each.arg_name.split(", "), text)
    return found
