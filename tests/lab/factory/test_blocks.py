"""Tests of `factory.blocks`."""

from __future__ import annotations

from collections import Counter

from eigenprobe_lab.factory.blocks import Blocks


def test_every_batch_is_prepared_once_and_seen_in_every_pass() -> None:
    made: list[tuple[int, int]] = []

    def prepare(block: int, place: int) -> tuple[int, int]:
        made.append((block, place))
        return block, place

    blocks = Blocks[tuple[int, int]](size=5, passes=3)
    seen = [blocks.at(step, prepare) for step in range(30)]
    every = {(block, place) for block in (0, 1) for place in range(5)}
    assert sorted(made) == sorted(every) and Counter(seen) == dict.fromkeys(every, 3)
    turns = [seen[start : start + 5] for start in range(0, 30, 5)]
    assert all(set(turn) == {(i // 3, place) for place in range(5)} for i, turn in enumerate(turns))
    assert len({tuple(place for _, place in turn) for turn in turns}) > 1, (
        "in a new order each time"
    )
    assert Blocks[tuple[int, int]](5, 3).at(17, prepare) == seen[17], "whatever was asked before"
