"""A schedule says who meets in a step, and whose loss it bears."""

from __future__ import annotations

from itertools import combinations

from kit.exchange.topologies.topology import by_name
from kit.task import Task
from kit.training.core.axes import Asynchronous, FirstArrivals, Schedule, Synchronous
from tests.cases import for_each
from tests.training.test_job import made

TASKS = (Task("ps", 0), Task("ps", 1), *(Task("worker", n) for n in range(4)))
PS, WORKERS = {0, 1}, {2, 3, 4, 5}
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
        assert first.partners(plan, 2) == alone.partners(plan, 2) == PS
    assert joint.partners(None, 0) == set()
    assert first.partners(None, 0) == PS | WORKERS
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
