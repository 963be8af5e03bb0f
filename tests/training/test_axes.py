"""Who meets in a step, and what a worker does by itself and carries on."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import kit
from kit.exchange.topologies.topology import by_name
from kit.recording.state_keeper import states_of
from kit.task import Task
from kit.training.core.axes import (
    Asynchronous,
    FirstArrivals,
    LocalTraining,
    OwnWork,
    Schedule,
    Synchronous,
)
from tests.cases import for_each
from tests.training.jobs import made

TASKS = (Task("ps", 0), Task("ps", 1), *(Task("worker", n) for n in range(4)))
SERVERS, WORKERS = {0, 1}, {2, 3, 4, 5}
SCHEDULES: list[type[Schedule]] = [Synchronous, FirstArrivals, Asynchronous]


def schedules() -> list[Schedule]:
    job = made(tasks=TASKS, aggregate=3)
    return [made(tasks=TASKS).schedule, job.schedule, job.schedule_of(False)]


def test_a_job_has_the_schedule_of_its_options_in_each_epoch() -> None:
    assert [type(schedule) for schedule in schedules()] == SCHEDULES
    assert type(made(tasks=TASKS, aggregate=4).schedule) is Synchronous
    assert type(made(tasks=TASKS, synchronous=False).schedule) is Asynchronous


def test_workers_meet_by_the_plan_or_at_the_servers() -> None:
    job = made(tasks=TASKS)
    joint, first, alone = schedules()

    for topology in ("ps", "ring", "mesh"):
        plan = job.plan(by_name(topology), 2)
        named = {
            to for (source, to, _) in job.traffic(by_name(topology)) if source == 2
        }
        assert plan is not None
        assert joint.partners(plan, 2) >= named
        assert first.partners(plan, 2) == alone.partners(plan, 2) == SERVERS
    assert joint.partners(None, 0) == set()
    assert first.partners(None, 0) == SERVERS | WORKERS
    assert alone.partners(None, 0) == WORKERS


@for_each(
    ("number", "is_elastic", "most"),
    [(0, False, 0), (0, True, 0), (1, False, 1), (2, False, 0), (2, True, 3)],
)
def test_workers_other_than_the_first_may_be_spared(
    number: int, is_elastic: bool, most: int
) -> None:
    schedule = schedules()[number]

    for n in range(1, len(TASKS)):
        for lost in combinations(range(len(TASKS)), n):
            may = n <= most and {*lost} <= WORKERS - {2}
            assert schedule.spares(lost, is_elastic=is_elastic) == may, lost


PLAIN, ADAM = kit.GradientDescent(0.1), kit.Adam()


def local(inner: Any, **more: Any) -> dict[str, Any]:
    return {"local_steps": 3, "inner": inner, **more}


@for_each(
    ("options", "keeps", "may_keep"),
    [
        ({}, False, False),
        ({"accumulate": 2}, False, False),
        ({"keeps_state": True}, True, True),
        (local(PLAIN), False, True),  # a switch may make workers differ
        (local(ADAM), True, True),
        (local(PLAIN, topology="gossip"), True, True),
    ],
)
def test_workers_keep_what_their_own_work_carries_on(
    options: dict[str, Any], keeps: bool, may_keep: bool
) -> None:
    job = made(**options)
    all_workers = {"state/worker:0": 1, "state/worker:1": 2}

    assert job.states == (all_workers if keeps else {})
    assert states_of(job) == (all_workers if may_keep else {})


def test_a_gradient_and_local_steps_may_both_be_computed_in_pieces() -> None:
    assert made(accumulate=4).own_work == OwnWork(4)
    assert made(**local(ADAM, accumulate=4)).own_work == LocalTraining(4, 3, ADAM)


def test_the_optimizer_of_a_worker_is_what_the_user_calls_optimizer() -> None:
    job = made(**local(ADAM, optimizer=PLAIN))
    inputs = {
        name: getattr(job, field) for name, field in job.own_work.optimizers.items()
    }

    assert inputs == {"optimizer": ADAM, "outer": PLAIN}
    assert made().own_work.optimizers == {"optimizer": "optimizer"}
