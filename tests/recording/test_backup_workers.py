"""Recordings of trainings in which a step is made of the first R of N gradients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import AbortedError, FailedPreconditionError
from kit.recording.content import read_content
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from tests.elastic.scene import kill, slowly
from tests.recording.toy_training import begin, train
from tests.training.backups import ranks, replayed
from tests.training.toy import DATA, fit, quick_cluster, same_bits

pytestmark = pytest.mark.slow


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as cluster:
        yield cluster


def counting(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    """Do what `fit` does, with a gradient that tells how often a worker computed.

    Each is late now and then, and in time again afterwards, on a busy machine too.
    """
    state["n"] = state.get("n", 0) + 1
    if state["n"] % 10 == 0:
        time.sleep(0.02)
    loss, result = fit(params, batch)
    result["w"] = result["w"] * np.float32(1 + state["n"] / 1000)
    return loss, result


def recorded(
    cluster: LocalCluster, folder: Path, step: Any = fit, **changes: Any
) -> kit.Run:
    how: dict[str, Any] = {"steps": 150, "aggregate": 2, "step": step} | changes
    return train(cluster, folder, optimizer=kit.Momentum(0.002), **how)


def test_replay_makes_each_step_of_the_gradients_that_counted(
    three: LocalCluster, tmp_path: Path
) -> None:
    run = recorded(three, tmp_path / "run")

    result = kit.replay(tmp_path / "run", step=fit, data=DATA)

    assert result.n_losses == 2 * 150
    assert sum(record["dropped"] for record in run.metrics) > 0
    assert same_bits(result.params, run.params)
    assert same_bits(result.params, replayed(ranks(run), 3, kit.Momentum(0.002)))
    with pytest.raises(FailedPreconditionError, match="first 2 gradients"):
        result.at(3, 1)


def test_what_a_late_gradient_left_in_the_state_is_computed_again(
    three: LocalCluster, tmp_path: Path
) -> None:
    run = recorded(three, tmp_path / "run", counting)
    assert sum(record["dropped"] for record in run.metrics) > 0

    loaded = kit.load_run(tmp_path / "run")
    result = kit.replay(loaded, step=counting, data=DATA)
    late = result.content.tables["LATE"]

    pushed = result.content.tables["PUSH"]
    assert any(
        (pushed["step"][pushed["worker"] == row["worker"]] > row["step"]).any()
        for row in late
    ), "no worker was late and counted in a later step"
    assert same_bits(result.params, run.params)
    result.content.tables["LATE"] = late[:0]  # as if those had computed nothing
    with pytest.raises(AbortedError, match="the replay of"):
        kit.replay(loaded, step=counting, data=DATA)


def steadily(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    """Do what `fit` does, and keep something, at a pace that a recorder can follow."""
    state["n"] = state.get("n", 0) + 1
    return slowly(params, batch)


def test_states_are_kept_on_though_a_worker_with_a_state_is_lost(
    tmp_path: Path,
) -> None:
    wanted = kit.Recording(tmp_path / "run", state_every_s=0.02)
    lost = Task("worker", 2)
    with process_cluster(ps=1, worker=3) as cluster:
        how: dict[str, Any] = {"step": steadily, "steps": 10**6, "aggregate": 2}
        run = begin(cluster, wanted, **how)  # type: ignore[arg-type]
        kill(cluster, run, lost, 20)
        until(lambda: run.lost)
        after = run.step
        until(lambda: max(states_in(wanted.path), default=0) > after, 60)
        run.stop()
        run.wait(30)
        assert run.params

    replay: dict[str, Any] = {"step": steadily, "data": DATA}
    later = kit.replay(wanted.path, run.step, **replay)
    assert same_bits(later.params, run.params)
    assert same_bits(kit.replay(wanted.path, **replay).params, run.params)


def states_in(folder: Path) -> list[int]:
    return [int(file.stem.split("-")[1]) for file in folder.glob("state-*")]


def test_difference_is_whose_gradients_a_step_was_made_of_in_the_first_step_too(
    three: LocalCluster, tmp_path: Path
) -> None:
    recorded(three, tmp_path / "run", steps=9)
    for step in (4, 0):
        pair: list[Any] = [read_content(tmp_path / "run") for _ in range(2)]
        first, other = pair
        rows = first.tables["PUSH"].copy()
        at = rows["step"] == step
        (late,) = {*first.job.workers} - {*rows["worker"][at].tolist()}
        rows["worker"][at & (rows["worker"] == rows["worker"][at][0])] = late
        other.tables["PUSH"] = rows

        result = kit.diff(first, other)

        assert (result.step, result.what) == (step, "contributors")
        assert "was made of worker:" in str(result)


def test_step_whose_gradients_are_not_recorded_is_refused(
    three: LocalCluster, tmp_path: Path
) -> None:
    recorded(three, tmp_path / "run", steps=20)
    loaded = kit.load_run(tmp_path / "run")
    content = kit.replay(loaded, step=fit, data=DATA).content
    rows = content.tables["PUSH"]
    content.tables["PUSH"] = rows[rows["step"] != 7]

    with pytest.raises(FailedPreconditionError, match="step 7 was made of 2"):
        kit.replay(loaded, step=fit, data=DATA)
