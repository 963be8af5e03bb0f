from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.cluster.cells.selection import (
    check_jobs,
    is_single,
    make_tasks,
    select,
    select_one,
)
from kit.errors import InvalidArgumentError, PlacementError
from kit.task import Task
from tests.cases import for_each

TASKS = make_tasks({"ps": 2, "worker": 3})


@for_each(
    ("selector", "wanted"),
    [
        ("all", ["ps:0", "ps:1", "worker:0", "worker:1", "worker:2"]),
        ("worker", ["worker:0", "worker:1", "worker:2"]),
        ("/job:worker", ["worker:0", "worker:1", "worker:2"]),
        ("job:ps", ["ps:0", "ps:1"]),
        ("worker:1", ["worker:1"]),
        ("/job:worker/task:1", ["worker:1"]),
        ("/job:worker/replica:1", ["worker:1"]),
        (Task("ps", 1), ["ps:1"]),
        (["worker:2", "ps"], ["ps:0", "ps:1", "worker:2"]),
        ([Task("ps", 0), "ps:0"], ["ps:0"]),
        ([], []),
    ],
)
def test_a_selector_names_these_tasks(selector: object, wanted: list[str]) -> None:
    assert [t.short for t in select(selector, TASKS)] == wanted  # type: ignore[arg-type]


@for_each(
    ("selector", "suggestion"),
    [
        *((text, "") for text in ("chief", "/job:ps/task:7", "worker:-1", "", "a b")),
        *(("worker:3", ""), ("worker:", ""), ("/job:worker/task:9", "worker:")),
        *(("wroker", "worker"), ("pss", "ps")),
    ],
)
def test_an_unknown_selector_is_refused_with_the_known_tasks_and_the_nearest(
    selector: str, suggestion: str
) -> None:
    with pytest.raises(PlacementError) as caught:
        select(selector, TASKS)

    assert "ps:0, ps:1, worker:0, worker:1, worker:2" in str(caught.value)
    assert not suggestion or f"Did you mean '{suggestion}" in str(caught.value)


def test_a_selector_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="3 selects no tasks"):
        select([3], TASKS)  # type: ignore[list-item]


@given(st.lists(st.sampled_from([*TASKS, "ps", "worker", "worker:1", "all"])))
def test_several_selectors_give_the_union_in_the_order_of_the_cluster(
    several: list[Task | str],
) -> None:
    union = {task for item in several for task in select(item, TASKS)}

    assert select(several, TASKS) == [task for task in TASKS if task in union]


@for_each(
    ("selector", "single"),
    [
        ("worker:1", True),
        ("/job:worker/task:1", True),
        (Task("ps", 0), True),
        ("worker", False),
        ("all", False),
        (["worker:1"], False),
    ],
)
def test_only_the_name_of_one_task_is_single(selector: object, single: bool) -> None:
    assert is_single(selector) is single  # type: ignore[arg-type]


@for_each(
    ("jobs", "text"),
    [
        ({"ps": -1, "worker": 1}, "ps=-1"),
        ({"ps": 1, "worker": 0}, "no worker"),
        ({"worker": 1.5}, "worker=1.5"),
        ({"worker": True}, "worker=True"),
        ({"worker": 1, "b/d": 1}, "b/d:0"),
    ],
)
def test_impossible_jobs_are_refused_with_the_value(
    jobs: dict[str, int], text: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        check_jobs(jobs)


def test_one_task_is_selected_by_each_form_of_its_name_several_are_refused() -> None:
    for name in ("worker:1", "/job:worker/task:1", Task("worker", 1)):
        assert select_one(name, TASKS) == Task("worker", 1)
    for several in ("worker", "all", "/job:worker"):
        with pytest.raises(PlacementError, match=r"one task is wanted.*'worker:0'"):
            select_one(several, TASKS)
