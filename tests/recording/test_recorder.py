"""The recorder while the training runs: begun late, interrupted, out of room."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.checkpoint import Files
from kit.errors import AbortedError, FailedPreconditionError
from kit.recording import recorder
from kit.recording.folder import RecordingFolder
from kit.testing.processes import process_cluster
from kit.training.client.observer import Observer
from kit.training.optimizers.rule import MeanUpdate
from tests.elastic.scene import LEADER, kill, slowly
from tests.elastic.scene import train as train_elastic
from tests.recording.toy_training import assert_replayed, begin, train
from tests.training.toy import BATCH, DATA, fit, quick_cluster, replayed, same_bits


class FullDisk(Files):
    """A disk that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.refused = threading.Event()

    def write(self, descriptor: int, data: Any) -> int:
        if len(data) > self.room:
            self.refused.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return super().write(descriptor, data)


@pytest.mark.parametrize("room", [5_000, 60_000])
def test_full_disk_ends_the_recording_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    disk = FullDisk(room)
    monkeypatch.setattr(
        recorder, "RecordingFolder", lambda options, _: RecordingFolder(options, disk)
    )
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, tmp_path / "run", optimizer=kit.Adam(0.01), steps=200)
        with pytest.warns(UserWarning, match="No space left on device") as said:
            run.wait(30)

    loaded = kit.load_run(tmp_path / "run")
    assert disk.refused.is_set()
    assert len(said) == 1
    assert same_bits(run.params, replayed(200, 2, kit.Adam(0.01)))
    assert run.recording is not None
    assert "training went on" in run.recording.error
    assert loaded.state == "failed"
    whole = [metric for metric in loaded.metrics if metric["examples"] == BATCH]
    assert whole == run.metrics[: len(whole)]


def test_recording_may_begin_late_but_not_twice_and_too_late_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, optimizer=kit.Adam(0.01), steps=120)
        run.advance(50)
        # As in its last moments: all tasks have ended, and the run is not over yet.
        monkeypatch.setattr(Observer, "at_end", lambda *_: False)
        for _ in range(2):
            with pytest.raises(FailedPreconditionError, match="training is over"):
                run.record(tmp_path / "run")
        monkeypatch.undo()
        assert run.recording is None
        assert not (tmp_path / "run").exists()

        run.record(tmp_path / "run")
        with pytest.raises(FailedPreconditionError, match="already recorded"):
            run.record(tmp_path / "again")
        run.resume()
        run.wait(30)
        with pytest.raises(FailedPreconditionError, match="already"):
            run.record(tmp_path / "later")

    assert assert_replayed(tmp_path / "run", run).step == 120
    assert kit.load_run(tmp_path / "run").metrics == run.metrics


def test_training_that_is_over_before_its_recorder_begins_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = kit.Run.began

    def late(run: kit.Run, *with_what: Any) -> None:
        run.wait(30)
        began(run, *with_what)

    monkeypatch.setattr(kit.Run, "began", late)
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, tmp_path / "run", optimizer=kit.Adam(0.01), steps=30)

    assert_replayed(tmp_path / "run", run)
    assert run.step == 30
    assert kit.load_run(tmp_path / "run").metrics == run.metrics


def test_training_that_resumes_is_replayed_from_its_checkpoint(tmp_path: Path) -> None:
    how = {"optimizer": kit.Adam(0.01), "checkpoint": tmp_path / "saved"}
    for name, steps in (("one", 20), ("two", 50)):
        with quick_cluster(1, 2) as cluster:
            run = train(cluster, tmp_path / name, steps=steps, **how)

    result = assert_replayed(tmp_path / "two", run)
    assert min(result.content.states) == 20
    assert same_bits(result.params, replayed(50, 2, kit.Adam(0.01)))


def test_damage_in_the_memory_of_a_training_shows_in_its_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flips = MeanUpdate.__call__, False

    def update(self: MeanUpdate, now: Any, total: Any, *rest: Any) -> None:
        if flips and rest[-1] == 30 and total.dtype == np.float32:
            total.view(np.uint32)[0] ^= np.uint32(1 << 20)
        real(self, now, total, *rest)

    monkeypatch.setattr(MeanUpdate, "__call__", update)
    with quick_cluster(1, 2) as cluster:
        for name in ("good", "bad"):
            flips = name == "bad"
            wanted = kit.Recording(tmp_path / name, digest_every=1)
            train(cluster, wanted, optimizer=kit.Adam(0.01), steps=60)
    flips = False

    result = kit.diff(tmp_path / "good", tmp_path / "bad", step=fit, data=DATA)
    assert (result.step, result.task, result.what) == (30, "ps:0", "parameters")
    assert result.facts == ()
    kit.replay(tmp_path / "good", step=fit, data=DATA)
    with pytest.raises(AbortedError, match="after 31 steps") as caught:
        kit.replay(tmp_path / "bad", step=fit, data=DATA)
    assert caught.value.step == 31


@pytest.mark.slow
def test_killed_program_leaves_a_recording_that_can_be_replayed(tmp_path: Path) -> None:
    folder, pause = tmp_path / "run", threading.Event()
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.recording.killed", str(folder)],
        cwd=Path(__file__).parents[2],
    )
    try:
        while len([*folder.glob("state-*")]) < 2:
            assert program.poll() is None
            pause.wait(0.05)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait(10)

    loaded = kit.load_run(folder)
    result = kit.replay(loaded, 20, step=fit)
    assert loaded.state == "failed"
    assert loaded.step > 20
    assert result.n_losses > 0
    assert result.mismatch is None


@pytest.mark.slow
def test_elastic_training_that_loses_its_leader_is_recorded_whole_and_replayed(
    tmp_path: Path,
) -> None:
    wanted = kit.Recording(tmp_path / "run", state_every_s=0.1, digest_every=5)
    with process_cluster(ps=0, worker=3) as cluster:
        run = train_elastic(cluster, victim=LEADER, steps=150, record=wanted)
        run.topology = "mesh"
        kill(cluster, run, LEADER, 40)
        run.wait(30)

    loaded = kit.load_run(wanted.path)
    result = assert_replayed(wanted.path, run, slowly)
    assert loaded.losses == run.losses
    assert [loss.lost for loss in loaded.losses] == [("worker:0",)]
    assert loaded.metrics == run.metrics
    assert result.n_losses == 3 * run.step
