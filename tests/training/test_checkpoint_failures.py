"""What goes wrong while a training is saved costs that checkpoint, and nothing else."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.checkpoint import Files, write_shard
from kit.errors import CheckpointFailed, DataLossError, FailedPreconditionError
from kit.exchange.layout import Range
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.core.context import MemberContext
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.member import Member
from kit.training.core.questions import HeartbeatReply
from kit.training.features.checkpointing import writer as checkpoint_writer
from kit.training.features.checkpointing.resume import FolderLock
from tests.training.saved import MANY, MOMENTUM, Patient, is_saved, names, train
from tests.training.toy import Params, fit, quick_cluster, replayed, same_bits

Write = Callable[[Path, Any], Any]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, Write]:
    """Give a table of writers by task, in the place of the one that writes shards."""
    table: dict[str, Write] = {}

    def write(path: Path, pieces: Any, files: Files) -> Any:
        if writer := table.get(path.stem):
            return writer(path, pieces)
        return write_shard(path, pieces, files)

    monkeypatch.setattr(checkpoint_writer, "write_shard", write)
    return table


def full(path: Path, pieces: Any) -> Any:
    path.write_bytes(b"half of it")
    raise CheckpointFailed(f"{path} could not be written: No space left on device.")


def lost(path: Path, pieces: Any) -> Any:
    entry = write_shard(path, pieces)
    path.unlink()
    return entry


def broken(path: Path, pieces: Any) -> Any:
    raise MemoryError


@pytest.mark.parametrize(
    ("writer", "said"),
    [
        (full, "worker/task:1: .*No space left"),
        (broken, "worker/task:1: MemoryError"),
        (lost, "worker/task:1 wrote .*worker/task:0 does not see it: .*removes files"),
    ],
)
@pytest.mark.parametrize("topology", ["ring", "mesh"])
def test_a_save_that_fails_leaves_the_training_and_the_last_one_as_they_are(
    tmp_path: Path,
    disk: dict[str, Write],
    caplog: pytest.LogCaptureFixture,
    writer: Write,
    said: str,
    topology: str,
) -> None:
    with quick_cluster(0, 2) as cluster, caplog.at_level(logging.CRITICAL):
        train(cluster, tmp_path, 2, topology=topology).wait(10)
        disk["worker-1"] = writer

        run = train(cluster, tmp_path, 6, topology=topology).wait(10)

    assert run.checkpoints.n_failed == 1
    assert re.search(said, run.checkpoints.refused)
    assert "step 6 was not saved" in repr(run)
    (row,) = run.trace.saves
    assert (row.step, row.error) == (6, run.checkpoints.refused)
    assert run.trace.bounds()[0] < row.begin <= row.end
    assert names(tmp_path) == ["step-2"]
    assert same_bits(run.params, replayed(6, 2, MOMENTUM))


def test_a_failed_save_is_told_to_the_one_who_asked_and_the_next_may_succeed(
    cluster: LocalCluster, tmp_path: Path, disk: dict[str, Write]
) -> None:
    disk["ps-0"] = full
    run = train(cluster, tmp_path, MANY)
    run.pause()

    with pytest.raises(CheckpointFailed, match=r"was not saved: /job:ps/task:0.*space"):
        run.save().wait(10)
    assert run.checkpoints.refused
    disk.clear()
    saved = run.save().wait(10)

    assert names(tmp_path) == [Path(saved.path).name]
    assert run.checkpoints.refused == ""
    assert [bool(row.error) for row in run.trace.saves] == [True, False]
    run.stop()
    run.wait(10)


@pytest.mark.slow
def test_steps_go_on_while_a_checkpoint_is_written_and_no_other_one_begins(
    cluster: LocalCluster, tmp_path: Path, disk: dict[str, Write]
) -> None:
    may_write, active = threading.Event(), []

    def slow(path: Path, pieces: Any) -> Any:
        active.append(path)
        assert may_write.wait(10)
        return write_shard(path, pieces)

    disk["ps-0"] = slow
    run = train(cluster, tmp_path, MANY, every=3)
    until(lambda: run.step > 30 and bool(active), 10)

    assert len(active) == 1
    run.look()
    assert (run.checkpoints.saving, run.checkpoints.n_saved) == (3, 0)
    assert "step 3 was still being written" in run.checkpoints.refused
    may_write.set()
    run.stop()
    run.wait(10)
    assert (tmp_path / "step-3").is_dir()
    assert kit.load_checkpoint(tmp_path).step == run.step


@pytest.mark.slow
def test_a_writer_that_hangs_is_given_up_and_named(
    tmp_path: Path, disk: dict[str, Write]
) -> None:
    may_write = threading.Event()

    def hang(path: Path, pieces: Any) -> Any:
        assert may_write.wait(10)
        raise CheckpointFailed("too late")

    disk["ps-0"] = hang
    with quick_cluster(save_deadline_s=0.05) as cluster:
        run = train(cluster, tmp_path, 4)
        until(lambda: run.done, 10)
        assert "ps/task:0 did not write within 0.05 s" in run.checkpoints.refused
        assert run.state == "done"
        may_write.set()


def tell_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a heart that beats say nothing of digests, as one does that was too slow."""
    tell = Member._tell

    def reply(member: Member) -> HeartbeatReply:
        is_heart = threading.current_thread().name.startswith("kit-heart")
        return member._talk().beat() if is_heart else tell(member)

    monkeypatch.setattr(Member, "_tell", reply)


