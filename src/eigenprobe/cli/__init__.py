"""The command line: ``eigenprobe COMMAND ...``; ``main`` turns every failure into one line and an exit code.

0 done; 1 a bug (``--debug`` shows the traceback); 2 bad input or options; 130 interrupted; 143 terminated.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

    from .arguments import Command
    from .session import Session

COMPLETION = "--completion"
COMMANDS = "eigenprobe.commands"  # entry points: functions that return a `Command`
TERMINATED = 128 + signal.SIGTERM
MOST_SEEDS = 1 << 32  # of the generators that follow from --seed
CHATTY = ("lightning", "lightning.pytorch", "lightning.fabric", "matplotlib")


def commands() -> Command:
    """The tree of commands. Their modules import nothing heavy until they run."""
    from importlib.metadata import entry_points

    from . import clouds, tables, tour, training
    from .arguments import Command

    summary = (
        "Spectral decompositions of any point cloud: basis vectors, eigenvalues and mass.\n\n"
        "  eigenprobe demo                                  see it work on a built-in shape\n"
        "  eigenprobe decompose bunny.obj -k 50             a shape: basis, eigenvalues, a report to look at\n"
        "  eigenprobe embed features.npz --labels labels    a table of embeddings: coordinates and a map\n\n"
        "--version prints the version; --completion bash|zsh|tcsh prints a shell completion script."
    )
    first = (clouds.decompose, tables.embed, training.train, training.encode)
    others = [entry.load()() for entry in sorted(entry_points(group=COMMANDS))]  # of packages beside this one
    return Command.group("eigenprobe", summary, *first, *others, tour.view, tour.export, tour.demo)


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        signal.signal(signal.SIGTERM, _terminated)
    debug = "--debug" in words
    try:
        code = _run(words)
        if argv is None and "triton" not in sys.modules:  # which would list all that it holds as leaked
            gc.freeze()  # the process ends: collecting what it holds would take a second of silence
        return code
    except KeyboardInterrupt as stop:
        if debug:
            traceback.print_exc()
        return _fail(str(stop) or "interrupted", 130)
    except SystemExit as stop:
        if stop.code == TERMINATED:
            return _fail("terminated", TERMINATED)
        raise
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Point stdout elsewhere so that Python's exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        from .session import explanation

        hint = "" if debug else " (--debug shows where)"
        line = explanation(error)
        return _fail(line or f"unexpected {type(error).__name__}: {error}{hint}", 1 if line is None else 2)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        words = ["--help"]
    elif words[0] == "--version":
        from .. import __version__

        print(f"eigenprobe {__version__}")
        return 0
    from jsonargparse import ArgumentError

    from .arguments import join_changes, one_line, parser_of

    root = commands()
    words = join_changes(words)
    if words[0] == COMPLETION:
        return _completion(parser_of(root), words[1:])
    path = root.path(words)
    command = path[-1]
    try:
        parsed: Any = parser_of(root, words).parse_args(words)
    except ArgumentError as error:
        names = " ".join(each.name for each in path)
        return _fail(f"{one_line(error, command)} (see {names} --help)", 2)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    for each in path[1:]:
        parsed = parsed[each.name]
    options = {name: value for name, value in vars(parsed).items() if name in {**command.options, **command.shared}}
    if (function := command.function) is None:  # a group alone, which does not parse
        return _fail(f"missing COMMAND (see {command.name} --help)", 2)
    from ..host.progress import Progress

    with _opened(options) as session, Progress(command.name, phase=True):
        scheduler = options.pop("scheduler", None) if "shapes" in options else None
        if scheduler is not None:
            from .cluster import spread_files

            spread_files(function, options, session, scheduler)
        else:
            function(**options, session=session)
    return 0


@contextmanager
def _opened(options: dict[str, Any]) -> Iterator[Session]:
    """Take the shared options out of ``options``; logging, warnings and progress follow them until the command ends."""
    from ..errors import EigenprobeWarning, InputError
    from ..host import progress
    from .session import Session

    shared = {name: options.pop(name) for name in ("seed", "out", "verbose", "quiet", "debug") if name in options}
    if not 0 <= shared.get("seed", 0) < MOST_SEEDS:
        raise InputError(f"--seed takes a number from 0 to {MOST_SEEDS - 1}, got {shared['seed']}")
    session = Session(device_name=options.pop("device", "auto"), **shared)
    logger, handler = logging.getLogger("eigenprobe"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    level = logging.INFO if session.verbose else logging.ERROR
    levels = {each: each.level for each in (logger, *map(logging.getLogger, CHATTY))}
    for each in levels:
        each.setLevel(logging.DEBUG if session.debug and each is logger else level)

    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        """Our own warnings in one line each; other libraries' only for someone who is debugging."""
        if session.debug or (issubclass(category, EigenprobeWarning) and not session.quiet):
            progress.hide()
            print(f"eigenprobe: warning: {message}", file=sys.stderr)

    progress.enable(not session.quiet)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", EigenprobeWarning)
            warnings.showwarning = show
            yield session
    finally:
        progress.enable(False)
        logger.removeHandler(handler)
        for each, before in levels.items():
            each.setLevel(before)


def _completion(parser: ArgumentParser, words: list[str]) -> int:
    shells = ("bash", "zsh", "tcsh")
    if len(words) != 1 or words[0] not in shells:
        return _fail(f"{COMPLETION} takes one of {', '.join(shells)}, got {' '.join(words)!r}", 2)
    print(parser.get_completion_script(f"shtab-{words[0]}"))
    return 0


def _fail(line: str, code: int) -> int:
    print(f"eigenprobe: {' '.join(line.split())}", file=sys.stderr)
    return code


def _terminated(*_: object) -> NoReturn:
    """SIGTERM as an exception, so that half-written files are removed on the way out."""
    raise SystemExit(TERMINATED)
