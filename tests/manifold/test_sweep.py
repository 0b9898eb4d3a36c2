"""Tables of every kind, small: no failure, sound pairs, and groups that are found where they are
apart.
"""

from __future__ import annotations

import pytest

from benchmarks.sweep import KINDS, measure

pytestmark = pytest.mark.long

APART = {name for name in KINDS if name.endswith("far")} | {"unit rows", "2 groups", "100 groups"}
APART |= {"mixture of dimension 128, near", "unequal groups", "words", "hubs"}


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_table(kind: str) -> None:
    row = measure(kind, 3000, "cpu")
    assert "failed" not in row and row["finite"] and row["residual"] <= 2e-5, row
    # Two dimensions are too few to keep twenty random centres apart.
    if kind in APART and kind != "mixture of dimension 2, far":
        assert row["ARI"] > 0.95, row


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_coarse_vectors_that_depend_on_each_other_end_a_hierarchy() -> None:
    """Rows far out are coarse points of their own: fewer directions were left than columns were
    indexed.
    """
    row = measure("heavy tails", 10_000, "cpu")
    assert row["solver"] in ("filtered", "dense") and row["residual"] <= 1e-5 and row["ARI"] > 0.99
