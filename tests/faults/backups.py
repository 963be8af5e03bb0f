"""Trainings with backup workers in processes, and what they must give."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kit
from kit.faults import history
from kit.hooks import SessionRunHook
from kit.settings import Value, settings
from kit.task import Task
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from tests.faults import model, scene
from tests.training.backups import ranks, total

N, R, AT, LONG = 3, 2, 20, 1_000_000
SILENCE_S = 4.0
BACKUP = Task("worker", 2)


def endless() -> Iterator[tuple[model.Array]]:
    for number in range(LONG):
        yield (np.array([(number, worker) for worker in range(N)]),)


def step(params: dict[str, model.Array], batch: tuple[model.Array, ...]) -> Any:
    """Leave the cores to others: what is waited for here is mostly not the steps."""
    time.sleep(model.PACE_S)
    return model.step(params, batch)


def begin(
    cluster: ProcessCluster,
    folder: Path,
    steps: int = LONG,
    *,
    checkpoint: Path | None = None,
    record: Path | None = None,
    hooks: Sequence[SessionRunHook] = (),
    **values: Value,
) -> kit.Run:
    cluster.restart_dead()
    quick: dict[str, Value] = {
        "heartbeat_s": 0.1,
        "suspect_after_s": 1.0,
        "dead_after_s": SILENCE_S,
        "history": str(folder),
    }
    with settings(**quick | values):
        return kit.train(
            step,
            model.initial(),
            endless,
            optimizer=kit.Momentum(model.RATE, model.DECAY),
            aggregate=R,
            steps=steps,
            batch=N,
            checkpoint=checkpoint,
            record=record,
            hooks=hooks,
            cluster=cluster,
        )


def replayed(made_of: Sequence[Collection[int]]) -> dict[str, model.Array]:
    """Return the parameters after steps of these workers, by numpy alone."""
    params = model.initial()
    speed = {name: np.zeros_like(value) for name, value in params.items()}
    for step, counted in enumerate(made_of):
        own = [model.gradients(params, step, worker) for worker in range(N)]
        for name, value in total(own, counted).items():
            mean = value * np.float32(1 / len(counted))
            speed[name] = speed[name] * np.float32(model.DECAY) + mean
            params[name] = params[name] - speed[name] * np.float32(model.RATE)
    return params


def steps_more(run: kit.Run, more: int = 50) -> None:
    """Wait until the training has made more steps."""
    start = run.step
    until(lambda: run.step >= start + more or run.done, 30)
    assert not run.done


def finish(cluster: ProcessCluster, run: kit.Run, folder: Path) -> list[list[int]]:
    """Stop a training and check what it made; returns whose steps they were."""
    made_of = end(run)
    assert_agreed(folder)
    return made_of


def end(run: kit.Run) -> list[list[int]]:
    """Stop a training and check its parameters; returns whose its steps were."""
    run.stop()
    run.wait(SILENCE_S + 2 * scene.PROMISE_S)
    made_of = ranks(run)
    assert run.state == "done"
    assert run.step == len(made_of) > AT
    assert {len(item) for item in made_of} == {R}
    assert model.same_bits(run.params, replayed(made_of))
    return made_of


def assert_agreed(folder: Path) -> None:
    """All have the same bits after each step that they took; late ones skip some."""
    events = history.read(folder)
    assert [text for text in history.check(events) if not text.startswith("I2")] == []
    for task in {event["task"] for event in events}:
        own = [e["step"] for e in events if (e["task"], e["event"]) == (task, "step")]
        assert own == sorted(set(own))
