"""Name scopes become one box for each task, until all boxes are few enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.picture.reading import BoxGroup, BoxPlace, fold


def places(*names: str, lane: str = "ps:0") -> list[BoxPlace]:
    return [BoxPlace(name, lane) for name in names]


def n_boxes(groups: list[BoxGroup | None]) -> int:
    return len({item for item in groups if item is not None}) + groups.count(None)


def test_few_boxes_stay_as_they_are() -> None:
    assert fold(places("a/x", "a/y", "b"), 3) == [None, None, None]


def test_scope_on_two_tasks_becomes_two_boxes() -> None:
    names = [f"train/{i}" for i in range(10)]
    result = fold([*places(*names), *places(*names, lane="worker:0")], 5)

    assert set(result) == {BoxGroup("train", "ps:0"), BoxGroup("train", "worker:0")}


def test_small_scope_is_opened_before_a_large_one() -> None:
    large, small = [f"large/{i}" for i in range(20)], [f"small/{i}" for i in range(5)]

    result = fold(places(*large, *small), 10)

    assert set(result[:20]) == {BoxGroup("large", "ps:0")}
    assert result[20:] == [None] * 5


def test_scopes_of_one_size_are_opened_all_or_none() -> None:
    towers = [f"tower_{t}/{i}" for t in range(3) for i in range(5)]

    result = fold(places(*towers), 14)

    assert [group.scope for group in result if group] == [name[:7] for name in towers]


def test_scope_within_a_scope_stays_folded_when_there_is_no_room() -> None:
    names = ["a/x", "a/y", *(f"a/deep/{i}" for i in range(9))]

    result = fold(places(*names), 5)

    assert result == [None, None, *[BoxGroup("a/deep", "ps:0")] * 9]


def test_ops_without_scopes_are_folded_in_the_order_in_which_they_were_made() -> None:
    result = fold(places(*(f"Add_{i}" for i in range(100))), 10)

    numbers = [group.number for group in result if group is not None]
    assert len(numbers) == 100
    assert numbers == sorted(numbers)
    assert 5 <= n_boxes(result) <= 10


def test_one_op_and_a_scope_of_the_same_name_do_not_meet() -> None:
    result = fold(places("w", *(f"w/{i}" for i in range(9))), 4)

    assert result == [None, *[BoxGroup("w", "ps:0")] * 9]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join),
            st.sampled_from(["ps:0", "worker:0"]),
        ),
        max_size=60,
    ),
    st.integers(1, 30),
)
def test_only_boxes_of_one_scope_and_task_are_folded_together(
    given_places: list[tuple[str, str]], most: int
) -> None:
    boxes = [
        BoxPlace(f"{name}/{i}", lane) for i, (name, lane) in enumerate(given_places)
    ]

    result = fold(boxes, most)

    for position, group in zip(boxes, result, strict=True):
        if group is not None:
            assert group.lane == position.lane
            assert position.name.startswith(f"{group.scope}/" if group.scope else "")
    folded_scopes = {(index.name.split("/")[0], index.lane) for index in boxes}
    assert n_boxes(result) <= max(most, len(folded_scopes))


@pytest.mark.parametrize("most", [1, 2, 7])
def test_runs_of_ops_do_not_exceed_one_box_a_task_by_much(most: int) -> None:
    boxes = [BoxPlace(f"Add_{i}", f"worker:{i % 3}") for i in range(90)]

    assert n_boxes(fold(boxes, most)) <= max(most, 3)
