"""Recordings of asynchronous elastic trainings that lost tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import UnimplementedError
from kit.exchange.layout import Spec
from kit.recording.folder import PUSH, rows_of
from kit.recording.recomputing.pushes import check_losses, orders_with_losses
from kit.recording.recomputing.stretches import stretches
from kit.task import Task
from kit.testing.processes import process_cluster
from kit.trace.log import Rows
from kit.trace.named_rows import Change, EpochRow
from kit.trace.traffic import STEP
from kit.training.core.job import Job
from tests.cases import for_each
from tests.elastic.scene import kill, slowly
from tests.elastic.scene import train as train_elastic
from tests.recording.toy_training import assert_replayed

EPOCHS = (EpochRow(1, "ps-async", 0, 0, ""), EpochRow(2, "ps-async", 4, 0, "", "", 1))
LOST = Change(("worker:1",), (), (), 4, 0, 0.1, "its links closed")


@pytest.mark.slow
def test_training_that_lost_a_worker_is_replayed_with_all_that_was_pushed(
    tmp_path: Path,
) -> None:
    wanted = kit.Recording(tmp_path / "run", state_every_s=0.1)
    with process_cluster(ps=1, worker=3) as cluster:
        run = train_elastic(
            cluster, steps=300, sync=False, topology="ps", record=wanted
        )
        kill(cluster, run, Task("worker", 2), 100)
        run.wait(60)
        assert run.params

    assert_replayed(wanted.path, run, slowly)
    assert [item.lost for item in run.history()] == [("worker:2",)]
    assert [row.generation for row in run.trace.epochs] == [0, 1]


def job(n_ps: int = 1, **changes: Any) -> Job:
    tasks = [Task("ps", n) for n in range(n_ps)]
    tasks += [Task("worker", n) for n in range(2)]
    specs = Spec("w", (3,), "float32"), Spec("b", (2,), "float32")
    options: dict[str, Any] = {"synchronous": False, "steps": 9, "batch": 4} | changes
    return Job(
        run="0" * 32,
        tasks=tuple(tasks),
        specs=specs,
        optimizer=kit.Adam(0.1),
        topology="ps",
        **options,
    )


def acknowledged(*steps: tuple[int, int]) -> Rows:
    """Return the rows of workers that were told the number of their update."""
    rows = np.zeros(len(steps), STEP)
    rows["step"], rows["task"] = np.array(steps).reshape(-1, 2).T
    rows["examples"] = 2
    return rows


def test_update_that_no_worker_was_told_of_is_that_whose_push_was_complete() -> None:
    held = stretches(EPOCHS, 6)
    # Nobody was told of step 3.
    steps = acknowledged((0, 1), (1, 2), (2, 1), (4, 1), (5, 2))
    # The push of member 1 in step 2 was the second one: the first was not complete.
    pushes = [(0, 2, 1, 2), (0, 1, 1, 2), (0, 2, 1, 3)]

    result = orders_with_losses(job(), held, steps, rows_of(PUSH, pushes))

    assert result == {(1, 0): [1, 2, 1, 2], (2, 0): [1, 2]}


def test_order_ends_where_nothing_is_known() -> None:
    held = stretches(EPOCHS, 6)

    result = orders_with_losses(
        job(), held, acknowledged((0, 1), (2, 1)), rows_of(PUSH, ())
    )

    assert result == {(1, 0): [1], (2, 0): []}


@for_each(
    ("recorded", "change", "why"),
    [
        (job(), LOST._replace(repeated=3), "done again"),
        (job(n_ps=2), LOST, "another number of pushes"),
        (job(keeps_state=True), LOST, "kept from step to step"),
    ],
)
def test_what_is_not_recorded_is_refused_with_the_reason(
    recorded: Job, change: Change, why: str
) -> None:
    with pytest.raises(UnimplementedError, match=why):
        check_losses(recorded, stretches(EPOCHS, 6), [change])
    check_losses(recorded, stretches(EPOCHS[:1], 6), [])
    check_losses(job(), stretches(EPOCHS, 6), [LOST])


def test_losses_of_synchronous_steps_refuse_nothing() -> None:
    repeated, lost = LOST._replace(repeated=2), EpochRow(2, "ps", 2, 0, "", "", 1)
    before = EpochRow(1, "ps", 0, 0, "")
    after = EpochRow(3, "ps-async", 5, 0, "", "", 1)
    undone = EpochRow(2, "ps", 3, 0, "")  # and with it a part of asynchronous steps

    check_losses(job(), stretches([before, lost, after], 9), [repeated])
    with pytest.raises(UnimplementedError, match="done again"):
        check_losses(job(), stretches([EPOCHS[0], undone, lost], 9), [repeated])
