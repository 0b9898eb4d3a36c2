"""What every benchmark shares: a clock that waits for the GPU, the name of the machine, and the file of results."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).resolve().parent / "results"


def best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def clock(device: str | torch.device) -> float:
    """Seconds, read after the device has finished what it was given."""
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def timed(call: Callable[[], Any], device: str | torch.device, repeats: int) -> list[float]:
    """Seconds of ``repeats`` calls after one that warms up."""
    call()
    seconds = []
    for _ in range(repeats):
        start = clock(device)
        call()
        seconds.append(clock(device) - start)
    return seconds


def facts(module: str, device: str | torch.device) -> dict[str, Any]:
    """The command that is running, the day and the machine."""
    cuda = str(device).startswith("cuda")
    name = torch.cuda.get_device_name(device) if cuda else f"{platform.machine()}, {os.cpu_count()} cores"
    command = " ".join([f"python -m benchmarks.{module}", *sys.argv[1:]])
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    return {"command": command, "date": day, "device": name, "torch": torch.__version__}


def results_file(name: str) -> Path:
    """``name`` in $OUT, or in benchmarks/results; the folder is made."""
    folder = Path(os.environ.get("OUT") or RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def write(name: str, content: dict[str, Any]) -> None:
    """``content`` as JSON in the file of results."""
    path = results_file(name)
    path.write_text(json.dumps(rounded(content), indent=1) + "\n")
    print(f"written to {path}", flush=True)


def rounded(value: Any) -> Any:
    """The same with numbers of six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
