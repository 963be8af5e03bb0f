"""One record a step out of all members' rows."""

from __future__ import annotations

import math

import numpy as np

from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP, TOTAL, TRANSFER, TransferKind
from kit.training.client.metrics import StepMetrics, step_metrics

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