@pytest.mark.parametrize("are_told", ["at once", "by nobody"])
def test_failed_step_ends_the_training_but_not_the_save_before_it(
    cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    are_told: str,
) -> None:
    monkeypatch.setattr(checkpoint_writer, "LAST_WORDS_S", 30.0)
    if are_told != "at once":
        tell_later(monkeypatch)
    step = Patient(cluster, 2, set())
    number = iter(range(1000))

    def stumble(params: Any, batch: Any) -> Any:
        if next(number) >= 8:
            raise ValueError("no")
        return step(params, batch)

    run = train(cluster, tmp_path, MANY, every=3, step=stumble)
    with pytest.raises(kit.errors.StepFailed):
        run.wait(10)

    assert names(tmp_path) == ["step-3"]


def test_a_shard_is_handed_in_by_a_writer_that_had_not_dialled_before_the_failure(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_writer, "LAST_WORDS_S", 30.0)
    beside = checkpoint_writer.CheckpointWriter.beside

    def all_failed() -> bool:
        members = [server.trainings.member for server in cluster.servers]
        return all(member is not None and member.error for member in members)

    def afterwards(writer: Any, do: Callable[..., None], *values: Any) -> None:
        beside(writer, until, all_failed, 10)
        beside(writer, do, *values)

    monkeypatch.setattr(checkpoint_writer.CheckpointWriter, "beside", afterwards)
    number = iter(range(1000))

    def stumble(params: Any, batch: Any) -> Any:
        if next(number) >= 8:
            raise ValueError("no")
        return fit(params, batch)

    run = train(cluster, tmp_path, MANY, every=3, step=stumble)
    with pytest.raises(kit.errors.StepFailed, match="ValueError: no"):
        run.wait(20)

    assert names(tmp_path) == ["step-3"]


def test_drafts_of_the_dead_are_removed_by_the_next_training(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "step-9.tmp-0badcafe").mkdir()
    (tmp_path / "step-9.tmp-0badcafe" / "worker-0.safetensors").write_bytes(b"half")

    train(cluster, tmp_path, 1).wait(10)

    assert names(tmp_path) == ["step-1"]


def test_a_claim_tells_what_the_one_before_had_reached(tmp_path: Path) -> None:
    first = FolderLock(tmp_path, "ab" * 16, "/job:worker/task:0")
    first.reached(41)
    first.close()

    second = FolderLock(tmp_path, "cd" * 16, "/job:worker/task:0")

    assert (first.left_at, second.left_at) == (0, 41)
    second.close()
    second.close()


def test_folder_is_free_although_a_fork_still_has_it_open(tmp_path: Path) -> None:
    first = FolderLock(tmp_path, "ab" * 16, "/job:worker/task:0")
    opened = {int(entry.name): entry.path for entry in os.scandir("/proc/self/fd")}
    mine = [n for n, path in opened.items() if is_within(path, tmp_path)]
    inherited = [os.dup(number) for number in mine]  # one lock, as after a fork
    try:
        with pytest.raises(FailedPreconditionError, match="another training"):
            FolderLock(tmp_path, "cd" * 16, "/job:worker/task:0")

        first.close()

        FolderLock(tmp_path, "cd" * 16, "/job:worker/task:0").close()
    finally:
        assert inherited
        for number in inherited:
            os.close(number)


def is_within(path: str, folder: Path) -> bool:
    """Whether a descriptor of this process is of a file in a folder."""
    return Path(path).resolve().is_relative_to(folder.resolve())


