"""A basis in a notebook: pictures, a page, tables."""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests.clouds import fibonacci_sphere
from tests.meshes import blob

from .conftest import array, payload


@pytest.fixture(scope="module")
def basis() -> ep.Basis:
    return ep.decompose(fibonacci_sphere(300), k=8)


def titles(figure: Figure) -> list[str]:
    return [text.get_text().split()[0] for text in figure.findobj(Text) if "φ" in text.get_text()]


def test_plot_draws_the_chosen_vectors(basis: ep.Basis, tmp_path: Path) -> None:
    figure = basis.plot([1, 3], path=tmp_path / "two.png")
    assert titles(figure) == ["φ₂", "φ₄"] and (tmp_path / "two.png").stat().st_size > 0
    assert titles(basis.torch().plot(np.int64(3))) == ["φ₁", "φ₂", "φ₃"]
    with pytest.raises(InputError, match=r"columns must be whole numbers in 0..7, got \[9\]"):
        basis.plot([9])
    with pytest.raises(InputError, match="a plot needs points"):
        replace(basis, points=None).plot()


def test_plot_to_turn(basis: ep.Basis) -> None:
    scene = basis.plot(interactive=True)
    (shape,) = payload(scene.page)["shapes"]
    assert shape["numbers"] == [2, 3, 4, 5, 6, 7, 8], "all but the constant"
    shown = array(shape["vectors"], "<i2").reshape(7, basis.n)[0]
    assert abs(np.corrcoef(shown, basis.vectors[:, 1])[0, 1]) > 0.999
    assert scene._repr_html_().startswith("<iframe") and len(scene.page) < 200_000, (
        "no plotly in it"
    )
    vertices, faces = blob(4)
    mesh = replace(ep.decompose(vertices, k=5), faces=faces).plot([2], interactive=True)
    (shape,) = payload(mesh.page)["shapes"]
    assert len(array(shape["faces"], "<u4")) == 3 * len(faces) and shape["k"] == 1
    with pytest.raises(InputError, match=r"columns must be whole numbers in 0..7, got \[9\]"):
        basis.plot([9], interactive=True)


@pytest.mark.browser
def test_the_scene_of_a_cell(basis: ep.Basis, tmp_path: Path, watch: Any) -> None:
    (tmp_path / "cell.html").write_text(
        f"<!doctype html><body>{basis.plot([1, 3], interactive=True)._repr_html_()}"
    )
    seen = watch((tmp_path / "cell.html").as_uri())
    frame = seen.page.frame_locator("iframe")
    frame.locator("body[data-ready=true]").wait_for(timeout=60_000)
    assert (
        frame.locator("#name").inner_text() == "φ₂" and not frame.locator("#spectrum").is_visible()
    )
    frame.locator("#slider").fill("2")
    assert frame.locator("#name").inner_text() == "φ₄"
    assert seen.pixels("iframe").std() > 0.05 and seen.problems == []


def test_a_report_escapes_its_title(basis: ep.Basis, tmp_path: Path) -> None:
    basis.report(tmp_path / "page.html", title="a <sphere>")
    assert "a &lt;sphere&gt;" in (tmp_path / "page.html").read_text()


CELLS = """
import numpy as np, eigenprobe as ep
x = np.random.default_rng(0).normal(size=(300, 3)); x /= np.linalg.norm(x, axis=1, keepdims=True)
---
basis = ep.decompose(x, k=4, neighbours="plain"); basis
---
basis.plot([1, 2])
---
basis.plot([1, 2], interactive=True)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_real_notebook_draws_everything_inline() -> None:
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    book = new_notebook(cells=[new_code_cell(text.strip()) for text in CELLS.split("---")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    NotebookClient(book, timeout=120, kernel_name="python3").execute(env=environment)
    shown = [cell.outputs[-1].data for cell in book.cells[1:]]
    assert "Basis(n=300, k=4" in shown[0]["text/plain"] and len(shown[0]["text/plain"]) < 80
    assert base64.b64decode(shown[1]["image/png"])[:4] == b"\x89PNG"
    assert shown[2]["text/html"].startswith("<iframe")
