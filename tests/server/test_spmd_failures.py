"""What goes wrong when every worker's program begins its trainings by itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import (
    ClusterBusy,
    DeadlineExceededError,
    FailedPreconditionError,
    MemberMismatch,
    StepFailed,
)
from kit.wire.handshake.credentials import Credentials
from tests.server.spmd_stage import MakeStage, error_of, program
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    begin,
    fit,
    initial,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow


def test_workers_that_differ_are_told_in_what_and_train_when_they_agree(
    stage: MakeStage,
) -> None:
    def twice(server: kit.Server) -> Any:
        changes: dict[str, Any] = {"params": initial(), "steps": 6}
        if server.task.index == 1:
            changes["params"]["w"] = np.zeros(4)
            changes |= {"steps": 7, "seed": 5}
        with pytest.raises(MemberMismatch) as caught:
            kit.train(fit, data=DATA, batch=BATCH, cluster=server, **changes)
        return caught.value, program()(server)

    for error, run in stage().results(twice):
        assert error.task == "/job:worker/task:1"
        assert "steps is 7 instead of 6" in str(error)
        assert "seed is 5 instead of 0" in str(error)
        assert "parameter 'w' is float64[4] instead of" in str(error)
        assert same_bits(run.params, replayed(6, 2, kit.GradientDescent()))


def test_failing_step_ends_the_training_in_every_process(stage: MakeStage) -> None:
    def stumble(params: Params, batch: Any) -> Any:
        if threading.current_thread().name == "kit-run-worker:1":
            raise ValueError("only here")
        return fit(params, batch)

    for outcome in stage().begin(program(step=stumble)):
        error = error_of(outcome)
        assert isinstance(error, StepFailed)
        assert error.task == "/job:worker/task:1"


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        ([("worker", 1), ("ps", 0)], "/job:worker/task:0"),
        ([("worker", 0), ("ps", 0)], "/job:worker/task:1"),
        ([("worker", 0)], "/job:ps/task:0"),
    ],
)
def test_task_that_does_not_come_is_named_after_the_deadline(
    stage: MakeStage, present: list[tuple[str, int]], missing: str
) -> None:
    play = stage(start_deadline_s=2.0)
    servers = [play.server(*task) for task in present]
    begun = time.monotonic()

    error = error_of(play.play(servers[0], program()))

    assert time.monotonic() - begun < 20
    assert isinstance(error, DeadlineExceededError)
    assert missing in str(error)


def test_parameter_server_cannot_begin_a_training(stage: MakeStage) -> None:
    server = stage(n_workers=1).server("ps", 0)

    with pytest.raises(FailedPreconditionError, match=r"server\.join\(\)"):
        program()(server)


def test_server_that_was_not_started_cannot_train(credentials: Credentials) -> None:
    server = kit.Server(
        {"worker": ["localhost:0"]}, credentials=credentials, start=False
    )

    with pytest.raises(FailedPreconditionError, match=r"start\(\)"):
        program(topology="ring")(server)


def test_second_training_on_a_busy_server_is_refused(stage: MakeStage) -> None:
    gate = threading.Event()

    def wait_at_the_gate(params: Params, batch: Any) -> Any:
        assert gate.wait(10)
        return fit(params, batch)

    server = stage(n_ps=0, n_workers=1).server("worker", 0)
    first = begin(server, wait_at_the_gate, steps=2, topology="ring")
    with pytest.raises(ClusterBusy, match=first.job.run[:8]):
        begin(server, topology="ring")
    gate.set()

    assert first.wait(10).step == 2
