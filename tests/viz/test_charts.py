"""Charts: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from eigenprobe.errors import InputError
from eigenprobe.viz import colours
from eigenprobe.viz.figures import eigenvalue_curves, embeddings


def test_curves_are_the_eigenvalues_and_the_oracle_is_dashed() -> None:
    values = np.array([0.0, 2.0, 2.0, 6.0])
    (axes,) = eigenvalue_curves({"ours": values, "mesh oracle": 1.1 * values}).axes
    ours, oracle = axes.lines
    np.testing.assert_array_equal(ours.get_xydata(), np.column_stack([[1, 2, 3, 4], values]))
    assert oracle.get_color() == colours.INK and oracle.is_dashed() and not ours.is_dashed()
    with pytest.raises(InputError, match="at least one curve"):
        eigenvalue_curves({})


def test_points_have_the_colours_of_their_labels(rng: np.random.Generator) -> None:
    x, labels = rng.normal(size=(50, 2)), rng.integers(3, size=50)
    figure = embeddings({"one": x, "two": -x}, labels, names=["a", "b", "c"])
    for axes, places in zip(figure.axes, (x, -x), strict=True):
        (drawn,) = axes.collections
        found = dict(
            zip(map(tuple, drawn.get_offsets().data), drawn.get_facecolors()[:, :3], strict=True)
        )
        for row, label in zip(places, labels, strict=True):
            np.testing.assert_allclose(found[tuple(row)], to_rgb(colours.OKABE_ITO[label]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (({"flat": np.ones((5, 1))},), r"'flat' must have shape \(n, 2\)"),
        (({},), "at least one method"),
        (({"a": np.ones((5, 2))}, [1, 2]), r"a label for each of 5 rows, got \(2,\)"),
        (({"a": np.ones((5, 2))}, "a"), r"a label for each of 5 rows, got \(\)"),
        (({"a": np.ones((5, 2))}, None, "map.xyz"), r"a picture is written as .*png.*'map.xyz'"),
    ],
)
def test_bad_input_is_one_clear_line(given: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        embeddings(*given)
