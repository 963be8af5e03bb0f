"""A worker's own part of a step is recorded as loading, computing and queueing."""

from __future__ import annotations

import numpy as np

import kit
from kit.testing.cluster import LocalCluster
from kit.trace.traffic import Meter, Phase
from kit.training.worker.own_part import OwnPart
from tests.training.paced import begin

MS = 1_000_000


class Clock:
    """A clock and a scheduler that are told how the time goes by."""

    def __init__(self) -> None:
        self.now = 100 * MS
        self.delay: int | None = 0
        self.n_asked = 0

    def __call__(self) -> int:
        return self.now

    def asked(self) -> int | None:
        self.n_asked += 1
        return self.delay


def do_step(part: OwnPart, clock: Clock, step: int, *, queued: int) -> None:
    begin = part.begin()
    clock.now += 2 * MS
    part.load(begin)
    clock.now += 7 * MS
    if clock.delay is not None:
        clock.delay += queued
    part.end(step)


def spans(meter: Meter) -> list[tuple[Phase, int, int]]:
    result = meter.spans.since(0)[0]
    return [
        (Phase(phase), step, (end - begin) // MS)
        for _, phase, step, begin, end in result.tolist()
    ]


def test_time_without_a_core_is_taken_from_the_computing() -> None:
    clock, meter = Clock(), Meter(1)
    part = OwnPart(meter, clock, clock.asked)

    do_step(part, clock, 0, queued=3 * MS)

    assert spans(meter) == [
        (Phase.LOAD, 0, 2),
        (Phase.COMPUTE, 0, 4),
        (Phase.QUEUE, 0, 3),
    ]


def test_mini_batches_of_local_steps_are_one_span_of_loading() -> None:
    clock, meter = Clock(), Meter(1)
    part = OwnPart(meter, clock, clock.asked)

    part.begin()
    for _ in range(3):  # local steps
        since = part.clock()
        clock.now += 2 * MS
        part.load(since)
        clock.now += 5 * MS
    part.end(0)

    assert spans(meter)[:2] == [(Phase.LOAD, 0, 6), (Phase.COMPUTE, 0, 15)]


def test_more_delay_than_the_step_lasted_is_of_loading_too() -> None:
    clock, meter = Clock(), Meter(1)

    do_step(OwnPart(meter, clock, clock.asked), clock, 0, queued=99 * MS)

    assert spans(meter)[1:] == [(Phase.COMPUTE, 0, 0), (Phase.QUEUE, 0, 7)]


def test_kernel_is_asked_at_most_once_in_20_ms() -> None:
    clock, meter = Clock(), Meter(1)
    part = OwnPart(meter, clock, clock.asked)

    for step in range(5):
        do_step(part, clock, step, queued=0)

    # A step takes 9 ms: the first that begins 20 ms after the end of the first one.
    asked = [step for phase, step, _ in spans(meter) if phase is Phase.QUEUE]
    assert asked == [0, 4]
    assert clock.n_asked == 4


def test_kernel_that_tells_nothing_leaves_the_computing_whole() -> None:
    clock, meter = Clock(), Meter(1)
    clock.delay = None

    do_step(OwnPart(meter, clock, clock.asked), clock, 0, queued=0)

    assert spans(meter) == [(Phase.LOAD, 0, 2), (Phase.COMPUTE, 0, 7)]


def test_without_a_trace_nothing_is_asked() -> None:
    clock, meter = Clock(), Meter(1, trace=False)

    do_step(OwnPart(meter, clock, clock.asked), clock, 0, queued=0)

    assert clock.n_asked == 0
    assert spans(meter) == []


def test_each_step_of_a_training_loads_and_then_computes(cluster: LocalCluster) -> None:
    run = begin(cluster, steps=4).wait(30)

    assert isinstance(run, kit.Run)
    for worker in run.job.workers:
        mine = run.trace.spans[run.trace.spans["task"] == worker]
        loads = mine[mine["phase"] == Phase.LOAD]
        computes = mine[mine["phase"] == Phase.COMPUTE]
        assert np.array_equal(loads["step"], [0, 1, 2, 3])
        assert np.array_equal(loads["end"], computes["start"])
