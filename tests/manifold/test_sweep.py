"""Tables of every kind, small: no failure, sound pairs, and groups that are found where they are
apart.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks.sweep import KINDS, measure
from eigenprobe.eigen import inverse, nested

APART = {name for name in KINDS if name.endswith("far")} | {"unit rows", "2 groups", "100 groups"}
APART |= {"mixture of dimension 128, near", "unequal groups", "words", "hubs"}


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_table(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers of large graphs are given these small ones, too."""
    monkeypatch.setattr(nested, "POINTS", 1000)
    monkeypatch.setattr(inverse, "MOST", 1000)
    row = measure(kind, 3000, "cpu")
    assert "failed" not in row and row["finite"] and row["residual"] <= 2e-5, row
    # Two dimensions are too few to keep twenty random centres apart.
    if kind in APART and kind != "mixture of dimension 2, far":
        assert row["ARI"] > 0.95, row


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_rows_of_high_dimension_are_left_to_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hierarchy of such a graph filled in: its pencil became singular, and memory ran out on
    large tables.
    """
    monkeypatch.setattr(nested, "POINTS", 1000)
    row = measure("mixture of dimension 128, near", 5000, "cpu")
    assert (
        row["solver"] in ("filtered", "dense")
        and row["ARI"] == pytest.approx(1)
        and np.isfinite(row["MiB"])
    )
    assert row["MiB"] < 400 or sys.platform == "darwin"


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_coarse_vectors_that_depend_on_each_other_end_a_hierarchy() -> None:
    """Rows far out are coarse points of their own: fewer directions were left than columns were
    indexed.
    """
    row = measure("heavy tails", 10_000, "cpu")
    assert row["solver"] in ("filtered", "dense") and row["residual"] <= 1e-5 and row["ARI"] > 0.99
