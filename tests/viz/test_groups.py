"""Tests of the groups of `viz.scatter`: as many as there are, the largest first, each with its most typical rows."""

from __future__ import annotations

import numpy as np

from eigenprobe.viz.scatter import find_groups


def test_blobs_are_found_with_their_number(rng: np.random.Generator) -> None:
    centres = 20 * np.eye(5)[:4]
    truth = np.repeat(np.arange(4), [70, 90, 50, 60])
    x = centres[truth] + 0.5 * rng.normal(size=(len(truth), 5))
    found = find_groups(x)
    assert found is not None and len(found.typical) == 4
    assert np.bincount(found.labels).tolist() == [90, 70, 60, 50]  # the largest first
    for group, rows in enumerate(found.typical):
        members = np.flatnonzero(found.labels == group)
        assert len(set(truth[members])) == 1
        distance = np.linalg.norm(x[members] - x[members].mean(0), axis=1)
        assert rows == members[np.argsort(distance, kind="stable")[:3]].tolist()


def test_a_handful_of_rows_has_no_groups() -> None:
    assert find_groups(np.zeros((100, 2))) is None
    assert find_groups(np.arange(8.0).reshape(4, 2)) is None
