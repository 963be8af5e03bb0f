"""The account holds what was measured beside the formulas, for each epoch and task."""

from __future__ import annotations

from typing import Any

import pytest

import kit
from kit.exchange.layout import Spec
from kit.task import Task
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import TOTAL, TransferKind
from kit.training.client.metrics import account, once_only
from kit.training.core.job import Job
from tests.training.jobs import made

SIZE = 4 * 12  # a ring of three cuts it evenly
TASKS = (Task("ps", 0), *(Task("worker", n) for n in range(3)))
PS, WORKERS = 0, (1, 2, 3)


def job(**changes: Any) -> Job:
    options: dict[str, Any] = {"tasks": TASKS, "specs": (Spec("w", (12,), "float32"),)}
    return made(**options | {"optimizer": kit.Momentum(0.1), "batch": 6} | changes)


def trace(epochs: list[EpochRow], *totals: tuple[int, ...]) -> Trace:
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

    entries = account(job(), trace(epochs, *star(1, 3), *ring(2, 2)), 5, {})

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

    entries = account(job(), trace([EpochRow(1, "ps", 0, 0, "")], *totals), 5, {})

    wrong = [entry.task for entry in entries if not entry.agrees]
    assert wrong == [TASKS[destination].short, TASKS[source].short]


def test_asynchronous_epochs_are_left_out() -> None:
    epochs = [EpochRow(1, "ps-async", 0, 0, "")]

    assert account(job(synchronous=False), trace(epochs, *star(1, 4)), 4, {}) == []


def test_what_moves_once_is_told_apart_from_the_steps() -> None:
    epochs = [EpochRow(1, "ring", 0, 0, ""), EpochRow(2, "ps", 2, 9, "")]
    broadcast = [(1, to, TransferKind.BROADCAST, 1, SIZE, 1) for to in (0, 2, 3)]

    result = once_only(job(topology="ring"), trace(epochs, *ring(1, 2), *broadcast))

    # Parameters and momentum move to the server, which rested; none of it was recorded.
    assert result == [(1, 3 * SIZE, 3 * SIZE), (2, 0, 2 * SIZE)]


def test_training_without_epochs_has_an_empty_account() -> None:
    assert account(job(steps=0), trace([]), 0, {}) == []
    assert once_only(job(steps=0), trace([])) == []
