"""Checkpoints that cannot be: what is refused at once, and what is passed over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import (
    CheckpointFailed,
    ClusterBusy,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
)
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from tests.training.saved import MANY, MOMENTUM, names, resumed_at, train
from tests.training.toy import (
    BATCH,
    DATA,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)


def damage(folder: Path) -> None:
    """Change one bit in the last byte of a checkpoint's shard."""
    (shard,) = folder.glob("*.safetensors")
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)


@pytest.mark.slow
def test_damaged_newest_is_passed_over_with_a_warning(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 3).wait(10)
    train(cluster, tmp_path, 5).wait(10)
    damage(tmp_path / "step-5")

    with pytest.warns(UserWarning, match=r"step 3.*step-5 is damaged.*passed over"):
        run = train(cluster, tmp_path, 7)
    run.wait(10)

    assert run.resumed_from is not None
    assert (run.resumed_from.step, run.resumed_from.lost_steps) == (3, 2)
    assert "passed over" in repr(run)
    assert same_bits(run.params, replayed(7, 2, MOMENTUM))


def test_training_never_begins_at_step_0_when_all_are_damaged(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 3).wait(10)
    damage(tmp_path / "step-3")

    with pytest.raises(CheckpointFailed, match="all 1 checkpoints"):
        train(cluster, tmp_path, 5)

    assert names(tmp_path) == ["step-3"]


def test_checkpoint_of_another_model_names_what_differs(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"batch": BATCH, "cluster": cluster, "steps": 1}
    options["checkpoint"] = tmp_path
    kit.train(fit, initial(), DATA, **options).wait(10)
    other = initial() | {"w": np.zeros(4, np.float32), "extra": np.zeros(2)}
    other.pop("scale")

    with pytest.raises(InvalidArgumentError, match="another model") as caught:
        kit.train(fit, other, DATA, **options)

    for result in ("'w' is float32[3] there and float32[4] here", "'extra'", "'scale'"):
        assert result in caught.value.message


def test_checkpoint_of_another_optimizer_names_its_slots(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 1).wait(10)

    with pytest.raises(InvalidArgumentError, match=r"'w/m' .* is not in the checkp"):
        train(cluster, tmp_path, 2, optimizer=kit.Adam())


def test_slot_with_the_name_of_a_parameter_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    params = {"w": np.zeros(2, np.float32), "w/momentum": np.zeros(2, np.float32)}

    with pytest.raises(InvalidArgumentError, match="rename the parameter"):
        kit.train(
            fit, params, DATA, batch=BATCH, cluster=cluster, checkpoint=tmp_path,
            optimizer=MOMENTUM,
        )  # fmt: skip


@pytest.mark.slow
def test_beginning_afresh_gives_up_the_checkpoints_of_the_folder(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 6).wait(10)

    run = train(cluster, tmp_path, 4, restore=False).wait(10)

    assert run.resumed_from is None
    assert run.step == 4
    assert names(tmp_path) == ["step-4"]


@pytest.mark.slow
def test_going_back_gives_up_what_came_after(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    for steps in (2, 4, 6):
        train(cluster, tmp_path, steps).wait(10)

    run = train(cluster, tmp_path, 5, restore="step-2")
    run.wait(10)

    assert resumed_at(run) == 2
    assert names(tmp_path) == ["step-2", "step-5"]
    assert same_bits(run.params, replayed(5, 2, MOMENTUM))


@pytest.mark.slow
def test_later_checkpoints_stay_if_going_back_saves_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    for steps in (2, 4):
        train(cluster, tmp_path, steps).wait(10)

    train(cluster, tmp_path, 2, restore=2).wait(10)

    assert names(tmp_path) == ["step-2", "step-4"]


def test_checkpoint_that_is_not_there_is_refused_with_those_that_are(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 2).wait(10)

    with pytest.raises(NotFoundError, match=r"step 7; it has 2\."):
        train(cluster, tmp_path, 8, restore="step-7")
    with pytest.raises(NotFoundError):
        kit.load_checkpoint(tmp_path / "step-7")


def test_folder_of_a_running_training_is_refused_and_named(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    run = train(cluster, tmp_path, MANY)
    owner = re.escape(f"run {run.job.run[:8]} of /job:worker/task:0")

    with quick_cluster(0, 1) as other:
        with pytest.raises(FailedPreconditionError, match=owner):
            train(other, tmp_path, 5, topology="ring")
        run.stop()
        run.wait(10)
        second = train(other, tmp_path, run.step + 3, topology="ring").wait(10)

    assert second.step == run.step + 3


def test_restoring_what_is_being_trained_is_refused_and_harms_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    run = train(cluster, tmp_path, MANY)
    until(lambda: run.step > 0, 30)

    with pytest.raises(ClusterBusy):
        train(cluster, tmp_path, MANY, restore="step-0")

    run.stop()
    run.wait(30)
    assert kit.load_checkpoint(tmp_path).step == run.step


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/psring"])
def test_folder_that_cannot_be_written_is_refused_before_the_first_step(
    cluster: LocalCluster, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "file").write_text("mine")

    with pytest.raises(KitError, match="cannot be used for checkpoints"):
        train(cluster, tmp_path / folder, 1)

    assert (tmp_path / "file").read_text() == "mine"
    assert train(cluster, tmp_path / "good", 1).wait(30).step == 1
