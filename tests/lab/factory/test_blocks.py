"""Tests of `factory.blocks`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from eigenprobe_lab.factory.blocks import Blocks
from eigenprobe_lab.factory.judged import Clouds, ContactStream, NeighbourSettings

TINY = NeighbourSettings(
    clouds=Clouds(chunk=2, chunks=1, dense=900, points=600, sources=90, sizes=(300,), worked=0.0),
    block=2,
    passes=1,
)


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


def test_a_worker_prepares_the_same_batches_as_the_process_itself() -> None:
    settings = replace(TINY, workers=1, passes=2)
    alone, stream = ContactStream(TINY), ContactStream(settings)
    found = [stream.at(step) for step in range(8)]  # two blocks of two batches, each seen twice
    for batch in (alone.prepare(number, place) for number in (0, 1) for place in range(TINY.block)):
        same = [torch.equal(batch.ratio, each.ratio) for each in found]
        assert sum(same) == settings.passes
