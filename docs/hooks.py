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
    name = public(name)
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


def public(name: str) -> str:
    """The name as a user writes it: ``basis.Basis`` is ``ep.Basis``, ``geometry.load`` is ``ep.geometry.load``."""
    import eigenprobe

    last = name.split(".")[-1]
    return f"ep.{last}" if last in eigenprobe.__all__ else f"ep.{name}"


def _signature(name: str, thing: Any) -> str:
    try:
        parameters = _unquoted(inspect.signature(thing))
    except (TypeError, ValueError):
        return f"```python\n{name}\n```"
    shown = f"{name}{parameters}"
    if len(shown) > 100:
        inner = ",\n    ".join(_parameters(parameters))
        returned = parameters.return_annotation
        arrow = "" if returned is inspect.Signature.empty else f" -> {_text(returned)}"
        shown = f"{name}(\n    {inner},\n){arrow}"
    return f"```python\n{shown}\n```"


class _Word:
    """An annotation that is shown as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _unquoted(signature: inspect.Signature) -> inspect.Signature:
    """Annotations are strings here (``from __future__ import annotations``); quotes around them are noise."""
    parameters = [
        each.replace(annotation=_Word(each.annotation)) if isinstance(each.annotation, str) else each
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation
    return signature.replace(
        parameters=parameters, return_annotation=_Word(returned) if isinstance(returned, str) else returned
    )


def _parameters(signature: inspect.Signature) -> list[str]:
    shown: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown and not any(s.startswith("*") for s in shown):
            shown.append("*")
        shown.append(str(parameter))
    return shown


def _text(annotation: Any) -> str:
    return getattr(annotation, "__name__", str(annotation))


def _docstring(thing: Any) -> str:
    return "```text\n" + (inspect.getdoc(thing) or "").replace("``", "`") + "\n```"
