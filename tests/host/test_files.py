"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenprobe.errors import InputError
from eigenprobe.host.files import atomic_path


def test_whole_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "note.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert temporary.suffix == ".txt"
        assert not target.exists()
    assert target.read_text() == "new"
    with pytest.raises(KeyboardInterrupt), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "new"
    assert [p.name for p in target.parent.iterdir()] == ["note.txt"]


def test_unwritable_places_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot write to"),
        atomic_path(tmp_path / "file" / "below.txt"),
    ):
        pass
