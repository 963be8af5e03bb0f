"""Lines lead downwards and cross little, and boxes are near their wanted places."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.picture.grid import crossings, ordered, rows, spaced

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
