"""Lines lead downwards and cross little; boxes are in their lanes, where wanted."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.picture.grid import (
    NOT_PLACED,
    crossings,
    lane_of,
    lane_order,
    ordered,
    rows,
    spaced,
)

KEYS = "abcdefgh"
PAIRS = st.lists(st.sampled_from(list(product(KEYS, KEYS))), max_size=20)


@given(PAIRS, st.sets(st.sampled_from(KEYS)))
def test_without_circles_every_line_leads_downwards(
    pairs: list[tuple[str, str]], movable: set[str]
) -> None:
    forward = [(a, b) for a, b in pairs if a < b]

    result = rows(KEYS, forward, movable)

    assert all(result[a] < result[b] for a, b in forward)
    assert set(result.values()) == set(range(max(result.values()) + 1))


@given(PAIRS)
def test_circles_end_and_leave_no_two_joined_boxes_in_one_row(
    pairs: list[tuple[str, str]],
) -> None:
    result = rows(KEYS, pairs)

    assert set(result) == set(KEYS)
    assert all(result[a] != result[b] for a, b in pairs if a != b)


def test_box_without_inputs_stands_just_above_its_first_user() -> None:
    chain = [("a", "b"), ("b", "c"), ("c", "d")]

    result = rows("abcdw", [*chain, ("w", "d"), ("w", "c")])

    assert result["w"] == result["c"] - 1 == 1


def test_arrival_moves_down_to_its_user_and_its_source_does_not() -> None:
    result = rows(
        "sabcx", [("s", "x"), ("s", "a"), ("a", "b"), ("b", "c"), ("x", "c")], "x"
    )

    assert result == {"s": 0, "a": 1, "b": 2, "c": 3, "x": 2}


WANTED = st.lists(st.floats(-50, 150), min_size=1, max_size=8)


@given(st.lists(st.sampled_from(list(product("abcd", "wxyz"))), unique=True))
def test_crossings_are_pairs_of_lines_with_ends_in_opposite_order(
    lines: list[tuple[str, str]],
) -> None:
    below: dict[str, list[str]] = {}
    for a, b in lines:
        below.setdefault(a, []).append(b)

    result = crossings([[list("abcd")], [list("wxyz")]], below)

    pairs = permutations(lines, 2)
    assert result == sum(a < c and b > d for (a, b), (c, d) in pairs)


def test_lines_that_need_not_cross_do_not() -> None:
    joined = dict(zip("abcdef", "uzyxwv", strict=True))
    below = {a: [b] for a, b in joined.items()}
    above = {b: [a] for a, b in joined.items()}
    rows = [[list("abcdef")], [list("uvwxyz")]]

    result = ordered(rows, above, below)

    assert crossings(rows, below) > 0
    assert crossings(result, below) == 0
    assert [sorted(row[0]) for row in result] == [list("abcdef"), list("uvwxyz")]


def test_no_box_leaves_its_lane() -> None:
    below = {"a": ["z"], "b": ["x"], "c": ["y"]}
    above = {"z": ["a"], "x": ["b"], "y": ["c"]}

    result = ordered([[["a"], ["b", "c"]], [["x"], ["y", "z"]]], above, below)

    assert [[sorted(lane) for lane in row] for row in result] == [
        [["a"], ["b", "c"]],
        [["x"], ["y", "z"]],
    ]


@given(WANTED)
def test_neighbours_keep_their_distance_and_stay_inside(wanted: list[float]) -> None:
    n = len(wanted)

    result = spaced(wanted, [10.0] * n, [1.0] * n, 5.0, 0.0, 200.0)

    assert all(gap >= 15 - 1e-9 for gap in np.diff(result))
    assert result[0] >= 5 - 1e-9
    assert result[-1] <= 195 + 1e-9


@given(WANTED, st.lists(st.floats(-3, 3), min_size=8, max_size=8))
def test_no_other_allowed_places_are_nearer(
    wanted: list[float], shifts: list[float]
) -> None:
    n = len(wanted)
    weights = [1.0, 4.0] * 4

    result = spaced(wanted, [10.0] * n, weights[:n], 5.0, -1e3, 1e3)

    def cost(places: list[float]) -> float:
        squares = [(p - w) ** 2 for p, w in zip(places, wanted, strict=True)]
        return sum(x * y for x, y in zip(squares, weights, strict=False))

    other = [p + s for p, s in zip(result, shifts, strict=False)]
    if all(gap >= 15 for gap in np.diff(other)):
        assert cost(other) >= cost(result) - 1e-6


def test_nothing_is_moved_that_fits() -> None:
    wanted = [10.0, 40.0, 90.0]

    assert spaced(wanted, [10.0] * 3, [1.0] * 3, 5.0, 0.0, 100.0) == pytest.approx(
        wanted
    )


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
