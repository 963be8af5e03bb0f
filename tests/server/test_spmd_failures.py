"""What goes wrong when every worker's program begins its trainings by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
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
from tests.server.spmd_stage import error_of, program, stage
from tests.training.toy import BATCH, DATA, Params, fit, initial, replayed, same_bits

pytestmark = pytest.mark.slow

SGD = kit.GradientDescent()


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return Credentials.new()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 7}, "steps is 7 instead of 6"),
        ({"batch": 12}, "batch is 12 instead of 10"),
        ({"seed": 5}, "seed is 5 instead of 0"),
        ({"optimizer": kit.Adam(0.5)}, "optimizer is Adam(learning_rate=0.5"),
        ({"topology": "ring"}, "topology is ring instead of ps"),
        ({"sync": False}, "sync is False instead of True"),
        ({"params": {"w": np.zeros(4)}}, "parameter 'w' is float64[4] instead of"),
    ],
)
def test_workers_that_differ_are_told_in_what(
    tmp_path: Path, credentials: Credentials, changes: Mapping[str, Any], words: str
) -> None:
    def other(server: kit.Server) -> Any:
        options: dict[str, Any] = {
            "params": initial(),
            "steps": 6,
            "batch": BATCH,
            **changes,
        }
        return kit.train(fit, data=DATA, cluster=server, **options)

    with stage(tmp_path, credentials, 1) as play:
        play.server("ps", 0)
        outcomes = [
            play.play(play.server("worker", 0), program()),
            play.play(play.server("worker", 1), other),
        ]

        for outcome in outcomes:
            error = error_of(outcome)
            assert isinstance(error, MemberMismatch)
            assert error.task == "/job:worker/task:1"
            assert words in str(error)


def test_training_after_a_mismatch_is_whole(
    tmp_path: Path, credentials: Credentials
) -> None:
    def twice(server: kit.Server) -> kit.Run:
        with pytest.raises(MemberMismatch):
            program(seed=server.task.index)(server)
        run: kit.Run = program()(server)
        return run

    with stage(tmp_path, credentials, 1) as play:
        play.server("ps", 0)
        outcomes = [play.play(play.server("worker", n), twice) for n in (0, 1)]
        runs = [outcome.result(20) for outcome in outcomes]

    assert all(same_bits(run.params, replayed(6, 2, SGD)) for run in runs)


def test_failing_step_ends_the_training_in_every_process(
    tmp_path: Path, credentials: Credentials
) -> None:
    def stumble(params: Params, batch: Any) -> Any:
        if threading.current_thread().name == "kit-run-worker:1":
            raise ValueError("only here")
        return fit(params, batch)

    with stage(tmp_path, credentials, 1) as play:
        play.server("ps", 0)
        outcomes = [
            play.play(play.server("worker", n), program(step=stumble)) for n in (0, 1)
        ]

        for outcome in outcomes:
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
    tmp_path: Path,
    credentials: Credentials,
    present: list[tuple[str, int]],
    missing: str,
) -> None:
    with stage(tmp_path, credentials, 1) as play:
        play.settings = play.settings.replace(start_deadline_s=2.0)
        servers = [play.server(*task) for task in present]
        begun = time.monotonic()

        error = error_of(play.play(servers[0], program()))

        assert time.monotonic() - begun < 20
        assert isinstance(error, DeadlineExceededError)
        assert missing in str(error)


def test_parameter_server_cannot_begin_a_training(
    tmp_path: Path, credentials: Credentials
) -> None:
    with stage(tmp_path, credentials, 1, 1) as play:
        server = play.server("ps", 0)

        with pytest.raises(FailedPreconditionError, match=r"server\.join\(\)"):
            program()(server)


def test_server_that_was_not_started_cannot_train(credentials: Credentials) -> None:
    server = kit.Server(
        {"worker": ["localhost:0"]}, credentials=credentials, start=False
    )

    with pytest.raises(FailedPreconditionError, match=r"start\(\)"):
        program(topology="ring")(server)


def test_second_training_on_a_busy_server_is_refused(
    tmp_path: Path, credentials: Credentials
) -> None:
    gate = threading.Event()

    def wait_at_the_gate(params: Params, batch: Any) -> Any:
        assert gate.wait(10)
        return fit(params, batch)

    with stage(tmp_path, credentials, 0, 1) as play:
        server = play.server("worker", 0)
        options: dict[str, Any] = {"topology": "ring", "steps": 2, "batch": BATCH}
        first = kit.train(wait_at_the_gate, initial(), DATA, cluster=server, **options)
        with pytest.raises(ClusterBusy, match=first.job.run[:8]):
            kit.train(fit, initial(), DATA, cluster=server, **options)
        gate.set()

        assert first.wait(10).step == 2
