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
    from .arguments import Command

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
        return _explain(error, debug)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        words = ["--help"]
    elif words[0] == "--version":
        from .. import __version__

        print(f"eigenprobe {__version__}")
        return 0
    from jsonargparse import ArgumentError

    from .arguments import gathered, one_line, parser_of

    root = commands()
    words = gathered(words)
    if words[0] == COMPLETION:
        return _completion(parser_of(root), words[1:])
    parser = parser_of(root, words)
    try:
        parsed: Any = parser.parse_args(words)
    except ArgumentError as error:
        path = _path(root, words)
        return _fail(f"{one_line(error, root, path)} (see {' '.join(['eigenprobe', *path])} --help)", 2)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    command = root
    while command.commands:
        name = parsed.command
        command, parsed = command.find([name]), parsed[name]
    options = {name: value for name, value in vars(parsed).items() if name in {**command.options, **command.shared}}
    assert command.function is not None
    from ..host.progress import Progress

    with _opened(options) as session, Progress(command.name, phase=True):
        scheduler = options.pop("scheduler", None) if "shapes" in options else None
        if scheduler is not None:
            from .cluster import spread_files

            spread_files(command.function, options, session, scheduler)
        else:
            command.function(**options, session=session)
    return 0


def _path(root: Command, words: list[str]) -> list[str]:
    """The leading words that name a command."""
    for count, word in enumerate(words):
        if word not in [below.name for below in root.find(words[:count]).commands]:
            return words[:count]
    return words


@contextmanager
def _opened(options: dict[str, Any]) -> Iterator[Any]:
    """Take the shared options out of ``options``; logging, warnings and progress follow them until the command ends."""
    from ..errors import InputError
    from ..host import progress
    from .session import Session

    shared = {name: options.pop(name) for name in ("seed", "out", "verbose", "quiet", "debug") if name in options}
    if not 0 <= shared.get("seed", 0) < MOST_SEEDS:
        raise InputError(f"--seed takes a number from 0 to {MOST_SEEDS - 1}, got {shared['seed']}")
    session = Session(device_name=options.pop("device", "auto"), **shared)
    levels = {name: logging.getLogger(name).level for name in ("eigenprobe", *CHATTY)}
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("eigenprobe")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if session.debug else logging.INFO if session.verbose else logging.ERROR)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.INFO if session.verbose else logging.ERROR)
    progress.enable(not session.quiet)
    try:
        with warnings.catch_warnings():
            _route_warnings(session.quiet, everything=session.debug)
            yield session
    finally:
        progress.enable(False)
        logger.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _route_warnings(quiet: bool, everything: bool) -> None:
    """Our own warnings in one line each; other libraries' only for someone who is debugging."""
    from ..errors import EigenprobeWarning
    from ..host import progress

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if everything or (issubclass(category, EigenprobeWarning) and not quiet):
            progress.hide()
            print(f"eigenprobe: warning: {message}", file=sys.stderr)

    warnings.simplefilter("always", EigenprobeWarning)
    warnings.showwarning = show


def _completion(parser: Any, words: list[str]) -> int:
    shells = ("bash", "zsh", "tcsh")
    if len(words) != 1 or words[0] not in shells:
        return _fail(f"{COMPLETION} takes one of {', '.join(shells)}, got {' '.join(words)!r}", 2)
    print(parser.get_completion_script(f"shtab-{words[0]}"))
    return 0


def _explain(error: Exception, debug: bool) -> int:
    """One line for what went wrong: the user's input (2), a missing extra (2), or a bug (1)."""
    from ..errors import InputError, missing_extra

    if isinstance(error, InputError):
        return _fail(str(error), 2)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{where}{error.strerror}", 2)
    if isinstance(error, ModuleNotFoundError) and (line := missing_extra(error)):
        return _fail(line, 2)
    hint = "" if debug else " (--debug shows where)"
    text = " ".join(str(error).split())
    return _fail(f"unexpected {type(error).__name__}: {text}{hint}", 1)


def _fail(line: str, code: int) -> int:
    print(f"eigenprobe: {' '.join(line.split())}", file=sys.stderr)
    return code


def _terminated(*_: Any) -> NoReturn:
    """SIGTERM as an exception, so that half-written files are removed on the way out."""
    raise SystemExit(TERMINATED)
