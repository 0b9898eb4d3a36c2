"""What is drawn of a shape before its camera; how a figure is laid out and written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from eigenprobe.errors import InputError
from eigenprobe.viz.drawing import canvas, drawing, grid

from .conftest import Sphere


@pytest.mark.parametrize("mesh", [True, False])
def test_a_sphere_is_a_disc_whose_middle_is_drawn_last(sphere: Sphere, mesh: bool) -> None:
    shape = drawing(sphere.points, faces=sphere.faces if mesh else None)
    assert (shape.owner == np.arange(len(sphere.points))).all()  # a sampled surface is a surface
    wide, high = np.ptp(shape.window, axis=0)
    assert abs(wide / high - 1) < 0.05
    last = shape.places[shape.triangles[-30:]]
    assert np.linalg.norm(last, axis=-1).max() < 0.5 * np.abs(shape.places).max()


def test_a_near_triangle_is_drawn_after_a_far_one() -> None:
    corners = np.array([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]])
    points = np.concatenate([corners * 0.9 + [0, 0, 0.5], corners])
    shape = drawing(
        points, faces=np.array([[0, 1, 2], [3, 4, 5]]), azimuth=0.0, elevation=0.0, up="y"
    )
    assert shape.triangles.tolist() == [[3, 4, 5], [0, 1, 2]]


@pytest.mark.parametrize("shape", [(30, 1), (30, 2), (30, 3), (200, 12), (1, 3), (3, 2)])
def test_any_cloud_can_be_drawn(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    """Points are balls, all of which are in the picture."""
    drawn = drawing(rng.normal(size=shape))
    assert set(drawn.owner) == set(range(shape[0]))
    assert np.isfinite(drawn.light).all() and (np.ptp(drawn.window, axis=0) > 0).all()
    assert (drawn.places > drawn.window[0]).all() and (drawn.places < drawn.window[1]).all()


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
