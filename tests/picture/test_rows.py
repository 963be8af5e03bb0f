"""Lines lead downwards wherever that is possible, and always end."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kit.picture.rows import rows

KEYS = "abcdefgh"
PAIRS = st.lists(st.sampled_from(list(product(KEYS, KEYS))), max_size=20)


@given(PAIRS, st.sets(st.sampled_from(KEYS)))
def test_without_circles_every_line_leads_downwards(
    pairs: list[tuple[str, str]], movable: set[str]
) -> None:
    forward = [(a, b) for a, b in pairs if a < b]

    found = rows(KEYS, forward, movable)

    assert all(found[a] < found[b] for a, b in forward)
    assert set(found.values()) == set(range(max(found.values()) + 1))


@given(PAIRS)
def test_circles_end_and_leave_no_two_joined_boxes_in_one_row(
    pairs: list[tuple[str, str]],
) -> None:
    found = rows(KEYS, pairs)

    assert set(found) == set(KEYS)
    assert all(found[a] != found[b] for a, b in pairs if a != b)


def test_box_without_inputs_stands_just_above_its_first_user() -> None:
    chain = [("a", "b"), ("b", "c"), ("c", "d")]

    found = rows("abcdw", [*chain, ("w", "d"), ("w", "c")])

    assert found["w"] == found["c"] - 1 == 1


def test_arrival_moves_down_to_its_user_and_its_source_does_not() -> None:
    found = rows(
        "sabcx", [("s", "x"), ("s", "a"), ("a", "b"), ("b", "c"), ("x", "c")], "x"
    )

    assert found == {"s": 0, "a": 1, "b": 2, "c": 3, "x": 2}
