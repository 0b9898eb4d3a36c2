"""Tests of `shortcuts.network`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.shortcuts.cuts import shipped
from eigenprobe.shortcuts.network import read_shortcut, write_shortcut


def test_weights_survive_their_file(tmp_path) -> None:
    write_shortcut(tmp_path / "w", shipped(), {})
    again = read_shortcut(tmp_path / "w")
    for a, b in zip(shipped().state_dict().values(), again.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b)
    (tmp_path / "w" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="short-cut network"):
        read_shortcut(tmp_path / "w")
