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
    "selector",
    ["worker:3", "chief", "/job:ps/task:7", "", "worker:", "worker:-1", "a b"],
)
def test_an_unknown_selector_is_refused_with_the_known_tasks(selector: str) -> None:
    with pytest.raises(
        PlacementError, match=r"ps:0, ps:1, worker:0, worker:1, worker:2"
    ):
        select(selector, TASKS)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("wroker", "worker"), ("/job:worker/task:9", "worker:"), ("pss", "ps")],
)
def test_the_nearest_name_is_suggested(wrong: str, right: str) -> None:
    with pytest.raises(PlacementError, match=f"Did you mean '{right}"):
        select(wrong, TASKS)


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


@pytest.mark.parametrize(
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


@for_each("several", ["worker", "all", "/job:worker"])
def test_where_one_task_is_wanted_several_are_refused_with_their_names(
    several: str,
) -> None:
    with pytest.raises(PlacementError, match=r"one task is wanted.*'worker:0'"):
        select_one(several, TASKS)


@for_each("name", ["worker:1", "/job:worker/task:1", Task("worker", 1)])
def test_one_task_is_selected_by_each_form_of_its_name(name: str | Task) -> None:
    assert select_one(name, TASKS) == Task("worker", 1)
