"""mkdocs hook: a page's ``<!-- help: decompose -->`` becomes that command's help, ``<!-- api: decompose -->`` the
signature and docstring of ``eigenprobe.decompose``; both live, so neither can go stale."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
from typing import Any

MARK = re.compile(r"<!-- (help|api): (.*?) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARK.sub(lambda match: command_help(match[2]) if match[1] == "help" else describe(match[2]), markdown)


def command_help(words: str) -> str:
    from eigenprobe.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*words.split(), "--help"])
    assert code == 0, words
    return f"```text\n{out.getvalue().rstrip()}\n```"


def describe(name: str) -> str:
    """One public name: the signature in full, the docstring, and for a class its public methods the same way."""
    thing = resolve(name)
    parts = [f"### `{name}`", _signature(name.split(".")[-1], thing), _docstring(thing)]
    if inspect.isclass(thing):
        for method, member in vars(thing).items():
            if method.startswith("_") and method != "__call__":
                continue
            bound = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(bound) and inspect.getdoc(bound):
                parts += [f"#### `{name}.{method}`", _signature(method, bound), _docstring(bound)]
    return "\n\n".join(parts)


def resolve(name: str) -> Any:
    """``geometry.load`` -> that object of the package."""
    module, _, attribute = f"eigenprobe.{name}".rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _signature(name: str, thing: Any) -> str:
    try:
        parameters = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"```python\n{name}\n```"
    shown = f"{name}{parameters}"
    if len(shown) > 100:
        inner = ",\n    ".join(_parameters(parameters))
        returned = parameters.return_annotation
        arrow = "" if returned is inspect.Signature.empty else f" -> {_text(returned)}"
        shown = f"{name}(\n    {inner},\n){arrow}"
    return f"```python\n{shown}\n```"


def _parameters(signature: inspect.Signature) -> list[str]:
    shown: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown and not any(s.startswith("*") for s in shown):
            shown.append("*")
        shown.append(str(parameter))
    return shown


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _docstring(thing: Any) -> str:
    return f"```text\n{inspect.getdoc(thing) or ''}\n```"
