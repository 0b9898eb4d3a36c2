"""From a typed function to a command: its signature is the parser, its docstring the help.

A parameter without a default is positional, ``list[...]`` takes several values, ``bool`` becomes ``--x / --no-x``,
everything else is ``--name VALUE`` with jsonargparse doing the typing. The first docstring paragraph is the summary,
an ``Examples:`` section is printed as it stands, the ``Args:`` section gives each option its line.

A command that runs one function of the library (`options_of`) has the parameters of that function as options too, with
their types, defaults and descriptions; where the function takes an array, the option takes a ``.npy`` file. The library
is imported only for the command that is called.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from jsonargparse import ActionYesNo, ArgumentError, ArgumentParser, DefaultHelpFormatter

from ..errors import near
from ..host.validation import in_words

SHORT = {"k": "-k", "out": "-o", "verbose": "-v", "quiet": "-q", "method": "-m"}
# One word for one thing on every command; the second one is what it was called before.
CALLED = {"measure": ("--alpha", "--measure"), "n": ("--samples", "--n"), "neighbors": ("--neighbours", "--neighbors")}
CALLED["neighbours"] = CALLED["neighbors"]
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


class Option(NamedTuple):
    """A parameter of a command."""

    hint: Any
    default: Any
    text: str
    positional: bool = False


Library = Callable[[], Callable[..., Any]]  # imports a function of the library
_LIBRARY: dict[Callable[..., None], Library] = {}  # command -> the function that it runs
ARRAY = "an array is given as a .npy file"


def options_of(library: Library) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The decorated command has the parameters of a function of the library as options, as ``**options``."""

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        _LIBRARY[function] = library
        return function

    return enter


@dataclass(frozen=True)
class Command:
    """A function on the command line, or a group of them."""

    name: str
    function: Callable[..., None] | None = None
    commands: tuple[Command, ...] = ()
    summary: str = ""

    @classmethod
    def of(cls, function: Callable[..., None]) -> Command:
        """The command that a function is."""
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        return cls(function.__name__, function, summary=summary)

    @cached_property
    def options(self) -> dict[str, Option]:
        """Its own parameters, and those of the function that it runs."""
        if self.function is None:
            return {}
        own = _options(self.function)
        first = {name: option for name, option in own.items() if option.positional}
        return {**first, **_inherited_options(self.function), **own}

    @cached_property
    def shared(self) -> dict[str, Option]:
        """Options that every command has, without those that would do nothing here."""
        return {name: option for name, option in _options(shared).items() if name not in WITHOUT.get(self.name, ())}

    @classmethod
    def group(cls, name: str, summary: str, *functions: Callable[..., None] | Command) -> Command:
        """Commands under one name."""
        below = tuple(part if isinstance(part, Command) else cls.of(part) for part in functions)
        return cls(name, summary=summary, commands=below)

    def path(self, words: Sequence[str]) -> list[Command]:
        """This command, and those below it that ``words`` lead to one after the other."""
        below = [command for command in self.commands if words and command.name == words[0]]
        return [self, *(below[0].path(words[1:]) if below else ())]


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


def parser_of(command: Command, words: Sequence[str] | None = None) -> ArgumentParser:
    """The parser of ``command`` and of everything below it; with ``words`` only what parsing these needs."""
    parser = _parser(command, command.name)
    _add_commands(parser, command, command.name, words)
    return parser


def _parser(command: Command, path: str) -> ArgumentParser:
    usage, about = _usage(command, path), _description(command)
    return ArgumentParser(prog=path, usage=usage, description=about, formatter_class=Help, exit_on_error=False)


def _usage(command: Command, path: str) -> str:
    if command.function is None:
        return f"{path} COMMAND ..."
    words = [path]
    for name, option in _options(command.function).items():
        if option.positional:
            word = name.upper() + ("..." if get_origin(option.hint) is list else "")
            words.append(word if option.default is inspect.Parameter.empty else f"[{word}]")
    return " ".join([*words, "[options]"])


def _add_commands(parser: ArgumentParser, command: Command, path: str, words: Sequence[str] | None) -> None:
    """jsonargparse wants the levels from the top down: a parser is added before it gets commands of its own."""
    if command.function is not None:
        _add_options(parser, command.options)
        _add_options(parser.add_argument_group(SHARED_TITLE), command.shared)
        return
    chooser = parser.add_subcommands(required=True, dest="command", title="commands", metavar="COMMAND")
    for below in command.commands:
        path_below = f"{path} {below.name}"
        parser_below = _parser(below, path_below)
        chooser.add_subcommand(below.name, parser_below, help=below.summary)
        if words is None or below.name in words[:1]:
            _add_commands(parser_below, below, path_below, None if words is None else words[1:])


def join_changes(words: list[str]) -> list[str]:
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


