"""Classes of labels and groups without labels: names as people count, near classes in near hues."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.viz.colours import classes, find_groups


def test_names_are_in_the_order_in_which_people_count() -> None:
    labels = np.array([f"class {i}" for i in (10, 2, 1, 2)])
    found = classes(labels, None, np.zeros((4, 2)))
    assert found.names == ["class 1", "class 2", "class 10"]
    assert [found.names[code] for code in found.codes] == labels.tolist()
    assert classes([10, -1, 2], None, np.zeros((3, 2))).names == ["-1", "2", "10"]
    assert classes([1, 0], ["no", "yes"], np.zeros((2, 2))).names == ["no", "yes"]
    assert classes(["b", None], {"b": "bee"}, np.zeros((2, 2))).names == ["bee", "None"]


def test_near_classes_have_near_hues_and_no_two_the_same_colour(rng: np.random.Generator) -> None:
    from matplotlib.colors import rgb_to_hsv, to_rgb

    labels = np.repeat(np.arange(30), 20)
    places = np.stack([labels % 6, labels // 6], 1) + 0.08 * rng.normal(size=(600, 2))
    found = classes(labels, None, places)
    assert len(set(found.colours)) == 30
    hue = 2 * np.pi * rgb_to_hsv([to_rgb(colour) for colour in found.colours])[:, 0]
    order = np.argsort(hue)
    centres = np.stack([order % 6, order // 6], 1)
    steps = np.abs(np.diff(centres, axis=0)).sum(1)
    assert steps.mean() < 0.6 * np.abs(centres[:, None] - centres[None]).sum(2).mean()


def test_wrong_labels_are_told() -> None:
    with pytest.raises(InputError, match=r"a label for each of 3 rows, got \(2,\)"):
        classes([1, 2], None, np.zeros((3, 2)))
    with pytest.raises(InputError, match="at most 65535 different labels"):
        classes(np.arange(70_000), None, np.zeros((70_000, 2)))


def test_blobs_are_found_with_their_number(rng: np.random.Generator) -> None:
    truth = np.repeat(np.arange(4), [70, 90, 50, 60])
    x = 20 * np.eye(5)[truth] + 0.5 * rng.normal(size=(len(truth), 5))
    found = find_groups(x)
    assert found is not None and np.bincount(found.labels).tolist() == [90, 70, 60, 50]
    for group, rows in enumerate(found.typical):
        members = np.flatnonzero(found.labels == group)
        assert len(set(truth[members])) == 1
        distance = np.linalg.norm(x[members] - x[members].mean(0), axis=1)
        assert set(rows) == set(members[np.argsort(distance)[:3]])
    assert find_groups(x[:4]) is None
