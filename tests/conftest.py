"""Fixtures every test may use. Nothing here seeds globally: tests draw from the generators they are given."""

from __future__ import annotations

import os
from pathlib import Path

# Two test workers on two cores: more threads than that only fight each other. Set before torch starts its pool.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real shapes and embeddings; the test skips where it is absent."""
    folder = Path(os.environ.get("EIGENPROBE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder} (set EIGENPROBE_DATA)")
    return folder


@pytest.fixture(autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of one test run stay in its own folder."""
    monkeypatch.setenv("EIGENPROBE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
