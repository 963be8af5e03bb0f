"""Of real trainings into which a cause was put, `run.bottleneck` names that cause."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks import verdicts
from benchmarks.verdicts import Case, Slowness, cases, is_right, run_case
from kit.testing.processes import ProcessCluster, process_cluster
from kit.trace.bottleneck import Bottleneck, Cause
from tests.cases import for_each

KB = 1000


@pytest.fixture(scope="module")
def tasks() -> Iterator[ProcessCluster]:
    with process_cluster(1, 3) as cluster:
        yield cluster


# A step takes some 100 ms, nearly all of it asleep, so a busy machine changes little;
# one that is busy beyond measure adds a cause of its own, but not to all of some tries.
_TRIES = 3
REAL = [
    Case(Cause.WORKER, "worker:1", 3, Slowness(30, 1, longer=60), 40 * KB, "ring"),
    Case(Cause.STRAGGLER, "", 3, Slowness(20, longer=120, now_and_then=0.2), 40 * KB),
    Case(Cause.DATA, "worker:2", 3, Slowness(20, 2, late=70), 40 * KB, "mesh"),
    Case(Cause.DATA, "", 3, Slowness(load=70), 40 * KB),
    Case(Cause.UPDATE, "ps:0", 3, Slowness(20, apply=80), 40 * KB),
    Case(Cause.LINK, "", 3, Slowness(20), 200 * KB, "ps", "64mbit"),
    Case(
        Cause.LINK, "", 3, Slowness(20), 200 * KB, "ps", "40mbit", ("a",) * 3 + ("b",)
    ),
    Case(Cause.LATENCY, "", 3, Slowness(10), 4 * KB, "ring", "20ms"),
    Case(Cause.COMPUTE, "", 3, Slowness(100), 4 * KB),
    Case(Cause.HOOKS, "worker:0", 3, Slowness(20, between=80), 4 * KB),
]


@pytest.mark.slow
@pytest.mark.lasting("process", "descriptor")
@for_each("case", REAL, ids=lambda case: case.words)
def test_cause_that_was_put_in_is_named(tasks: ProcessCluster, case: Case) -> None:
    result = list[Bottleneck]()
    while len(result) < _TRIES and not (result and is_right(case, result[-1])):
        result.append(run_case(case, tasks, steps=30 if case.slow.now_and_then else 8))

    assert is_right(case, result[-1]), result


def test_cases_are_of_all_kinds_and_the_same_for_a_seed() -> None:
    chosen = list(cases(36, seed=3))

    causes = Counter(case.cause for case in chosen)
    assert set(causes) == set(Cause) - {Cause.NONE}
    assert set(causes.values()) == {4}
    assert list(cases(36, seed=3)) == chosen
    assert list(cases(32, seed=4)) != chosen


def test_verdict_is_right_only_with_the_cause_and_the_task() -> None:
    case = verdicts.worker_case(random.Random(0))

    def verdict(cause: Cause, task: str) -> Bottleneck:
        return Bottleneck(cause, task, (), 1.0, 2.0, 0, 9, "", "", {})

    assert is_right(case, verdict(Cause.WORKER, case.task))
    assert not is_right(case, verdict(Cause.WORKER, "worker:9"))
    assert not is_right(case, verdict(Cause.DATA, case.task))
