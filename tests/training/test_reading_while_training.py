"""A folder that a training saves into may be read at any time, whole or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.errors import ClusterBusy, FailedPreconditionError, KitError
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from tests.training.saved import MANY, train
from tests.training.toy import DATA, Params, quick_cluster


def count(params: Params, batch: object) -> object:
    """Let every value of every parameter be the number of steps, if it begins at 0."""
    time.sleep(0.01)  # else all that goes on is saving
    return 0.0, {name: np.full_like(value, -1) for name, value in params.items()}


@pytest.mark.slow
def test_what_is_read_while_it_is_written_is_one_moment_and_never_damaged(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    run = kit.train(
        count,
        {"a": np.zeros(5, np.float32), "b": np.zeros((2, 3), np.float64)},
        DATA,
        optimizer=kit.GradientDescent(1.0),
        steps=MANY,
        batch=10,
        cluster=cluster,
        checkpoint=kit.Checkpoints(str(tmp_path), every_steps=1, keep=2),
    )
    until(lambda: run.checkpoints.last is not None, 30)

    steps: list[int] = []
    while len(set(steps)) < 8:
        result = kit.load_checkpoint(tmp_path)
        steps.append(result.step)
        assert result.passed_over == ()
        assert all((value == result.step).all() for value in result.values())

    run.stop()
    run.wait(30)
    assert steps == sorted(steps)
    assert kit.load_checkpoint(tmp_path).step == run.step


def test_restoring_what_is_being_trained_is_refused_and_harms_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    run = train(cluster, tmp_path, MANY)
    until(lambda: run.step > 0, 30)

    with pytest.raises(ClusterBusy):
        train(cluster, tmp_path, MANY, restore="step-0")
    with quick_cluster(0, 1) as other, pytest.raises(FailedPreconditionError):
        train(other, tmp_path, MANY, topology="ring")

    run.stop()
    run.wait(30)
    assert kit.load_checkpoint(tmp_path).step == run.step


@pytest.mark.parametrize("folder", ["file/below", "/proc/psring"])
def test_folder_that_cannot_be_written_is_refused_before_the_first_step(
    cluster: LocalCluster, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "file").write_text("mine")

    with pytest.raises(KitError, match="cannot be used for checkpoints"):
        train(cluster, tmp_path / folder, 1)

    assert (tmp_path / "file").read_text() == "mine"
    assert train(cluster, tmp_path / "good", 1).wait(30).step == 1
