"""Parts of a work side by side."""

from __future__ import annotations

import os
import threading

import pytest
import torch

from eigenprobe.host.threads import allowed_cores, cores, limited_threads, side_by_side


def test_parts_come_back_in_order_from_threads_that_start_no_more() -> None:
    def work(number: int) -> tuple[int, str, list[str]]:
        inner = side_by_side(lambda _: threading.current_thread().name, [0, 1])
        return number, threading.current_thread().name, inner

    before = torch.get_num_threads()
    found = side_by_side(work, range(20))
    assert [number for number, _, _ in found] == list(range(20))
    assert all(
        name != threading.main_thread().name and set(inner) == {name} for _, name, inner in found
    )
    assert torch.get_num_threads() == before


def test_one_part_stays_where_it_is() -> None:
    assert side_by_side(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]
    assert set(
        side_by_side(lambda _: threading.current_thread(), [0, 1], torch.device("meta"))
    ) == {threading.current_thread()}


def test_each_part_has_one_thread_of_torch() -> None:
    with limited_threads(torch.device("cpu"), single=0):
        assert set(side_by_side(lambda _: torch.get_num_threads(), range(8))) == {1}


def test_a_failure_is_told_and_what_has_not_begun_is_left() -> None:
    done: list[int] = []
    gate = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        gate.wait(5)
        done.append(number)

    with pytest.raises(ValueError, match="the first"):
        side_by_side(work, range(1000))
    gate.set()
    assert side_by_side(lambda x: x, [1, 2]) == [1, 2]
    assert len(done) < 1000


def test_no_more_cores_than_the_caller_allows() -> None:
    here = threading.current_thread()
    with allowed_cores(1):
        assert cores() == cores(3) == 1
        assert set(side_by_side(lambda _: threading.current_thread(), range(4))) == {here}
    with allowed_cores(-1):
        assert cores() == (os.cpu_count() or 1)
    running: list[int] = []
    most = []

    def work(number: int) -> None:
        running.append(number)
        most.append(len(running))
        threading.Event().wait(0.01)
        running.remove(number)

    with allowed_cores(2):
        side_by_side(work, range(24))
    assert max(most) <= 2
