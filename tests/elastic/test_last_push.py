"""The last push of an asynchronous worker that dies counts once, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import kit
from kit.exchange.layout import Range, Spec
from kit.exchange.plan import GRAD, SLOT, Plan
from kit.exchange.ports import endpoint as endpoints
from kit.faults.history import History
from kit.task import Task
from kit.testing.group import LocalMember, local_group
from kit.training.core.context import MemberContext
from kit.training.core.job import Job
from kit.training.core.part import PartRole, StepEvents
from kit.training.features.asynchronous.async_steps import AsyncServer
from kit.training.features.elastic.generation import Generation
from kit.training.features.elastic.placing import Placing

RUN = "ab" * 16
TASKS = (Task("ps", 0), Task("worker", 0), Task("worker", 1))
SERVER, DEAD, LIVING = range(3)
RATE, DECAY = 0.5, 0.25
OF_THE_DEAD, OF_THE_LIVING = 4.0, 16.0  # what all elements of their gradients are


def job() -> Job:
    names = [task.short for task in TASKS]
    return Job(
        *(RUN, TASKS, (Spec("w", (3,), "float64"),), kit.Momentum(RATE, DECAY), "ps"),
        synchronous=False,
        steps=9,
        batch=4,
        generation=Generation.first(RUN, TASKS, names, Placing()),
    )


def push(worker: LocalMember, parts: tuple[Range, ...], value: float) -> None:
    """Push a gradient to the server, as much of it as lies in `parts`."""
    port = worker.endpoint.ports[SERVER]
    port.post(GRAD, Range(0, 0))
    for part in parts:
        worker.memory.typed(GRAD, part)[...] = value
        port.post(GRAD, part)


@pytest.mark.parametrize("is_complete", [True, False])
def test_the_push_of_a_worker_that_dies_counts_once_if_it_was_complete(
    is_complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "GRACE_S", 0.0)
    training = job()
    shard = training.group.shards[0]
    with local_group(training.layout, len(TASKS), in_place=False) as members:
        server, dead, living = members
        context = MemberContext(
            *(training, SERVER, server.meter, server.endpoint, server.memory),
            History("", TASKS[SERVER]),
        )
        context.schedule = training.schedule_of(synchronous=False)
        push(dead, shard if is_complete else (), OF_THE_DEAD)
        dead.endpoint.close()
        push(living, shard, OF_THE_LIVING)
        living.endpoint.stamp.halt = 0
        living.endpoint.ports[SERVER].post(GRAD, Range(0, 0))  # goodbye

        AsyncServer(PartRole(context, StepEvents(context, ()), Plan((), ()))).run(0)

        result = np.frombuffer(context.parameters(), np.float64)
        moved = np.concatenate([server.memory.typed(SLOT, part) for part in shard])

    parameter, momentum, counted = 0.0, 0.0, [OF_THE_LIVING]
    for gradient in [OF_THE_DEAD, *counted] if is_complete else counted:
        momentum = DECAY * momentum + gradient
        parameter -= RATE * momentum
    assert context.step == 1 + is_complete
    assert result[:3].tolist() == [parameter] * 3
    assert moved[:3].tolist() == [momentum] * 3
