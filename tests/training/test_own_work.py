"""What a worker does by itself decides what it carries on from step to step."""

from __future__ import annotations

from typing import Any

import kit
from kit.recording.state_keeper import states_of
from kit.training.core.axes import LocalTraining, OwnWork
from tests.cases import for_each
from tests.training.test_job import made

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
