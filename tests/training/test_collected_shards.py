"""Writers that do not see the checkpoint's folder send their shards to it."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.checkpoint import Files, Piece, write_shard
from kit.errors import CheckpointFailed, InvalidArgumentError
from kit.testing.cluster import LocalCluster
from kit.training.features.checkpointing import resume
from kit.training.features.checkpointing import writer as checkpoint_writer
from kit.training.features.checkpointing.collected import CollectedFile, SentFile
from tests.training.saved import MOMENTUM, names, resumed_at, train
from tests.training.toy import quick_cluster, replayed, same_bits


@pytest.fixture
def sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no writer see a draft: as on hosts that share no folder."""
    monkeypatch.setattr(checkpoint_writer, "_sees", lambda draft: False)


@pytest.mark.slow
@pytest.mark.usefixtures("sees_nothing")
@pytest.mark.parametrize("topology", ["ps", "mesh"])
def test_training_goes_on_from_shards_that_were_sent(
    cluster: LocalCluster, tmp_path: Path, topology: str
) -> None:
    train(cluster, tmp_path, 5, topology=topology).wait(10)

    assert names(tmp_path) == ["step-5"]
    wanted, result = replayed(5, 2, MOMENTUM), kit.load_checkpoint(tmp_path)
    assert same_bits({name: result[name] for name in wanted}, wanted)
    run = train(cluster, tmp_path, 12, topology="ring").wait(10)
    assert resumed_at(run) == 5
    assert same_bits(run.params, replayed(12, 2, MOMENTUM))


class FullDisk(Files):
    """The coordinator's disk, which has no room."""

    def write(self, descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("sees_nothing")
def test_full_disk_of_the_coordinator_fails_the_save_of_a_writer_far_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resume, "FILES", FullDisk())
    with quick_cluster(1, 2) as cluster, caplog.at_level(logging.CRITICAL):
        run = train(cluster, tmp_path, 4, topology="ps").wait(10)

    assert "ps/task:0: " in run.checkpoints.refused
    assert "No space left" in run.checkpoints.refused
    assert names(tmp_path) == []
    assert same_bits(run.params, replayed(4, 2, MOMENTUM))


@given(sizes=st.lists(st.integers(0, 300_000), min_size=1, max_size=4), data=st.data())
def test_file_that_was_sent_has_the_bytes_of_one_that_was_written(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    pieces = [
        Piece(f"w{i}", "uint8", (size,), 0, np.arange(size).astype(np.uint8))
        for i, size in enumerate(sizes)
    ]
    file = CollectedFile(folder / "sent")

    def send(offset: int, block: Any) -> None:
        for _ in range(data.draw(st.integers(1, 2))):  # an answer may be lost
            file.take(offset, block)

    entry = write_shard(folder / "written", pieces)
    sent = write_shard(folder / "nowhere", pieces, SentFile(send))
    file.close()

    assert (folder / "sent").read_bytes() == (folder / "written").read_bytes()
    assert (sent.sha256, sent.size, sent.pieces) == (
        *(entry.sha256, entry.size, entry.pieces),
    )


def test_block_that_leaves_a_gap_or_comes_too_late_is_refused(tmp_path: Path) -> None:
    file = CollectedFile(tmp_path / "shard")
    file.take(0, b"four")

    with pytest.raises(InvalidArgumentError, match=r"begins at 6, and 4 bytes"):
        file.take(6, b"more")
    file.close()
    with pytest.raises(CheckpointFailed, match="given up"):
        file.take(4, b"more")

    assert (tmp_path / "shard").read_bytes() == b"four"
