"""One record a step out of all members' rows, and the account beside the formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kit
from kit.exchange.layout import Spec
from kit.task import Task
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP, TOTAL, TRANSFER, TransferKind
from kit.training.client.metrics import StepMetrics, account, once_only, step_metrics
from kit.training.core.job import Job
from tests.training.jobs import made

MS = 1_000_000
NAMES = ("ps:0", "worker:0", "worker:1")
EPOCHS = (EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 1, 50, "100mbit"))


def row(
    task: int,
    step: int,
    loss: float = 1.0,
    examples: int = 10,
    epoch: int = 1,
    start: int = 0,
    end: int = 10,
    compute: int = 4,
    wait: int = 2,
    staleness: int = 0,
) -> tuple[float, ...]:
    times = (start * MS, end * MS, compute * MS, wait * MS)
    return (task, step, epoch, loss, examples, *times, staleness)


def trace(*table: tuple[float, ...]) -> Trace:
    return Trace(NAMES, EPOCHS, steps=rows(STEP, table))


def test_loss_is_the_mean_over_the_examples_not_over_the_workers() -> None:
    (record,) = step_metrics(trace(row(1, 0, 1.0, 30), row(2, 0, 5.0, 10)))

    assert record["loss"] == 2.0
    assert record["examples"] == 40


def test_times_are_those_of_all_workers() -> None:
    (record,) = step_metrics(
        trace(
            row(1, 0, start=0, end=10, compute=4, wait=1),
            row(2, 0, start=2, end=13, compute=8, wait=3, staleness=5),
        )
    )

    assert math.isclose(record["seconds"], 0.013)
    assert math.isclose(record["compute"], 0.006)
    assert math.isclose(record["wait"], 0.002)
    assert record["staleness"] == 5


def test_rows_without_examples_do_not_count() -> None:
    (record,) = step_metrics(trace(row(0, 0, math.nan, 0, end=99), row(1, 0, 3.0)))

    assert record["loss"] == 3.0
    assert math.isclose(record["seconds"], 0.010)


def test_records_are_in_the_order_of_the_steps() -> None:
    dice = np.random.default_rng(0)
    table = [row(task, step, step) for task in (1, 2) for step in range(20)]
    dice.shuffle(table)

    result = step_metrics(trace(*table))

    assert [record["step"] for record in result] == list(range(20))
    assert [record["loss"] for record in result] == list(range(20))


def test_period_is_from_the_first_begin_of_one_step_to_that_of_the_next() -> None:
    result = step_metrics(
        trace(
            *(row(1, 0, start=10, end=40), row(2, 0, start=20, end=70)),
            *(row(1, 1, start=45, end=80), row(2, 1, start=43, end=99)),
            row(1, 3, start=200, end=210),
        )
    )

    first, second, fourth = (record["period"] for record in result)
    assert math.isnan(first)
    assert math.isclose(second, 0.033)
    assert math.isnan(fourth)  # step 2 is not known


def test_topology_and_link_are_those_of_the_steps_epoch() -> None:
    result = step_metrics(trace(row(1, 0), row(1, 1, epoch=2), row(1, 2, epoch=9)))

    assert [record["topology"] for record in result] == ["ps", "ring", ""]
    assert [record["link"] for record in result] == ["", "100mbit", ""]


def test_no_rows_make_no_records() -> None:
    assert step_metrics(trace()) == []
    assert step_metrics(trace(row(0, 0, math.nan, 0))) == []


def late(task: int, step: int, by: int) -> tuple[float, ...]:
    """Return the row of a gradient that came too late to count."""
    return row(task, step, math.nan, 0, staleness=by)


def test_contributors_are_the_workers_whose_gradients_count() -> None:
    first, second = step_metrics(
        trace(row(1, 0), row(2, 0), row(1, 1), late(2, 1, by=1), row(0, 1, 0.0, 0))
    )

    assert first["contributors"] == ("worker:0", "worker:1")
    assert second["contributors"] == ("worker:0",)
    assert [first["dropped"], second["dropped"]] == [0, 1]


def test_worker_that_died_after_its_push_is_a_contributor() -> None:
    moved = [
        (1, 0, TransferKind.PUSH, 1, 0, 80, 1, 2),
        (2, 0, TransferKind.PUSH, 1, 0, 80, 1, 2),
        (2, 0, TransferKind.PUSH, 1, 3, 80, 1, 2),
    ]
    some_were_late = rows(TOTAL, [(1, 0, TransferKind.LATE, 1, 80, 1)])
    pushed = Trace(
        NAMES,
        EPOCHS,
        rows(TRANSFER, moved),
        steps=rows(STEP, [row(1, 0), row(1, 1)]),
        totals=some_were_late,
    )

    first, second = step_metrics(pushed)

    assert first["contributors"] == ("worker:0", "worker:1")
    assert second["contributors"] == ("worker:0",)


def test_every_field_of_a_record_is_there() -> None:
    (record,) = step_metrics(trace(row(1, 0)))

    assert record.keys() == StepMetrics.__annotations__.keys()


# -- the account of traffic ------------------------------------------------------------

SIZE = 4 * 12  # a ring of three cuts it evenly
TASKS = (Task("ps", 0), *(Task("worker", n) for n in range(3)))
PS, WORKERS = 0, (1, 2, 3)


def job(**changes: Any) -> Job:
    options: dict[str, Any] = {"tasks": TASKS, "specs": (Spec("w", (12,), "float32"),)}
    return made(**options | {"optimizer": kit.Momentum(0.1), "batch": 6} | changes)


def recorded(epochs: list[EpochRow], *totals: tuple[int, ...]) -> Trace:
    return Trace(tuple(map(str, TASKS)), tuple(epochs), totals=rows(TOTAL, totals))


def star(epoch: int, steps: int) -> list[tuple[int, ...]]:
    """Return what three workers and a server move in so many steps."""
    both = ((PS, TransferKind.PUSH), (PS, TransferKind.PULL))
    return [
        (*ends, kind, epoch, steps * SIZE, steps)
        for worker in WORKERS
        for ends, kind in (((worker, PS), both[0][1]), ((PS, worker), both[1][1]))
    ]


def ring(epoch: int, steps: int) -> list[tuple[int, ...]]:
    return [
        (worker, worker % 3 + 1, kind, epoch, steps * 2 * SIZE // 3, 2 * steps)
        for worker in WORKERS
        for kind in (TransferKind.REDUCE, TransferKind.GATHER)
    ]


def test_sound_training_agrees_in_every_entry() -> None:
    epochs = [EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 3, 9, "")]

    entries = account(job(), recorded(epochs, *star(1, 3), *ring(2, 2)), 5, {})

    assert [(entry.epoch, entry.task, entry.steps) for entry in entries] == [
        *((1, task.short, 3) for task in TASKS),
        *((2, task.short, 2) for task in TASKS),
    ]
    assert all(entry.agrees for entry in entries)
    server, worker = entries[0], entries[1]
    assert (server.sent, server.received) == (9 * SIZE, 9 * SIZE)
    assert (worker.formula_sent, worker.formula_received) == (3 * SIZE, 3 * SIZE)
    assert entries[4].formula_sent == 0  # the server rests in a ring
    assert entries[5].formula_sent == 2 * 2 * 2 * SIZE // 3


@pytest.mark.parametrize("change", [-1, 1, SIZE])
def test_single_wrong_byte_is_noticed_on_both_sides(change: int) -> None:
    totals = star(1, 5)
    source, destination, kind, epoch, size, messages = totals[0]
    totals[0] = (source, destination, kind, epoch, size + change, messages)

    entries = account(job(), recorded([EpochRow(1, "ps", 0, 0, "")], *totals), 5, {})

    wrong = [entry.task for entry in entries if not entry.agrees]
    assert wrong == [TASKS[destination].short, TASKS[source].short]


def test_asynchronous_epochs_are_left_out() -> None:
    epochs = [EpochRow(1, "ps-async", 0, 0, "")]

    assert account(job(synchronous=False), recorded(epochs, *star(1, 4)), 4, {}) == []


def test_what_moves_once_is_told_apart_from_the_steps() -> None:
    epochs = [EpochRow(1, "ring", 0, 0, ""), EpochRow(2, "ps", 2, 9, "")]
    broadcast = [(1, to, TransferKind.BROADCAST, 1, SIZE, 1) for to in (0, 2, 3)]

    result = once_only(job(topology="ring"), recorded(epochs, *ring(1, 2), *broadcast))

    # Parameters and momentum move to the server, which rested; none of it was recorded.
    assert result == [(1, 3 * SIZE, 3 * SIZE), (2, 0, 2 * SIZE)]


def test_training_without_epochs_has_an_empty_account() -> None:
    assert account(job(steps=0), recorded([]), 0, {}) == []
    assert once_only(job(steps=0), recorded([])) == []
