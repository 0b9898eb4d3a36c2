"""From a typed function to a command: its signature is the parser, its docstring the help.

A parameter without a default is positional, ``list[...]`` takes several values, ``bool`` becomes ``--x / --no-x``,
everything else is ``--name VALUE`` with jsonargparse doing the typing. The first docstring paragraph is the summary,
an ``Examples:`` section is printed as it stands, the ``Args:`` section gives each option its line.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jsonargparse import ActionYesNo, ArgumentError, ArgumentParser, DefaultHelpFormatter

SHORT = {"k": "-k", "out": "-o", "verbose": "-v", "quiet": "-q", "method": "-m"}
# One word for one thing on every command; the second one is what it was called before.
CALLED = {"n": ("--samples", "--n"), "neighbors": ("--neighbours", "--neighbors")}
SHARED_TITLE = "shared options"
WITHOUT = {"view": {"seed", "out"}, "export": {"seed", "out", "device"}}  # shared options that would do nothing


def shared(
    *,
    device: str = "auto",
    seed: int = 0,
    out: Path | None = None,
    verbose: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> None:
    """Options that every command has.

    Args:
        device: auto, cpu, cuda, cuda:1, ...
        seed: every random choice follows from it
        out: output folder, made if need be
        verbose: say more while working
        quiet: say nothing but errors
        debug: on an error show the whole traceback
    """


@dataclass(frozen=True)
class Command:
    """A function on the command line, or a group of them."""

    name: str
    function: Callable[..., None] | None = None
    commands: tuple[Command, ...] = ()
    summary: str = ""
    hints: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Callable[..., None]) -> Command:
        """The command that a function is."""
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        hints = {**get_type_hints(shared), **get_type_hints(function)}
        hints = {name: hint for name, hint in hints.items() if name not in WITHOUT.get(function.__name__, ())}
        return cls(function.__name__, function, summary=summary, hints=hints)

    @classmethod
    def group(cls, name: str, summary: str, *functions: Callable[..., None] | Command) -> Command:
        """Commands under one name."""
        below = tuple(part if isinstance(part, Command) else cls.of(part) for part in functions)
        return cls(name, summary=summary, commands=below)

    def find(self, words: list[str]) -> Command:
        """The command that ``words`` (a path of sub-command names) lead to."""
        for command in self.commands:
            if words and command.name == words[0]:
                return command.find(words[1:])
        return self


class Help(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults and hides the names of Python types."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        default = action.default
        if isinstance(action, ActionYesNo):
            return text + (" (on unless switched off)" if default else "")
        if isinstance(default, list):
            return text + (f" (default: {' '.join(map(str, default))})" if default else "")
        silent = default is None or default is False or default == argparse.SUPPRESS or not action.option_strings
        return text if silent else text + " (default: %(default)s)"


def parser_of(command: Command) -> ArgumentParser:
    """The parser of ``command`` and of everything below it."""
    parser = _parser(command, command.name)
    _add_commands(parser, command, command.name)
    return parser


def _parser(command: Command, path: str) -> ArgumentParser:
    usage, about = _usage(command, path), _description(command)
    parser = ArgumentParser(prog=path, usage=usage, description=about, formatter_class=Help, exit_on_error=False)
    if command.function is not None:
        _add_parameters(parser, command.function)
        _add_parameters(parser.add_argument_group(SHARED_TITLE), shared, WITHOUT.get(command.name, set()))
    return parser


def _usage(command: Command, path: str) -> str:
    if command.function is None:
        return f"{path} COMMAND ..."
    words = [path]
    for name, parameter in inspect.signature(command.function).parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            word = name.upper() + ("..." if get_origin(command.hints[name]) is list else "")
            words.append(word if parameter.default is inspect.Parameter.empty else f"[{word}]")
    return " ".join([*words, "[options]"])


def _add_commands(parser: ArgumentParser, command: Command, path: str) -> None:
    """jsonargparse wants the levels from the top down: a parser is added before it gets commands of its own."""
    if not command.commands:
        return
    chooser = parser.add_subcommands(required=True, dest="command", title="commands", metavar="COMMAND")
    for below in command.commands:
        path_below = f"{path} {below.name}"
        parser_below = _parser(below, path_below)
        chooser.add_subcommand(below.name, parser_below, help=below.summary)
        _add_commands(parser_below, below, path_below)


def gathered(words: list[str]) -> list[str]:
    """``train``'s key=value changes moved behind its recipe: argparse takes such a list in one piece only."""
    if not words or words[0] != "train":
        return words
    switches = {"-v", "--verbose", "-q", "--quiet", "--debug"}  # what follows one of these is not its value
    changes = [
        word
        for previous, word in pairwise(words)
        if re.match(r"[A-Za-z_][\w.]*=", word) and (previous in switches or not previous.startswith("-"))
    ]
    rest = [word for word in words if word not in changes]
    return [*rest[:2], *changes, *rest[2:]] if len(rest) > 1 and not rest[1].startswith("-") else words


