"""Fixtures every test may use. Nothing here seeds globally: tests draw from the generators they are
given.
"""

from __future__ import annotations

import os
from pathlib import Path

# Two test workers on two cores: more threads than that only fight each other. Set before torch
# starts its pool.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _variable in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ):
        os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import signal
import zlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


# A caller that ignores Ctrl-C (`nohup make test &`) hands that down to us and to the processes that
# tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """What opens a browser is long, too."""
    if item.get_closest_marker("browser"):
        item.add_marker("long")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end what was not tested here, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"not tested here: {len(skipped)} tests")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:4d}  {reason}")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real shapes and embeddings; the test skips where it is absent."""
    folder = Path(os.environ.get("EIGENPROBE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder} (set EIGENPROBE_DATA)")
    return folder


@pytest.fixture(autouse=True)
def _private_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caches of one test run stay in its own folder."""
    monkeypatch.setenv("EIGENPROBE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def _seed(request: pytest.FixtureRequest) -> int:
    """A seed of the test's own, the same on every run; EIGENPROBE_TEST_SEED=1, 2, ... gives other
    ones.
    """
    return zlib.crc32(
        f"{request.node.nodeid} {os.environ.get('EIGENPROBE_TEST_SEED', '0')}".encode()
    )


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(_seed(request))


@pytest.fixture
def generator(request: pytest.FixtureRequest) -> torch.Generator:
    return torch.Generator().manual_seed(_seed(request))
