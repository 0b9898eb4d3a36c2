"""Ctrl-C at any moment ends a process by its exception, never by a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep

pytestmark = pytest.mark.long

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(ep.__file__).parent.parent),
    "OMP_NUM_THREADS": "1",
}


# A parent that ignores Ctrl-C (`nohup make test &`) hands that down: the program sets the usual
# handler itself.
SEARCH = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, torch
from eigenprobe.neighbors import build_graph
points = torch.as_tensor(np.random.default_rng(0).random((60_000, 3)))
build_graph(points[:2000], 20)
print("ready", flush=True)
caught = 0
for _ in range(200):
    try:
        build_graph(points, 20)
    except KeyboardInterrupt:
        caught += 1
        junk = [np.full((60_000, 21), 7.0) for _ in range(4)]  # takes over memory that was freed
        time.sleep(0.02)
        print("caught", flush=True)  # the next interrupt comes some time after it
    if caught == 10:
        break
result = build_graph(points, 20)
assert bool((result.indices >= 0).all() & (result.indices < 60_000).all())
sys.exit(42)
"""


def test_an_interrupted_neighbour_search_does_not_crash() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    rng = np.random.default_rng(0)
    for _ in range(10):
        time.sleep(0.05 + 0.3 * rng.random())
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "caught\n", process.wait(60)
    assert process.wait(120) == 42