def _description(command: Command) -> str:
    if command.function is None:
        below = [_description(each).partition("Examples:\n")[2].partition("\n")[0] for each in command.commands]
        return command.summary + ("\n\nExamples:\n" + "\n".join(below) if all(below) else "")
    return re.split(r"\n\s*Args:\n", inspect.getdoc(command.function) or "")[0].rstrip()


def _add_parameters(parser: Any, function: Callable[..., None], without: Collection[str] = ()) -> None:
    hints = get_type_hints(function)
    lines = _lines(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "session" or name in without:
            continue
        hint, text = hints[name], lines[name]
        long = CALLED.get(name, (_flag(name),))
        flags = [SHORT[name], *long] if name in SHORT else [*long]
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            _add_positional(parser, name, hint, parameter.default, text)
        elif hint is bool:
            # "--no-quiet" says nothing new: only what is on by default needs the way to switch it off
            action = ActionYesNo(no_prefix="no-") if parameter.default else "store_true"
            parser.add_argument(*flags, action=action, default=parameter.default, help=text)
        else:
            several = get_origin(hint) is list
            options: dict[str, Any] = {"nargs": "+", "type": get_args(hint)[0]} if several else {"type": hint}
            options |= {"dest": name} if name in CALLED else {}
            parser.add_argument(*flags, default=parameter.default, help=text, metavar=_metavar(hint, name), **options)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _add_positional(parser: Any, name: str, hint: Any, default: Any, text: str) -> None:
    optional = default is not inspect.Parameter.empty
    if get_origin(hint) is list:
        options: dict[str, Any] = {"nargs": "*" if optional else "+", "type": get_args(hint)[0]}
    else:
        options = {"nargs": "?", "type": hint} if optional else {"type": hint}
    action = parser.add_argument(name, metavar=name.upper(), help=text, **options)
    if optional:  # jsonargparse wants every positional; argparse itself does not
        action.required, action.default = False, default


def _lines(function: Callable[..., None]) -> dict[str, str]:
    """``name: text`` of the ``Args:`` section; a continuation line is indented further."""
    section = re.split(r"\n\s*Args:\n", inspect.getdoc(function) or "")[-1]
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if match := re.fullmatch(r"    (\w+): (.*)", line):
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("      "):
            found[name] += " " + line.strip()
    return found


def _bare(hint: Any) -> Any:
    """``X`` of ``X | None`` and of ``list[X]``."""
    if get_origin(hint) in (Union, UnionType):
        kept = [part for part in get_args(hint) if part is not NoneType]
        return _bare(kept[0]) if len(kept) == 1 else hint
    return _bare(get_args(hint)[0]) if get_origin(hint) is list else hint


def _metavar(hint: Any, name: str) -> str:
    bare = _bare(hint)
    if get_origin(bare) is Literal:
        return "{" + ",".join(map(str, get_args(bare))) + "}"
    return {int: "N", float: "X", Path: "FOLDER" if name == "out" else "FILE"}.get(bare, name.upper())


def _expected(hint: Any) -> str:
    bare = _bare(hint)
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(map(str, get_args(bare)))
    return {int: "a whole number", float: "a number", Path: "a path"}.get(bare, "a value")


def one_line(error: ArgumentError, root: Command, words: list[str]) -> str:
    """What jsonargparse found wrong, in one line of the user's own words."""
    message = str(error)
    command = root.find([word for word in words if not word.startswith("-")])
    if match := re.match(r'Parser key "(?:[\w-]+\.)*([\w-]+)":?(.*)', message, re.S):
        name, rest = match[1].replace("-", "_"), match[2]
        value = re.search(r"(?:Given|Got) value: (.*?)\s*$", rest, re.S)
        hint = command.hints.get(name)
        if hint is not None and value is not None:
            parameters = inspect.signature(command.function or shared).parameters
            positional = name in parameters and parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            shown = name.upper() if positional else CALLED.get(name, (_flag(name),))[0]
            return f"{shown} takes {_expected(hint)}, got {value[1]!r}"
    if match := re.match(r"the following arguments are required: (.*)", message):
        names = [name.split(".")[-1] for name in match[1].split(", ")]
        return "missing " + " and ".join(name.upper() for name in names)
    if match := re.search(r"to be one of \{(.*)\}, but it was not provided", message):
        return f"missing COMMAND, one of {match[1].replace(',', ', ')}"
    if match := re.search(r"invalid choice: '?([^'\s]+)'? \(choose from (.*)\)", message):
        return f"no command {match[1]!r}, there are {match[2].replace(chr(39), '')}"
    return " ".join(message.split())
