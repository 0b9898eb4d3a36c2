"""Every figure is written whole, shows something, and says clearly what it cannot draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from eigenprobe.errors import InputError
from eigenprobe.viz import figures

from .conftest import Sphere, make_sphere


def _drawings(s: Sphere) -> dict[str, Callable[[Any], Figure]]:
    v, x, f = s.basis.vectors, s.points, s.faces
    rebuilt = {k: v[:, :k] @ (v[:, :k].T @ (s.basis.mass[:, None] * x)) for k in (2, 4)}
    labels = (x[:, 2] > 0).astype(int)
    return {
        "eigenfunctions-mesh": lambda p: figures.eigenfunctions(x, v, faces=f, columns=[1, 2], size=120, path=p),
        "eigenfunctions-cloud": lambda p: figures.eigenfunctions(
            torch.as_tensor(x), torch.as_tensor(v), eigenvalues=s.basis.eigenvalues, columns=4, size=120, path=p
        ),
        "against-oracle": lambda p: figures.against_oracle(
            x, -v, v, np.ones(v.shape[1]), columns=[1, 2], size=120, path=p
        ),
        "eigenfunctions-line": lambda p: figures.eigenfunctions(x[:, :1], v, columns=[1, 5], path=p),
        "mass": lambda p: figures.mass(x, s.basis.mass, faces=f, size=120, path=p),
        "mass-reference": lambda p: figures.mass(x, s.basis.mass, reference=1 + x[:, 2] ** 2, size=120, path=p),
        "reconstructions": lambda p: figures.reconstructions(
            x, {"a": rebuilt, "b": {4: rebuilt[4]}}, faces=f, size=120, path=p
        ),
        "eigenvalues": lambda p: figures.eigenvalue_curves(
            {"a": s.basis.eigenvalues, "oracle": s.basis.eigenvalues}, p
        ),
        "embeddings": lambda p: figures.embeddings(
            {"one": x[:, :2], "two": x[:, 1:]}, labels, p, names=["low", "high"]
        ),
        "gallery": lambda p: figures.gallery([x, (x, f), x[:, :2]], ["cloud", "mesh", "flat"], p, size=90),
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


def test_signed_functions_use_a_symmetric_range(sphere: Sphere) -> None:
    """Turning the sign of a function swaps blue and orange and changes nothing else."""
    from eigenprobe.viz import colours
    from eigenprobe.viz.figures import _signed_image
    from eigenprobe.viz.raster import rasterise
    from eigenprobe.viz.scene import look_at

    raster = rasterise(sphere.points, None, look_at(sphere.points), 100)
    values = sphere.points[:, 0] + 0.5  # not symmetric itself
    plus, minus = _signed_image(raster, values), _signed_image(raster, -values)
    warm = lambda image: (image[..., 0] - image[..., 2])[image[..., 3] > 0.9].mean()  # noqa: E731
    assert warm(plus) > 0.1
    assert warm(minus) < -0.1
    assert colours.symmetric_limit(values) == colours.symmetric_limit(-values)


def test_pdf_and_svg_are_written_too(sphere: Sphere, tmp_path: Path) -> None:
    for suffix in ("pdf", "svg"):
        path = tmp_path / f"curve.{suffix}"
        figures.eigenvalue_curves({"a": sphere.basis.eigenvalues}, path)
        assert path.stat().st_size > 1000


def test_nothing_is_left_when_writing_fails(sphere: Sphere, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        figures.eigenvalue_curves({"a": sphere.basis.eigenvalues}, tmp_path / "curve.nonsense")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: figures.eigenfunctions(s.points, s.basis.vectors[:-1]), r"vectors must have shape \(700, K\)"),
        (lambda s: figures.eigenfunctions(s.points, s.basis.vectors, columns=[99]), "columns must lie in 0..15"),
        (lambda s: figures.against_oracle(s.points, s.basis.vectors, s.basis.vectors[:5], [1.0]), "700 rows"),
        (lambda s: figures.embeddings({"a": s.points[:, :1]}), r"'a' must have shape \(n, 2\)"),
        (lambda s: figures.embeddings({}), "at least one method"),
        (lambda s: figures.eigenvalue_curves({}), "at least one curve"),
        (lambda s: figures.gallery([]), "at least one cloud"),
        (lambda s: figures.reconstructions(s.points, {"a": {}}), "at least one"),
    ],
)
def test_bad_input_is_one_clear_line(sphere: Sphere, call: Callable[[Sphere], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(sphere)
