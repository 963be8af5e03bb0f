"""Devices that a cluster has not: refused, with what there is and what was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.device import check_known, listed
from kit.errors import PlacementError
from kit.task import Task
from tests.cases import for_each

TASKS = [Task("ps", 0), *(Task("worker", i) for i in range(4))]


def complaint(device: str, tasks: list[Task] = TASKS) -> str:
    with pytest.raises(PlacementError) as caught:
        check_known(device, tasks)
    return str(caught.value)


@for_each(
    "device",
    [
        "",
        "/cpu:0",
        "/gpu:99",
        "/job:ps",
        "/job:worker/task:3/device:GPU:7",
        "/task:3",
        "/job:worker/replica:0/task:0",
        "/job:*/task:3",
        "/job:*",
    ],
)
def test_a_name_that_matches_a_task_is_let_through(device: str) -> None:
    check_known(device, TASKS)


@pytest.mark.parametrize("device", ["", "/cpu:0", "/job:*"])
def test_a_name_that_asks_for_no_task_needs_none(device: str) -> None:
    check_known(device, [])


@for_each(
    ("device", "advice"),
    [
        ("/job:wroker", "Did you mean '/job:worker'?"),
        ("/job:wroker/task:1", "Did you mean '/job:worker/task:1'?"),
        ("/job:wroker/task:9/cpu:0", "Did you mean '/job:worker/task:3/device:CPU:0'?"),
        ("/job:Worker/task:2", "Did you mean '/job:worker/task:2'?"),
        ("/job:workers", "Did you mean '/job:worker'?"),
        ("/job:PS", "Did you mean '/job:ps'?"),
        ("/job:worker/task:4", "Did you mean '/job:worker/task:3'?"),
        ("/job:worker/task:-1", "Did you mean '/job:worker/task:0'?"),
        ("/job:ps/task:1", "Did you mean '/job:ps/task:0'?"),
        ("/task:7", "Did you mean '/task:3'?"),
        ("/replica:1", "Did you mean '/replica:0'?"),
        ("/job:ps/replica:1/task:0", "Did you mean '/job:ps/replica:0/task:0'?"),
        ("/job:moon", "Place on one of these."),
        ("/job:moon/task:0", "Place on one of these."),
    ],
)
def test_an_unknown_name_is_refused_with_all_tasks_and_the_nearest(
    device: str, advice: str
) -> None:
    assert complaint(device) == (
        f"no task is called {device!r}; this cluster has ps:0, worker:0..3. {advice}"
    )


def test_a_job_that_exists_is_never_corrected_to_one_like_it() -> None:
    tasks = [Task("Worker", 0), Task("worker", 0), Task("worker", 1)]

    assert "mean '/job:Worker/task:0'" in complaint("/job:Worker/task:1", tasks)


def test_an_unreadable_name_is_a_placement_error_too() -> None:
    text = complaint("/zzz:0")

    assert "'/zzz:0'" in text
    assert text.endswith("This cluster has ps:0, worker:0..3.")


def test_a_cluster_without_tasks_says_so() -> None:
    assert complaint("/job:ps", []) == (
        "no task is called '/job:ps'; this cluster has no tasks. Start a cluster first."
    )


indices = st.sets(st.integers(0, 12), min_size=1)
jobs = st.dictionaries(st.sampled_from(["ps", "worker", "eval"]), indices)


@given(jobs)
def test_the_list_names_each_task_once_and_no_other(jobs: dict[str, set[int]]) -> None:
    tasks = [Task(job, index) for job in jobs for index in sorted(jobs[job])]

    result = []
    for text in listed(tasks).split(", ") if tasks else []:
        job, _, span = text.partition(":")
        first, _, last = span.partition("..")
        result += [Task(job, i) for i in range(int(first), int(last or first) + 1)]

    assert result == tasks


@given(jobs, st.sampled_from(["ps", "worker", "eval", "wrker"]), st.integers(-2, 14))
def test_a_suggested_name_is_known(
    jobs: dict[str, set[int]], job: str, index: int
) -> None:
    tasks = [Task(job, index) for job in jobs for index in jobs[job]]
    device = f"/job:{job}/task:{index}"
    if Task(job, index) in tasks:
        check_known(device, tasks)
        return

    _, asked, suggestion = complaint(device, tasks).partition("Did you mean ")

    if asked:
        check_known(suggestion.strip("'?"), tasks)