def _add_options(parser: Any, options: Mapping[str, Option]) -> None:
    for name, (hint, default, text, positional) in options.items():
        several, optional = get_origin(hint) is list, default is not inspect.Parameter.empty
        typed: dict[str, Any] = {"type": get_args(hint)[0] if several else hint, "help": text}
        flags = [*([SHORT[name]] if name in SHORT else []), *_flags(name)]
        if positional:
            nargs = ("*" if optional else "+") if several else ("?" if optional else None)
            action = parser.add_argument(name, metavar=name.upper(), nargs=nargs, **typed)
            if optional:  # jsonargparse wants every positional; argparse itself does not
                action.required, action.default = False, default
        elif hint is bool:
            # "--no-quiet" says nothing new: only what is on by default can be switched off
            action = ActionYesNo(no_prefix="no-") if default else "store_true"
            parser.add_argument(*flags, action=action, default=default, help=text)
        else:
            typed |= {"nargs": "+"} if several else {}
            parser.add_argument(*flags, dest=name, default=default, metavar=_metavar(hint, name), **typed)


def _flags(name: str) -> tuple[str, ...]:
    """The long names of an option, the one that is shown first."""
    return CALLED.get(name, (f"--{name.replace('_', '-')}",))


def _options(function: Callable[..., None]) -> dict[str, Option]:
    """The parameters of a command's function, without ``session`` and ``**options``."""
    hints, lines, found = get_type_hints(function), descriptions(function), {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "session" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            positional = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            found[name] = Option(hints[name], parameter.default, lines[name], positional)
    return found


def _inherited_options(function: Callable[..., None]) -> dict[str, Option]:
    """The parameters of the library's function that a command runs, in the words of the command where it has any."""
    if function not in _LIBRARY:
        return {}
    library = _LIBRARY[function]()
    hints, known, found = get_type_hints(library), inspect.signature(shared).parameters, {}
    lines = descriptions(library) | descriptions(function)
    for name, parameter in inspect.signature(library).parameters.items():
        given = parameter.default is not inspect.Parameter.empty and name not in known
        if given and (hint := _typed(hints[name])) is not None:
            files = f" ({ARRAY})" if Any in get_args(hints[name]) else ""
            found[name] = Option(hint, parameter.default, lines[name] + files)
    return found


def _typed(hint: object) -> Any:
    """What of a type can be typed in a terminal: words, numbers, and files for arrays (``Any``); None: nothing."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kept = [part for part in parts if part in (int, float, str, bool, NoneType) or get_origin(part) is Literal]
    kept += [str] if Any in parts else []
    return Union[tuple(kept)] if set(kept) - {NoneType} else None  # noqa: UP007 (of a list)


def descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of every parameter, as plain text."""
    from docstring_parser import parse

    found: dict[str, str] = {}
    for each in parse(inspect.getdoc(function) or "").params:
        text = re.sub(r"`+", "", " ".join((each.description or "").split()))
        found |= dict.fromkeys(each.arg_name.split(", "), text.replace("%", "%%"))
    return found


def _bare(hint: object) -> Any:
    """``X`` of ``X | None`` and of ``list[X]``."""
    if get_origin(hint) in (Union, UnionType):
        kept = tuple(part for part in get_args(hint) if part is not NoneType)
        return _bare(kept[0]) if len(kept) == 1 else Union[kept]  # noqa: UP007 (of a tuple)
    return _bare(get_args(hint)[0]) if get_origin(hint) is list else hint


def _metavar(hint: object, name: str) -> str:
    bare = _bare(hint)
    if get_origin(bare) is Literal:
        return "{" + ",".join(map(str, get_args(bare))) + "}"
    return {int: "N", float: "X", Path: "FOLDER" if name == "out" else "FILE"}.get(bare, name.upper())


def one_line(error: ArgumentError, command: Command) -> str:
    """What jsonargparse found wrong, in one line of the user's own words."""
    message, options = str(error), command.shared | command.options
    if match := re.match(r'Parser key "(?:[\w-]+\.)*([\w-]+)":?(.*)', message, re.S):
        name, rest = match[1].replace("-", "_"), match[2]
        value = re.search(r"(?:Given|Got) value: (.*?)\s*$", rest, re.S)
        option = options.get(name)
        if option is not None and value is not None:
            shown = name.upper() if option.positional else _flags(name)[0]
            return f"{shown} takes {in_words(_bare(option.hint))}, got {value[1]!r}"
    if match := re.match(r"the following arguments are required: (.*)", message):
        names = [name.split(".")[-1] for name in match[1].split(", ")]
        return "missing " + " and ".join(name.upper() for name in names)
    if match := re.search(r"to be one of \{(.*)\}, but it was not provided", message):
        return f"missing COMMAND, one of {match[1].replace(',', ', ')}"
    if match := re.search(r"invalid choice: '?([^'\s]+)'? \(choose from (.*)\)", message):
        known = match[2].replace(chr(39), "")
        return f"no command {match[1]!r}{near(match[1], known.split(', '))}, there are {known}"
    if match := re.match(r"(?:Unrecognized arguments|unrecognized arguments): (.*)", message):
        word = next(iter(match[1].split()), "''")  # an empty one, as a variable of the shell that is not set gives
        flags = [flag for name in options for flag in _flags(name)]
        if word.startswith("-"):
            return f"no option {word}{near(word.partition('=')[0], flags)}"
        return f"one word too many: {word}"
    return " ".join(message.split())
