"""A training that is saved: what goes on from it, what is passed over or refused."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import time
import weakref
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
from kit.faults.history import check, read
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.client.saves import Saving
from tests.training.saved import MANY, MOMENTUM, Patient, names, resumed_at, train
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)


def test_steps_that_are_done_are_not_done_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 4).wait(10)

    run = train(cluster, tmp_path, 4).wait(10)

    assert (run.step, run.metrics) == (4, [])
    assert same_bits(run.params, replayed(4, 2, MOMENTUM))
    assert names(tmp_path) == ["step-4"]


@pytest.mark.slow
def test_a_checkpoint_is_written_after_every_so_many_steps(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    step = Patient(cluster, 2, {3, 6})

    train(cluster, tmp_path, 9, every=3, step=step).wait(10)

    assert names(tmp_path) == ["step-3", "step-6", "step-9"]
    for number in (3, 6, 9):
        result = kit.load_checkpoint(tmp_path / f"step-{number}")
        assert same_bits(dict(result), sorted_as(result, replayed(number, 2, MOMENTUM)))


def sorted_as(wanted: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in wanted}


def test_only_the_newest_checkpoints_are_kept(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    step = Patient(cluster, 2, set(range(1, 6)))
    kept = kit.Checkpoints(str(tmp_path), every_steps=1, keep=2)

    train(cluster, tmp_path, 6, step=step, checkpoint=kept).wait(10)

    assert names(tmp_path) == ["step-5", "step-6"]


def test_saves_on_request_and_at_a_stop_are_the_state_between_two_steps(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    run = train(cluster, tmp_path, MANY, optimizer=kit.GradientDescent())
    run.advance(7)

    saved = run.save().wait(10)
    run.stop()
    run.wait(10)

    assert saved.n_bytes > 0
    for path, step in ((Path(saved.path), saved.step), (tmp_path, run.step)):
        values = kit.load_checkpoint(path)
        assert values.step == step
        expected = replayed(step, 2, kit.GradientDescent())
        assert same_bits(dict(values), sorted_as(values, expected))


def test_a_cancelled_wait_for_a_checkpoint_leaves_no_thread_behind() -> None:
    is_over = threading.Event()  # nobody ever answers

    async def main() -> list[threading.Thread]:
        before = threading.enumerate()
        saving = Saving(lambda _: None, dict, is_over.is_set)
        waiting = asyncio.ensure_future(awaited(saving))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(saving, 0.01)
            return [item for item in threading.enumerate() if item not in before]
        finally:
            is_over.set()

    assert asyncio.run(main()) == []


def test_a_paused_training_is_saved_without_a_step(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    run = train(cluster, tmp_path, MANY)
    run.pause()
    first = run.save().wait(10)

    second = asyncio.run(awaited(run.save()))

    assert first.step == second.step == run.step
    assert (first.path, second.path) != ("", "")
    run.stop()
    run.wait(10)
    assert run.step == first.step


async def awaited(saving: Any) -> Any:
    return await saving


def test_a_request_without_a_folder_is_refused(cluster: LocalCluster) -> None:
    run = kit.train(fit, initial(), DATA, steps=MANY, batch=BATCH, cluster=cluster)

    with pytest.raises(FailedPreconditionError, match="checkpoint=folder"):
        run.save()

    run.stop()
    run.wait(10)


def test_a_checkpoint_of_no_step_holds_the_initial_values_and_may_begin_a_training(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path, 0).wait(10)

    result = kit.load_checkpoint(tmp_path)

    assert result.step == 0
    assert same_bits(dict(result), sorted_as(result, initial()))
    assert set(result.slots) == {"momentum"}
    assert not any(value.any() for value in result.slots["momentum"].values())
    again = kit.train(fit, result, DATA, steps=0, batch=BATCH, cluster=cluster).wait(10)
    assert same_bits(again.params, dict(result))


def count(params: Params, batch: Any) -> Any:
    """Let every value of every parameter be the number of steps, if it begins at 0."""
    return 0.0, {name: np.full_like(value, -1) for name, value in params.items()}


def slowly(params: Params, batch: Any) -> Any:
    time.sleep(0.01)  # else all that goes on is saving
    return count(params, batch)


def begin_to_count(cluster: LocalCluster, step: Any = count, **how: Any) -> kit.Run:
    start = {"a": np.zeros(5, np.float32), "b": np.zeros((2, 3), np.float64)}
    how |= {"optimizer": kit.GradientDescent(1.0), "batch": BATCH, "cluster": cluster}
    return kit.train(step, start, DATA, steps=MANY, **how)


@pytest.mark.slow
def test_asynchronous_checkpoint_is_the_same_moment_on_all_servers(
    tmp_path: Path,
) -> None:
    """Every update adds one to every value, so one that is half in would be seen."""
    with quick_cluster(2, 3) as cluster:
        run = begin_to_count(cluster, sync=False, checkpoint=tmp_path)
        saved = [run.save().wait(10) for _ in range(3)]
        run.stop()
        run.wait(10)

    for item in saved:
        for value in kit.load_checkpoint(item.path).values():
            assert (value == item.step).all()


@pytest.mark.slow
def test_what_is_read_while_it_is_written_is_one_moment_and_never_damaged(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    often = kit.Checkpoints(str(tmp_path), every_steps=1, keep=2)
    run = begin_to_count(cluster, slowly, checkpoint=often)
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


@pytest.mark.slow
def test_history_of_a_resumed_training_begins_at_its_checkpoint(tmp_path: Path) -> None:
    with quick_cluster(history=str(tmp_path / "first")) as cluster:
        train(cluster, tmp_path / "saved", 3).wait(10)
    with quick_cluster(history=str(tmp_path / "second")) as cluster:
        train(cluster, tmp_path / "saved", 6, topology="ring").wait(10)

    events = read(tmp_path / "second")

    assert check(events) == []
    steps = [event["step"] for event in events if event["event"] == "step"]
    assert min(steps) == 3


def test_memory_of_a_saved_training_is_free_when_the_next_one_begins(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    train(cluster, tmp_path / "first", 3).wait(20)
    members = [server.trainings.member for server in cluster.servers]
    contexts = [weakref.ref(member.context) for member in members if member is not None]
    assert len(contexts) == len(cluster.servers)
    assert all(context() is not None for context in contexts)

    gc.disable()  # a cycle would keep the buffers until the next collection
    try:
        train(cluster, tmp_path / "second", 3).wait(20)
        left = [context() for context in contexts]
    finally:
        gc.enable()

    assert left == [None] * len(contexts)


# -- refused or passed over ------------------------------------------------------------


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
