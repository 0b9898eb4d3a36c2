"""What stands in a page as a comment is made when the site is built, so it cannot go stale.

``<!-- help: decompose -->`` becomes that command's help, ``<!-- api: decomposition.decompose -->``
the signature and docstring of that object (by mkdocstrings), and formulas ``$...$`` become MathML,
which browsers draw by themselves. This is an extension of Python-Markdown, which every generator of
sites that builds on it takes; `OwnTypes` is one of griffe.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
from typing import Any

import griffe
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

MARK = re.compile(r"<!-- (help|api): (.*?) -->")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


class Marks(Preprocessor):
    """Comments of the kinds above."""

    def run(self, lines: list[str]) -> list[str]:
        return MARK.sub(made, "\n".join(lines)).split("\n")


class Formulas(Postprocessor):
    """Formulas that `pymdownx.arithmatex` has found."""

    def run(self, text: str) -> str:
        return FORMULA.sub(
            lambda match: formula(html.unescape(match[3]), display=match[2] == "["), text
        )


class Made(Extension):
    """Both of them."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(Marks(md), "marks", 200)
        md.postprocessors.register(Formulas(md), "formulas", 0)


def makeExtension(**options: Any) -> Made:  # the name that Markdown looks for
    return Made(**options)


def made(match: re.Match[str]) -> str:
    return command_help(match[2]) if match[1] == "help" else describe(match[2])


def formula(latex: str, display: bool) -> str:
    from latex2mathml.converter import convert

    return convert(latex.strip(), display="block" if display else "inline")


def command_help(words: str) -> str:
    from eigenprobe.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*words.split(), "--help"])
    assert code == 0, words
    return f"```text\n{out.getvalue().rstrip()}\n```"


def describe(name: str) -> str:
    """One public name, by the name a user writes: ``basis.Basis`` is ``ep.Basis``."""
    import eigenprobe

    *above, last = name.split(".")
    if above[-1] == last:  # a function that hides the module of its name
        name = ".".join(above)
    shown = f"ep.{last}" if last in eigenprobe.__all__ else f"ep.{name}"
    path = ".".join([*above, last])
    return f"::: eigenprobe.{path}\n    options:\n      heading: {shown}\n      toc_label: {shown}"


class OwnTypes(griffe.Extension):
    """Several names before one text, as in ``seed, device``, keep each its own type and default."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        self._visit(pkg)

    def _visit(self, thing: Any) -> None:
        for each in thing.members.values():
            if not each.is_alias:
                self._visit(each)
        if thing.docstring is None or not (thing.is_function or thing.is_class):
            return
        thing.docstring.parsed = thing.docstring.parse("numpy", warnings=False)
        for section in thing.docstring.parsed:
            for each in (
                section.value if section.kind is griffe.DocstringSectionKind.parameters else ()
            ):
                if each.name in thing.parameters:
                    own = thing.parameters[each.name]
                    each.annotation, each.value = own.annotation, own.default
