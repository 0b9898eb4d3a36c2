"""Labels as classes: names in the order in which people count, a code per row, and a colour each.

Colours follow the map, so that near classes have near hues and different lightness:

    order = optimal leaf order of Ward's tree of the centres (c, 2);   hue = 360 * place / c

Groups of a map without labels: k-means, with as many groups as separate best.

    x (n, k) -> labels (n,), the largest group first;  s(c) = mean silhouette of c groups on a
    sample of rows;  typical rows of a group = those nearest to its centre
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import to_hex
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..io.mesh import to_numpy
from .colours import OKABE_ITO, Array, categorical
from .scene import thin

Names = Mapping[Any, str] | Sequence[str]
Codes = NDArray[np.int64]
MOST = 20  # groups
SAMPLE = 3000  # rows that are enough to compare their numbers
TYPICAL = 3  # rows that stand for a group


class Classes(NamedTuple):
    """The names of the classes, a code (n,) per row, and a colour per class."""

    names: list[str]
    codes: Codes
    colours: list[str]


def classes(labels: ArrayLike, names: Names | None, places: Array) -> Classes:
    """Classes of the labels (n,) of rows that are drawn at places (n, 2 or more).

    `names` turns a label into words: a mapping, or a sequence indexed by an integer label.
    """
    values = to_numpy(labels, None)
    if values.shape != (len(places),):
        raise InputError(f"expected a label for each of {len(places)} rows, got {values.shape}")
    texts = values.astype(str) if values.dtype.kind not in "biuf" else values
    known, codes = np.unique(texts, return_inverse=True)
    if len(known) > 65_535:
        raise InputError(f"at most 65535 different labels can be drawn, got {len(known)}")
    if texts.dtype.kind == "U":
        # Numbers inside are counted: 2 comes before 10.
        counted = [re.sub(r"\d+", lambda m: m[0].zfill(30), name.lower()) for name in known]
        order = np.argsort(counted, kind="stable")
        known, codes = known[order], np.argsort(order)[codes]
    words = names if isinstance(names, Mapping) else dict(enumerate(names or ()))
    palette = categorical(len(known))
    if len(known) > len(OKABE_ITO):
        from scipy.cluster.hierarchy import leaves_list, linkage

        centres = [np.median(places[codes == c, :2], axis=0) for c in range(len(known))]
        tree = linkage(centres, "ward", optimal_ordering=len(known) <= 1000)
        palette = palette[np.argsort(leaves_list(tree))]
    named = [str(words.get(label, label)) for label in known.tolist()]
    return Classes(named, codes, [to_hex(colour) for colour in palette])


class Groups(NamedTuple):
    """A group per row (n,), their names, and the rows nearest to the centre of each."""

    labels: Codes
    names: list[str]
    typical: list[list[int]]


def find_groups(x: Array, texts: Sequence[str] | None = None) -> Groups | None:
    """Groups of the rows of ``x (n, k)``, named by the texts of typical rows; None where there are
    too few rows to speak of groups.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    rows = x[thin(len(x), SAMPLE)]
    most = min(MOST, (len(np.unique(rows, axis=0)) - 1) // 2)
    if most < 2:
        return None
    fits = [KMeans(count, n_init=4, random_state=0).fit(rows) for count in range(2, most + 1)]
    away = max(fits, key=lambda fit: silhouette_score(rows, fit.labels_)).transform(x)
    away = away[:, np.argsort(-np.bincount(away.argmin(1)), kind="stable")]
    typical = np.argsort(away, axis=0, kind="stable")[:TYPICAL].T.tolist()
    names = [f"group {group + 1}" for group in range(len(typical))]
    if texts is not None:
        names = [f"{name}: {texts[nearest]}" for name, (nearest, *_) in zip(names, typical)]
    return Groups(away.argmin(1), names, typical)
