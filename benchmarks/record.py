"""What every benchmark shares: clocks, memory, the facts of a run, and the file of results.

facts    command, options, data, commit, date, device, threads, versions, seed
turns    seconds of several calls that take turns in one process: medians, ranges, ratios
peak     the high-water mark of this process during a call, above what it held before
write    facts and numbers as JSON in $OUT or benchmarks/results, with a small sample of the
         measurement (`samples`)
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.catalogue import ROOT, made_by, state
from benchmarks.samples import take

RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")
Call = Callable[[], Any]


def over_meshes(doc: str | None, **numbers: int) -> argparse.ArgumentParser:
    """The parser of a benchmark over files and folders of meshes, with whole numbers as options."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("meshes", type=existing, nargs="+")
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser


def existing(word: str) -> Path:
    """A file or folder that is there: a benchmark without its data fails."""
    if not (path := Path(word)).exists():
        raise argparse.ArgumentTypeError(f"no such data: {word}")
    return path


def best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def clock(device: str | torch.device) -> float:
    """Seconds, read after the device has finished what it was given."""
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def timed(call: Call, device: str | torch.device, repeats: int) -> list[float]:
    """Seconds of ``repeats`` calls after one that warms up."""
    return turns({"call": call}, repeats, device)["call"]["all"]


def turns(
    calls: Mapping[str, Call], repeats: int, device: str | torch.device = "cpu"
) -> dict[str, dict[str, Any]]:
    """Each call in turn, ``repeats`` rounds after one that warms up: what else the machine does
    hits all of them.

    The first round is kept as ``cold``: imports, compilation, thread pools. ``cpu`` is the time of
    the processors.
    """
    rows: dict[str, dict[str, Any]] = {name: {"all": [], "busy": []} for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start, busy = clock(device), time.process_time()
            call()
            seconds, busy = clock(device) - start, time.process_time() - busy
            if not turn:
                rows[name]["cold"] = seconds
                continue
            rows[name]["all"].append(seconds)
            rows[name]["busy"].append(busy)
    for row in rows.values():
        row |= {
            "seconds": statistics.median(row["all"]),
            "range": [min(row["all"]), max(row["all"])],
        }
        row["cpu"] = statistics.median(row["busy"])
    return rows


def ratios(
    rows: Mapping[str, Mapping[str, Any]], ours: str, other: str, key: str = "all"
) -> dict[str, Any]:
    """Ours over the other, turn by turn: the median of the ratios and their range."""
    each = [a / b for a, b in zip(rows[ours][key], rows[other][key], strict=True)]
    return {
        "of": f"{ours} / {other}",
        "median": statistics.median(each),
        "range": [min(each), max(each)],
    }


def spread(row: Mapping[str, Any], digits: int = 2, key: str = "seconds", unit: float = 1.0) -> str:
    """``median (least to most)``; a single timing says so; of the first edition, which kept the
    least alone, that.
    """
    if len(row.get("all", ())) == 1:
        return f"{row[key] / unit:.{digits}f} (of 1)"
    middle, *ends = (f"{value / unit:.{digits}f}" for value in (row[key], *row.get("range", ())))
    return f"{middle} ({' to '.join(ends)})" if ends else middle


def peak(call: Call, device: str | torch.device = "cpu") -> float:
    """MiB that a call held at most, above what was held before it; on a processor best in a process
    of its own.

    The kernel's high-water mark is set back first (a difference of two marks would be 0 after any
    larger call), and freed memory is returned to it, because what a call takes from there would not
    be seen.
    """
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    call()
    return (_resident("VmHWM") - before) / 1024


def _resident(name: str) -> int:
    """VmRSS or VmHWM of this process in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def facts(
    module: str,
    device: str | torch.device,
    options: argparse.Namespace | Mapping[str, Any],
    *,
    seed: int = 0,
    peers: Sequence[str] = (),
) -> dict[str, Any]:
    """What ran with which options on which data, from which commit, when, where and with what."""
    cuda = str(device).startswith("cuda")
    name = (
        torch.cuda.get_device_name(device)
        if cuda
        else f"{platform.machine()}, {os.cpu_count()} cores"
    )
    given = dict(options) if isinstance(options, Mapping) else vars(options)
    return {
        "command": " ".join(["python -m", f"benchmarks.{module}", *map(_quoted, sys.argv[1:])]),
        "options": {key: _plain(value) for key, value in given.items()},
        "data": {path.name: fingerprint(path) for path in _paths(given.values()) if path.exists()},
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": name,
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **_versions((*PACKAGES, *peers))},
        "seed": seed,
    }


def fingerprint(path: Path) -> dict[str, Any]:
    """How many files, and a hash of their names and contents."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    found = hashlib.sha256()
    for each in files:
        found.update(each.relative_to(path.parent).as_posix().encode())
        with each.open("rb") as opened:
            found.update(hashlib.file_digest(opened, "sha256").digest())
    return {"files": len(files), "sha256": found.hexdigest()[:16]}


def _paths(values: Iterable[Any]) -> Iterator[Path]:
    for value in values:
        if isinstance(value, Path):
            yield value
        elif isinstance(value, list | tuple):
            yield from _paths(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return portable(str(value)) if isinstance(value, str | Path) else value


def portable(word: str) -> str:
    """A word of a command line as another machine may read it: ``$DATA`` for the folder of data,
    of any other absolute path only its name.
    """
    if (data := os.environ.get("DATA")) and word.startswith(data):
        return "$DATA" + word[len(data) :]
    return Path(word).name if Path(word).is_absolute() else word


def _quoted(word: str) -> str:
    """As a shell reads it, which sets the folder of data."""
    word = portable(word)
    return word if word.startswith("$DATA") and " " not in word else shlex.quote(word)


def _commit() -> str | None:
    """The commit that is checked out, with a plus where files differ from it; None outside a
    checkout.
    """
    git = ["git", "-C", str(ROOT)]
    try:
        found = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", "src", "benchmarks/*.py"], capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip() + ("+" if changed.stdout else "")


def _versions(names: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def results_file(name: str) -> Path:
    """``name`` in $OUT, or in benchmarks/results; the folder is made."""
    folder = Path(os.environ.get("OUT") or RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def write(name: str, content: dict[str, Any]) -> None:
    """``content`` as JSON in $OUT or benchmarks/results, with the sample by which it is confirmed
    later.
    """
    path, made = results_file(name), made_by(name)
    sample = None if made.sample is None else take(made.sample, made.inputs)
    text = json.dumps({**rounded(content), "sample": sample}, indent=1)
    path.with_suffix(".partial").write_text(text + "\n")
    path.with_suffix(".partial").replace(path)
    print(f"written to {path}", flush=True)


def earlier(name: str, device: str) -> dict[str, Any]:
    """The file of results as it is, if it is confirmed and was measured on the same device; else
    nothing.
    """
    path = results_file(name)
    found = json.loads(path.read_text()) if path.is_file() else {}
    same = found.get("device") == device and state(name, found) == "confirmed"
    return found if same else {}


def rounded(value: Any) -> Any:
    """The same with numbers of six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
