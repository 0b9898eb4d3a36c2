"""The command line: ``eigenprobe COMMAND ...``; ``main`` turns every failure into one line and an
exit code.

0 done; 1 a bug (``--debug`` shows the traceback); 2 bad input or options; 130 interrupted; 143
terminated.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from cyclopts import App, Token

    from .session import Session

COMPLETION = "--completion"
COMMANDS = "eigenprobe.commands"  # entry points: functions that return a command
TERMINATED = 128 + signal.SIGTERM
READING = ("decompose", "embed", "encode", "view", "export")  # whose first word is a file
# Options that do not change a result.
PASSING = ("session", "options", "shapes", "force", "report", "compare", "scheduler")
CHATTY = ("lightning", "lightning.pytorch", "lightning.fabric", "matplotlib")
SUMMARY = """Spectral decompositions of any point cloud: basis vectors, eigenvalues and mass.

    eigenprobe demo                            see it work on a built-in shape
    eigenprobe decompose bunny.obj -k 50       a shape: basis, eigenvalues, a report
    eigenprobe embed table.npz --labels names  a table: coordinates and a map
"""


def commands() -> App:
    """The tree of commands. Their modules import nothing heavy until they run."""
    from importlib.metadata import entry_points

    from cyclopts import App, Parameter

    from .. import __version__
    from . import clouds, encoding, tables, tour

    usual = Parameter(negative="", consume_multiple=True, converter=_converted)
    about: Any = {
        "help": SUMMARY,
        "help_format": "markdown",
        "version": f"eigenprobe {__version__}",
    }
    app = App("eigenprobe", version_flags="--version", default_parameter=usual, **about)
    beside = [entry.load()() for entry in sorted(entry_points(group=COMMANDS))]
    first = (clouds.decompose, tables.embed, encoding.encode)
    for command in (*first, *beside, tour.view, tour.export, tour.demo):
        app.command(command)
    app.command(completion, name=COMPLETION)
    return app


def _converted(kind: Any, tokens: Sequence[Token]) -> Any:
    """As cyclopts does it, but that 2.5 is no whole number."""
    from cyclopts import convert

    if kind is not int:
        return convert(kind, tokens)
    try:
        return int(word := tokens[0].value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {word!r}") from None


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes words in a shell."""
    print(commands().generate_completion(shell=shell))


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        # An exception, so that half-written files are removed on the way out.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        _run(words)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Point stdout elsewhere so that Python's exit
        # does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code != TERMINATED:
            raise
        if "--debug" in words:
            traceback.print_exc()
        from .session import explanation

        line, code = explanation(error)
        if code == 1 and "--debug" not in words:
            line += " (--debug shows where)"
        line = ": ".join([line, *getattr(error, "__notes__", ())])
        print(f"eigenprobe: {' '.join(line.split())}", file=sys.stderr)
        return code
    if argv is None and "triton" not in sys.modules:  # which would list its objects as leaked
        gc.freeze()  # the process ends: collecting what it holds would take a second of silence
    return 0


def _run(words: list[str]) -> None:
    from cyclopts import CycloptsError

    from ..errors import InputError, near, near_path
    from ..host.files import address
    from ..host.progress import Progress
    from .session import Session

    path = Path(words[1]) if len(words) > 1 and words[0] in READING else Path()
    if not str(path).startswith("-") and not path.exists() and address(path) is None:
        # Said before the library is imported, which takes seconds.
        raise InputError(f"no such file or folder: {path}{near_path(path)}")
    try:
        function, bound, _ = commands().parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        names = " ".join(["eigenprobe", *(error.command_chain or ())])
        asked = near(words[0], ("--version", "--help", COMPLETION))
        raise InputError(f"{error}{asked} (see {names} --help)") from error
    known = signature(function).parameters
    if "session" not in known:  # the help, the version or a completion
        function(*bound.args, **bound.kwargs)
        return
    session = bound.arguments.setdefault("session", Session())
    session.command = function.__name__
    given = bound.arguments | bound.arguments.get("options", {})
    for name, value in given.items():
        if name not in PASSING and value != getattr(known.get(name), "default", None):
            session.asked[name] = value
    with _opened(session), Progress(session.command):
        try:
            function(*bound.args, **bound.kwargs)
        except (KeyboardInterrupt, SystemExit) as stop:
            if session.written and not hasattr(stop, "__notes__"):
                stop.add_note(f"wrote {', '.join(str(path) for path, _ in session.written)}")
            raise


@contextmanager
def _opened(session: Session) -> Iterator[None]:
    """Logging, warnings and progress follow the shared options until the command ends."""
    from ..errors import EigenprobeWarning
    from ..host import progress

    logging.basicConfig(format="%(message)s", level=logging.ERROR)
    for name in ("eigenprobe", *CHATTY):
        logging.getLogger(name).setLevel(logging.INFO if session.verbose else logging.ERROR)
    if session.debug:
        logging.getLogger("eigenprobe").setLevel(logging.DEBUG)

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        """Our own warnings in one line each; other libraries' only for someone who is debugging."""
        if session.debug or (issubclass(category, EigenprobeWarning) and not session.quiet):
            progress.hide()
            name = type(session).source
            source = "" if not name or name in str(message) else f"{name}: "
            print(f"eigenprobe: warning: {source}{message}", file=sys.stderr)

    type(session).source = ""  # before any file is read
    progress.enable(not session.quiet)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", EigenprobeWarning)
            warnings.showwarning = show
            yield
    finally:
        progress.enable(False)