@pytest.mark.slow
def test_asynchronous_training_is_saved_after_every_so_many_updates(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    adam = kit.Adam(0.001)
    run = train(cluster, tmp_path, MANY, every=5, sync=False, optimizer=adam)
    until(lambda: n_saved(run) >= 3, 20)
    run.stop()
    run.wait(10)

    result = [int(name.removeprefix("step-")) for name in names(tmp_path)]

    assert result == sorted(set(result), key=result.index)
    assert max(result) == run.step


def n_saved(run: kit.Run) -> int:
    run.look()
    return run.checkpoints.n_saved


def test_training_is_saved_by_the_clock(cluster: LocalCluster, tmp_path: Path) -> None:
    often = kit.Checkpoints(str(tmp_path), every_s=0.001)

    run = train(cluster, tmp_path, MANY, checkpoint=often)
    until(lambda: is_saved(cluster, 1), 10)
    run.stop()
    run.wait(10)

    assert run.checkpoints.n_saved >= 2
    assert kit.load_checkpoint(tmp_path).step == run.step


def test_a_later_generation_takes_the_folder_from_one_that_is_stopped(
    tmp_path: Path,
) -> None:
    first = FolderLock(tmp_path, "ab" * 16, "/job:worker/task:0")
    first.reached(41)

    second = FolderLock(tmp_path, "ab" * 16, "/job:worker/task:1")

    assert second.left_at == 41
    first.close()
    with pytest.raises(FailedPreconditionError, match="another training, run abab"):
        FolderLock(tmp_path, "cd" * 16, "/job:worker/task:0")
    second.close()


@pytest.mark.slow
def test_stopped_training_is_saved_though_news_of_the_save_before_came_late(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, was_late = TrainingCoordinator._saved, list[int]()

    def late(coordinator: TrainingCoordinator, step: int, good: bool) -> None:
        """Keep the news of the second save back until the third has begun."""
        if coordinator.save_coordinator.status()["n_saved"] == 2 and not was_late:
            until(
                lambda: coordinator.save_coordinator.status()["saving"] is not None, 10
            )
            was_late.append(step)
            run.stop()
        hear(coordinator, step, good)

    monkeypatch.setattr(TrainingCoordinator, "_saved", late)
    run = train(cluster, tmp_path, MANY, every=1)
    run.wait(30)

    assert was_late
    assert kit.load_checkpoint(tmp_path).step == run.step


# -- one bit that flips in memory ------------------------------------------------------

BEFORE = 7  # the step whose parameters are damaged while it is computed


def context_of(cluster: LocalCluster, task: str) -> MemberContext:
    """Return a member's context in the training under way."""
    for server in cluster.servers:
        member = server.trainings.member
        if (
            server.task.short == task
            and member is not None
            and member.context is not None
        ):
            return member.context
    raise AssertionError(f"{task} takes no part")


class Flip:
    """A step that flips one bit of a member's parameters while step `BEFORE` is done.

    The first worker to come there does it, when all members have come there too: none
    of them is ready before this worker is, so the parameters are in use everywhere.
    """

    def __init__(self, cluster: LocalCluster, task: str) -> None:
        self._cluster, self._task = cluster, task
        self._guard = threading.Lock()
        self.is_done = False

    def __call__(self, params: Params, batch: Any) -> Any:
        own = context_of(
            self._cluster, threading.current_thread().name[-len("worker:0") :]
        )
        with self._guard:
            if own.step == BEFORE and not self.is_done:
                until(self._all_are_there, 10)
                self._flip(context_of(self._cluster, self._task))
        return fit(params, batch)

    def _all_are_there(self) -> bool:
        contexts = [
            context_of(self._cluster, server.task.short)
            for server in self._cluster.servers
        ]
        return all(
            context.step == BEFORE for context in contexts if context.digests._shares
        )

    def _flip(self, context: MemberContext) -> None:
        shares = context.digests._shares
        ranges = shares[min(shares)]  # of a server its own, of a worker the first one's
        position = next(item.lo for item in ranges if item.size)
        context.memory.raw(context.now, Range(position, position + 1))[0] ^= 1
        self.is_done = True


ROLES = {
    "ps": ["ps:0", "ps:1", "worker:0", "worker:2"],
    "ring": ["worker:0", "worker:2"],
    "mesh": ["worker:0", "worker:2"],
    "ring-whole": ["worker:0", "worker:2"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "task"),
    [(topology, task) for topology, tasks in ROLES.items() for task in tasks],
)
def test_bit_that_flips_in_memory_ends_the_training_before_a_save(
    tmp_path: Path, topology: str, task: str
) -> None:
    with quick_cluster(2, 3) as cluster:
        flip = Flip(cluster, task)
        run = train(cluster, tmp_path, MANY, step=flip, topology=topology, every=1)
        with pytest.raises(DataLossError) as caught:
            run.wait(20)

    assert flip.is_done
    assert caught.value.task == f"/job:{task.replace(':', '/task:')}"
    assert caught.value.step == BEFORE
    # They were saved when the step began, and differ since.
    assert re.search("All were the same before step [67][.]", caught.value.message)
    committed = [name for name in names(tmp_path) if ".tmp-" not in name]
    assert all(int(name.removeprefix("step-")) <= BEFORE for name in committed)
