"""SIGSTOP: a frozen task is found by its silence, a short pause by nobody."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from kit.errors import PeerLost
from kit.task import Task
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from tests.faults import model, scene

SILENCE_S = 4.0
STEPS, AT = 400, 30

pytestmark = [
    pytest.mark.slow,
    # After a failure the next test begins with another process.
    pytest.mark.lasting("process", "descriptor"),
]


@pytest.mark.parametrize(
    ("task", "point"),
    [
        ("worker:1", "exchange.reduced"),
        ("worker:0", "compute.done"),
        ("ps:0", "step.begun"),
    ],
)
def test_a_frozen_task_is_named_and_ends_its_part_when_it_wakes(
    with_ps: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    with_ps.restart_dead()
    frozen = Task.parse(task)
    crash = f"{task}@{AT}:{point}:SIGSTOP"
    silence: dict[str, Any] = {"suspect_after_s": 1.0, "dead_after_s": SILENCE_S}
    run = scene.begin(with_ps, tmp_path, STEPS, crash=crash, **silence)
    with_ps[frozen].wait_for_stop(10)

    error = scene.failure(run, SILENCE_S + scene.PROMISE_S)

    assert isinstance(error, PeerLost)
    assert error.task == str(frozen)
    assert str(frozen) in error.message
    others = [item for item in with_ps.tasks if item != frozen]
    scene.assert_over_naming(with_ps, run, frozen, others)
    assert model.same_bits(run.params, model.replayed(run.step, 2))
    assert run.step in (AT, AT + 1)

    with_ps[frozen].signal(signal.SIGCONT)

    def has_failed() -> bool:
        return bool(scene.news(with_ps, run, frozen)["state"] == "failed")

    until(has_failed, scene.PROMISE_S)
    scene.assert_history_holds(tmp_path)
    # Nothing of it is left: the same processes do the next training.
    run = scene.begin(with_ps, tmp_path / "again", 20, topology="ring").wait(20)
    assert model.same_bits(run.params, model.replayed(20, 2))


@pytest.mark.parametrize("task", ["worker:1", "worker:0", "ps:0"])
def test_a_task_that_stops_for_a_moment_changes_nothing(
    with_ps: ProcessCluster, tmp_path: Path, task: str
) -> None:
    with_ps.restart_dead()
    frozen = Task.parse(task)
    plan = f"{task}@{AT}:step.begun:SIGSTOP"
    run = scene.begin(with_ps, tmp_path, STEPS, crash=plan)
    with_ps[frozen].wait_for_stop(10)

    with pytest.raises(TimeoutError):
        run.source.finished.result(0.3)
    assert run.step <= AT + 1
    with_ps[frozen].signal(signal.SIGCONT)
    run.wait(30)

    assert run.step == STEPS
    assert model.same_bits(run.params, model.replayed(STEPS, 2))
    scene.assert_history_holds(tmp_path)
