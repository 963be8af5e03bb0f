"""Each task has a lane, and tasks that communicate are neighbours."""

from __future__ import annotations

import pytest

from kit.picture.grid import NOT_PLACED, lane_of, lane_order


@pytest.mark.parametrize(
    ("device", "lane"),
    [
        ("/job:worker/replica:0/task:12/device:GPU:1", "worker:12"),
        ("/job:ps", "ps"),
        ("/device:GPU:0", NOT_PLACED),
        ("/task:3", "task:3"),
        ("not a device", "not a device"),
    ],
)
def test_lane_is_the_task_as_far_as_it_is_said(device: str, lane: str) -> None:
    assert lane_of(device) == lane


def test_tasks_are_sorted_by_number_where_nothing_moves() -> None:
    tasks = ["worker:10", NOT_PLACED, "worker:2", "ps:0"]

    assert lane_order(tasks, {}) == ("ps:0", "worker:2", "worker:10", NOT_PLACED)


@pytest.mark.parametrize("n_workers", [2, 4, 9])
def test_server_stands_between_its_workers(n_workers: int) -> None:
    workers = [f"worker:{i}" for i in range(n_workers)]
    traffic = {("ps:0", worker): 3 for worker in workers}

    result = lane_order(["ps:0", *workers], traffic)

    assert abs(result.index("ps:0") - n_workers / 2) <= 0.5
    assert [lane for lane in result if lane != "ps:0"] == workers


def test_ring_keeps_its_order() -> None:
    ring = [f"worker:{i}" for i in range(3)]
    traffic = {(ring[i], ring[(i + 1) % 3]): 1 for i in range(3)}

    assert lane_order(ring, traffic) == tuple(ring)


def test_what_is_not_placed_stands_last_whatever_it_sends() -> None:
    traffic = {(NOT_PLACED, "ps:0"): 100, ("ps:0", "worker:0"): 1}

    assert lane_order([NOT_PLACED, "worker:0", "ps:0"], traffic)[-1] == NOT_PLACED
