"""Tests of `paper.images`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe_lab.paper import images
from eigenprobe_lab.paper.protocol import Protocol


def test_protocol_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown method 'magic'"):
        Protocol(methods=["magic"])
    with pytest.raises(InputError, match="must be positive, got 0"):
        Protocol(runs=0)
    np.savez(tmp_path / "bare.npz", features=np.ones((5, 2)))
    with pytest.raises(InputError, match=r"bare\.npz has none"):
        images.run(tmp_path / "bare.npz", Protocol(), tmp_path)
