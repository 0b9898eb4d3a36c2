"""The tests do not depend on who calls them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_interrupts_work_here() -> None:
    assert signal.getsignal(signal.SIGINT) != signal.SIG_IGN


def test_a_caller_that_ignores_interrupts_and_has_no_data(tmp_path: Path) -> None:
    """As under ``nohup make test &`` beside an empty folder: the same tests, and the end says what
    was left out.
    """
    program = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    program += "os.execv(sys.argv[1], sys.argv[1:])"
    inner = [
        f"{Path(__file__)}::test_interrupts_work_here",
        "tests/apps/test_matching_poses.py",
        "-k",
        "interrupts or maps",
    ]
    command = [
        sys.executable,
        "-c",
        program,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *inner,
    ]
    environment = {**os.environ, "EIGENPROBE_DATA": str(tmp_path / "absent")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout
    assert "not tested here: 1 tests" in done.stdout
    assert "real data not found" in done.stdout
