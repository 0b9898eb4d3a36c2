"""How a figure is laid out and written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from eigenprobe.errors import InputError
from eigenprobe.viz.drawing import drawing
from eigenprobe.viz.layout import canvas, grid


def test_a_grid_has_its_titles_notes_and_rows(tmp_path: Path) -> None:
    shape = drawing(np.random.default_rng(0).normal(size=(20, 3)))
    pictures = [(shape, np.full((20, 3), shade)) for shade in (0.1, 0.4, 0.8, 1.0)]
    notes, rows = ["", "", "", "last"], ["up", "down"]
    path = tmp_path / "g.png"
    figure = grid(pictures, ["a", "b"], 2, path, size=200, row_labels=rows, notes=notes)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "", ""]
    assert [axes.get_xlabel() for axes in figure.axes] == notes
    assert [axes.get_ylabel() for axes in figure.axes] == ["up", "", "down", ""]
    assert imread(tmp_path / "g.png").std() > 0.05


def test_a_picture_of_an_unknown_kind_is_told_before_it_is_drawn(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"a picture is written as .*pdf.*, got '.*a.xyz'"),
        canvas(1, 1, tmp_path / "a.xyz"),
    ):
        pytest.fail("drawn")
    assert list(tmp_path.iterdir()) == []
