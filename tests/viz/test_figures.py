"""Every figure is written whole, shows something, and says clearly what it cannot draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from eigenprobe.errors import InputError
from eigenprobe.viz import figures

from .conftest import Sphere, make_sphere


def _drawings(s: Sphere) -> dict[str, Callable[[Any], Figure]]:
    """What the examples of the docstrings do not draw."""
    v, x, f = s.basis.vectors, s.points, s.faces
    shapes, words = [x, v[:, :2] @ (v[:, :2].T @ (s.basis.mass[:, None] * x))], ["a", "b"]
    rows: Any = {"per_row": 1, "like": x, "row_labels": words, "notes": words}
    mesh: Any = {"faces": f, "size": 120}
    tensors = torch.as_tensor(x), torch.as_tensor(v)
    values = {"eigenvalues": s.basis.eigenvalues, "columns": 4}
    return {
        "mesh": lambda p: figures.eigenfunctions(x, v, columns=[1, 2], path=p, **mesh),
        "cloud": lambda p: figures.eigenfunctions(*tensors, size=120, path=p, **values),
        "line": lambda p: figures.eigenfunctions(x[:, :1], v, columns=[1, 5], path=p),
        "mass": lambda p: figures.gallery([x], ["mass"], p, values=[s.basis.mass], signed=False),
        "rows": lambda p: figures.gallery(shapes, path=p, **rows, **mesh),
        "gallery": lambda p: figures.gallery([x, (x, f), x[:, :2]], ["a", "b", "c"], p, size=90),
    }


@pytest.mark.parametrize("name", list(_drawings(make_sphere(40))))
def test_a_figure_is_returned_and_written(sphere: Sphere, tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / f"{name}.png"
    figure = _drawings(sphere)[name](path)
    assert isinstance(figure, Figure)
    image = imread(path)[..., :3]
    assert image.std() > 0.03
    assert (image.min(-1) > 0.99).mean() > 0.1  # the page stays white around the picture
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mesh", [True, False])
def test_signed_functions_use_a_symmetric_range(sphere: Sphere, tmp_path: Path, mesh: bool) -> None:
    """Turning the sign of a function swaps blue and orange."""
    values = sphere.points[:, 0] + 0.5  # not symmetric itself
    cloud = (sphere.points, sphere.faces) if mesh else sphere.points
    for sign in (1, -1):
        figures.gallery([cloud], path=tmp_path / "a.png", values=[sign * values])
        image = imread(tmp_path / "a.png")[..., :3]
        warm = (image[..., 0] - image[..., 2])[image.min(-1) < 0.99].mean()
        assert sign * warm > 0.1


def test_pdf_and_svg_are_written_too(sphere: Sphere, tmp_path: Path) -> None:
    for suffix in ("pdf", "svg"):
        path = tmp_path / f"curve.{suffix}"
        figures.eigenvalue_curves({"a": sphere.basis.eigenvalues}, path)
        assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda s: figures.eigenfunctions(s.points, s.basis.vectors[:-1]),
            r"vectors must have shape \(700, K\)",
        ),
        (
            lambda s: figures.eigenfunctions(s.points, s.basis.vectors, columns=[99]),
            "columns must be whole numbers in 0..15",
        ),
        (lambda s: figures.gallery([]), "at least one cloud"),
    ],
)
def test_bad_input_is_one_clear_line(
    sphere: Sphere, call: Callable[[Sphere], Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        call(sphere)
