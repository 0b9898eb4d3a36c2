"""What every command is given: where to compute, where to write, how much to say, and the closing
summary.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from ..errors import InputError, missing_extra
from ..host import progress
from ..host.files import reading, writable_folder, write_json

SETTINGS = "settings.json"  # of a folder of results
LISTED = 12  # files named in the closing summary


def explanation(error: BaseException) -> tuple[str, int]:
    """One line for what is wrong with the input, a file or the installation, and the exit code of a
    command: 1 for a bug.
    """
    if isinstance(error, InputError):
        return str(error), 2
    if isinstance(error, OSError) and error.strerror:
        return ": ".join([str(error.filename)] * (error.filename is not None) + [error.strerror]), 2
    if isinstance(error, ModuleNotFoundError) and (line := missing_extra(error)):
        return line, 2
    if isinstance(error, SystemExit):
        return "terminated", 143
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted", 130
    return f"unexpected {type(error).__name__}: {error}", 1


K = Annotated[int, Parameter(alias="-k")]
Samples = Annotated[int, Parameter(name=("--samples", "--n"))]
Switch = Annotated[bool, Parameter(negative=None)]  # on unless --no-...


@Parameter(name="*", group="Shared options")
@dataclass
class Session:
    """The options that every command has, and the list of files written so far.

    Args:
        device_name: auto, cpu, cuda, cuda:1, ...
        seed: every random choice follows from it
        out: output folder, made if need be
        verbose: say more while working
        quiet: say nothing but errors
        debug: on an error show the whole traceback
    """

    device_name: Annotated[str, Parameter(name="--device")] = "auto"
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**32))] = 0
    out: Annotated[Path | None, Parameter(alias="-o")] = None
    verbose: Annotated[bool, Parameter(alias="-v")] = False
    quiet: Annotated[bool, Parameter(alias="-q")] = False
    debug: bool = False
    source = ""  # the file that this process works on now

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.written: list[tuple[Path, str]] = []
        self.asked: dict[str, Any] = {}  # options that change results
        self.command = ""
        self.part = False  # of a command on many files

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        """One line for the person at the terminal."""
        if not self.quiet:
            progress.hide()
            print(text, flush=True)

    def device(self) -> str:
        """The device by name, ``auto`` resolved; an error where this machine has no such device."""
        from ..host.device import resolved

        return str(resolved(self.device_name))

    def folder(self, default: str) -> Path:
        """The output folder, made now: a folder that cannot be written should fail before the work,
        not after.
        """
        return writable_folder(self.out if self.out is not None else Path("out") / default)

    def skipped(self, failed: Mapping[Any, str]) -> None:
        """One line for every input that could not be used, and why."""
        for name, reason in failed.items():
            self.say(f"skipped {name}: {reason.removeprefix(f'{name}: ')}")

    def same_settings(self, folder: Path, force: bool) -> None:
        """An error where an earlier run has filled ``folder`` with other settings; else they are
        written there.
        """
        path, now = folder / SETTINGS, {"seed": str(self.seed)}
        now |= {name: str(value) for name, value in self.asked.items()}
        if path.is_file() and not force:
            with reading(path):
                known = json.loads(path.read_text(encoding="utf-8"))
            if other := sorted(map(" ".join, known.items() - now.items())):
                raise InputError(
                    f"{folder} holds results of other settings ({', '.join(other)}): "
                    "choose another --out, or do all of it again by --force"
                )
        write_json(path, now)

    def refuse_existing(self, path: Path, force: bool, other: str = "another --out") -> None:
        """An error, before the work, where an earlier run has written there."""
        if path.exists() and not force:
            raise InputError(f"{path} exists: choose {other}, or overwrite it by --force")

    def wrote(self, path: Path, what: str) -> None:
        """Remember a file for the summary."""
        self.written.append((path, what))

    def write_json(
        self, path: Path, facts: Mapping[str, Any], what: str = "the facts of this run"
    ) -> None:
        """Facts as JSON, whole or not at all."""
        write_json(path, facts)
        self.wrote(path, what)

    def finish(self, headline: str, seconds: float | None = None) -> None:
        """The closing summary: what was done, and what was written where."""
        from rich.filesize import decimal

        if self.part:
            return self.say(headline.rstrip(","))
        self.say(f"{headline} in {self.seconds if seconds is None else seconds:.1f} s")
        shown = self.written if len(self.written) <= LISTED + 1 else self.written[:LISTED]
        width = max((len(str(path)) for path, _ in shown), default=0)
        for path, what in shown:
            size = decimal(path.stat().st_size) if path.is_file() else ""
            self.say(f"  {path!s:<{width}}  {size:>9}  {what}")
        if len(shown) < len(self.written):
            self.say(f"  and {len(self.written) - len(shown)} more")


SHARED = Session()  # stands for the session of a command in its signature
