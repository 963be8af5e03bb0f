"""Crash plans: what they say, and that they strike there and nowhere else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.faults.points import POINTS, Crash, reach
from kit.task import Task
from tests.cases import for_each

WORKER = Task("worker", 1)
SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM")


@contextmanager
def caught() -> Iterator[list[int]]:
    """Collect SIGTERMs to this process instead of ending with them."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


@given(
    index=st.integers(0, 99),
    step=st.integers(0, 10**6),
    later=st.booleans(),
    point=st.sampled_from(POINTS),
    name=st.sampled_from(SIGNALS),
)
def test_a_plan_is_read_as_it_is_written(
    index: int, step: int, later: bool, point: str, name: str
) -> None:
    text = f"worker:{index}@{step}{'+' if later else ''}:{point}:{name}"

    plan = Crash.parse(text)

    assert plan == Crash(Task("worker", index), step, point, name, later)


@for_each(
    "text",
    [
        "worker:1",
        "worker:1@5:step.done",
        "worker:1@x:step.done:SIGKILL",
        "worker:1@5:step.dome:SIGKILL",
        "worker:1@5:step.done:SIGFPE",
        "@5:step.done:SIGKILL",
        "worker:1@5++:step.done:SIGKILL",
    ],
)
def test_what_is_no_plan_is_refused_with_the_text_and_the_form(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        Crash.parse(text)

    assert repr(text) in str(refused.value)
    assert "worker:1@5:POINT:SIGNAL" in str(refused.value)


@for_each(
    ("text", "point", "task", "step", "strikes"),
    [
        *(("", point, WORKER, 0, False) for point in POINTS),
        ("worker:1@5:step.done:SIGTERM", "step.done", WORKER, 5, True),
        ("worker:1@5:step.done:SIGTERM", "step.done", WORKER, 4, False),
        ("worker:1@5:step.done:SIGTERM", "step.done", WORKER, 6, False),
        ("worker:1@5:step.done:SIGTERM", "step.begun", WORKER, 5, False),
        ("worker:1@5:step.done:SIGTERM", "step.done", Task("worker", 0), 5, False),
        ("worker:1@5:step.done:SIGTERM", "step.done", Task("ps", 1), 5, False),
        ("worker:1@5+:step.done:SIGTERM", "step.done", WORKER, 4, False),
        ("worker:1@5+:step.done:SIGTERM", "step.done", WORKER, 5, True),
        ("worker:1@5+:step.done:SIGTERM", "step.done", WORKER, 9, True),
        ("worker:1@5+:step.done:SIGTERM", "step.begun", WORKER, 9, False),
    ],
)
def test_a_plan_strikes_at_its_task_point_and_step_alone(
    text: str, point: str, task: Task, step: int, strikes: bool
) -> None:
    plan = Crash.parse(text)

    with caught() as came:
        reach(plan, point, task, step)

    assert came == ([signal.SIGTERM] if strikes else [])
