"""A small shape and a small table to try things on."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..io.shapes import Shape, load

__all__ = ["CREATURE", "Table", "creature", "digits"]
CREATURE = Path(__file__).with_name("creature.ply")


class Table(NamedTuple):
    """Rows ``features (n, d)`` and a label ``(n,)`` for each."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]


def creature() -> Shape:
    """A small animal with 2618 vertices: a closed surface, about two units long.

    Returns
    -------
    Shape
        ``vertices (2618, 3)`` and ``faces (5232, 3)``.

    Examples
    --------
    >>> creature().vertices.shape
    (2618, 3)
    """
    return load(CREATURE)


def digits() -> Table:
    """The handwritten digits that scikit-learn contains: images of 8 x 8 pixels with their labels.

    Returns
    -------
    Table
        ``features (1797, 64)`` from 0 to 16 and ``labels (1797,)`` from 0 to 9.

    Examples
    --------
    >>> features, labels = digits()
    >>> features.shape, labels[:4].tolist()
    ((1797, 64), [0, 1, 2, 3])
    """
    from sklearn.datasets import load_digits

    return Table(*load_digits(return_X_y=True))
