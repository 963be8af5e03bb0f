"""Checkpoints: the coordinator's book, a member's writer, and shards that are sent."""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.checkpoint import Files, Folder, Piece, write_shard
from kit.errors import CheckpointFailed, InvalidArgumentError
from kit.exchange.layout import Range, Spec
from kit.exchange.plan import NOW, Owned
from kit.exchange.ports.connect import OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import physical
from kit.exchange.ports.port import Stamp
from kit.faults.history import History
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.trace.traffic import Meter
from kit.training.core.context import MemberContext
from kit.training.core.job import Job
from kit.training.core.questions import CoordinatorClient, MemberQuestion
from kit.training.features.checkpointing import resume, writer
from kit.training.features.checkpointing import writer as checkpoint_writer
from kit.training.features.checkpointing.collected import CollectedFile, SentFile
from kit.training.features.checkpointing.questions import WHERE, WROTE, Key, ShardPath
from kit.training.features.checkpointing.save_coordinator import SaveCoordinator
from kit.wire.frame import Buffer
from tests.training.jobs import WORKERS, made
from tests.training.saved import MOMENTUM, names, resumed_at, train
from tests.training.toy import quick_cluster, replayed, same_bits

WRITERS = (0, 1)
BUSY = "it was still writing the checkpoint before."


class Clock:
    """A clock that is only turned by being read: nothing is waited for in vain."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def saving_job(folder: Path, every_steps: int) -> Job:
    """Return a job of two workers on a ring that saves into a folder."""
    return made(
        tasks=WORKERS,
        specs=(Spec("w", (4,), "float32"),),
        optimizer=kit.GradientDescent(),
        topology="ring",
        steps=100,
        checkpoints=kit.Checkpoints(str(folder), every_steps=every_steps),
    )


class Book:
    """A save coordinator of two workers, and the saves that it began and ended."""

    def __init__(self, folder: Path) -> None:
        job = saving_job(folder, every_steps=5)
        self.calls: list[Any] = []
        self.before_end: Callable[[], object] = lambda: None
        self.folder = Folder(folder)
        self.folder.prepare()
        self.save_coordinator = SaveCoordinator(
            job,
            self.folder,
            lambda step: self.calls.append(("begun", step)),
            self._ended,
            Clock(),
        )

    def _ended(self, step: int, good: bool) -> None:
        self.before_end()
        self.calls.append(("ended", step, good))

    def begin(self, key: Key) -> bool:
        return self.save_coordinator.begin(key, 1, True, WRITERS)

    def write(self, member: int, key: Key) -> None:
        folder = self.save_coordinator.where(key)
        assert folder.state == "write"
        part = np.full(2, float(key[0]), np.float32)
        piece = Piece("w", "float32", (4,), 2 * member, part)
        entry = write_shard(Path(folder.path) / f"worker-{member}.safetensors", [piece])
        self.save_coordinator.wrote(member, key, entry.to_plain(), "")
        self.save_coordinator.confirm(member, key)

    def save(self, key: Key) -> None:
        assert self.begin(key)
        self.save_coordinator.open(key)
        for member in WRITERS:
            self.write(member, key)
        self.save_coordinator.conclude(key, lambda: False)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_shards_of_all_writers_become_one_checkpoint(book: Book) -> None:
    book.save((5, 0))

    result, values = book.folder.load_newest()
    assert result.manifest.step == 5
    assert values["w"].tolist() == [5.0] * 4
    assert book.calls == [("begun", 5), ("ended", 5, True)]
    assert book.save_coordinator.fate(5) is True


def test_member_that_cannot_may_say_so_before_the_save_is_begun(book: Book) -> None:
    """A parameter server is done with a step before the coordinator is."""
    book.save_coordinator.wrote(1, (5, 0), None, BUSY)

    book.begin((5, 0))
    book.save_coordinator.open((5, 0))
    book.save_coordinator.conclude((5, 0), lambda: False)

    refused = book.save_coordinator.status()["refused"]
    assert refused == f"step 5 was not saved: /job:worker/task:1: {BUSY}"
    assert book.calls == [("begun", 5), ("ended", 5, False)]
    assert book.save_coordinator.fate(5) is False


def test_what_is_wrong_before_the_draft_is_there_is_not_forgotten(book: Book) -> None:
    book.begin((5, 0))
    book.save_coordinator.wrote(1, (5, 0), None, BUSY)

    book.save_coordinator.open((5, 0))

    assert book.save_coordinator.where((5, 0)).state == "drop"
    book.save_coordinator.conclude((5, 0), lambda: False)
    assert BUSY in book.save_coordinator.status()["refused"]
    assert list(book.folder.path.glob("step-*")) == []


def test_early_word_of_one_save_does_not_end_another(book: Book) -> None:
    book.save_coordinator.wrote(1, (10, 0), None, BUSY)

    book.save((5, 0))

    assert book.save_coordinator.fate(5) is True
    book.begin((10, 0))
    book.save_coordinator.conclude((10, 0), lambda: False)
    assert book.save_coordinator.fate(10) is False


def test_late_word_of_a_save_that_is_over_is_not_heard(book: Book) -> None:
    book.save((5, 0))

    book.save_coordinator.wrote(1, (5, 0), None, BUSY)
    book.save((10, 0))

    assert book.save_coordinator.status()["n_failed"] == 0
    assert book.save_coordinator.fate(10) is True


def test_fate_of_a_step_is_that_of_the_next_save(book: Book) -> None:
    assert book.save_coordinator.fate(3) is None
    book.save((5, 0))

    assert [book.save_coordinator.fate(step) for step in (3, 5, 6)] == [
        True,
        True,
        None,
    ]


def test_each_attempt_is_a_row_with_its_time_and_its_reason(book: Book) -> None:
    book.save((5, 0))
    book.begin((10, 0))
    assert not book.begin((15, 0))
    book.save_coordinator.wrote(0, (10, 0), None, "no room")
    book.save_coordinator.conclude((10, 0), lambda: False)

    rows = book.save_coordinator.status()["rows"]

    assert [(row[0], row[3]) for row in rows] == [
        (5, ""),
        (
            15,
            "step 15 was not saved: step 10 was still being written; save less often, "
            "or to a faster disk.",
        ),
        (10, "step 10 was not saved: /job:worker/task:0: no room"),
    ]
    assert all(row[1] <= row[2] for row in rows)
    assert rows[0][2] <= rows[2][1] <= rows[1][2]


def test_end_of_a_save_may_be_heard_after_the_begin_of_the_next(book: Book) -> None:
    book.before_end = lambda: book.begin((10, 0))

    book.save((5, 0))

    assert book.calls == [("begun", 5), ("begun", 10), ("ended", 5, True)]


class Looked(deque[Any]):
    """Values that note whether another thread could add to them while they are read."""

    def __init__(self, save_coordinator: SaveCoordinator) -> None:
        super().__init__()
        self._lock, self.could_grow = save_coordinator._changed, list[bool]()

    def __iter__(self) -> Iterator[Any]:
        thread = threading.Thread(target=self._try)
        thread.start()
        thread.join()
        return super().__iter__()

    def _try(self) -> None:
        self.could_grow.append(self._lock.acquire(blocking=False))
        if self.could_grow[-1]:
            self._lock.release()


def test_nothing_is_added_to_what_the_status_is_made_of(book: Book) -> None:
    book.save_coordinator._rows = rows = Looked(book.save_coordinator)
    book.save_coordinator._answers = answers = Looked(book.save_coordinator)

    book.save_coordinator.status()

    assert rows.could_grow == answers.could_grow == [False]


def test_nothing_is_added_to_the_fates_while_one_is_looked_for(book: Book) -> None:
    book.save_coordinator._fates = fates = Looked(book.save_coordinator)

    assert book.save_coordinator.fate(5) is None

    assert fates.could_grow == [False]


# -- a member's writer -----------------------------------------------------------------

ME, FILE = 1, "worker-1.safetensors"


class SlowClient(CoordinatorClient):
    """Asks a coordinator that answers when the test says so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.may_answer = threading.Event()
        self.drops: set[Key] = set()
        self.asked: list[Key] = []
        self.handed_in: list[tuple[Key, bool, str]] = []

    def ask(
        self,
        question: MemberQuestion[Any],
        blob: Buffer = b"",
        patience_s: float = 0.0,
        **values: Any,
    ) -> Any:
        key = values["key"]
        if question is WROTE:
            is_entry = json.loads(bytes(blob)) is not None
            self.handed_in.append((key, is_entry, values["wrong"]))
            return None
        assert question is WHERE, "it keeps nothing, and its folder is to be seen"
        self.asked.append(key)
        assert self.may_answer.wait(30)
        if key in self.drops:
            return ShardPath("drop")
        return ShardPath("write", str(self._folder))


class AnswerWhileWaiting(threading.Event):
    """An event: as soon as somebody waits for it, the coordinator answers."""

    def __init__(self, client: SlowClient) -> None:
        super().__init__()
        self.set()
        self._client = client

    def wait(self, timeout: float | None = None) -> bool:
        if timeout:
            self._client.may_answer.set()
        return super().wait(timeout)


class Scene:
    """A worker that owns all parameters, and is not the coordinator."""

    def __init__(self, folder: Path) -> None:
        job = saving_job(folder, every_steps=3)
        self._own_arena = OwnArena("kit-test", job.layout, 2)
        self._memory = self._own_arena.memory
        self._endpoint = Endpoint(["0", "1"], ME, Stamp(), deadline_s=30)
        history = History("", job.tasks[ME])
        self.client = SlowClient(folder)
        parts = (Meter(ME), self._endpoint, self._memory, history)
        context, reply = MemberContext(job, ME, *parts), threading.Event()
        self.checkpoint_writer = writer.CheckpointWriter(
            context, self.client, None, reply
        )
        self.checkpoint_writer._is_idle = AnswerWhileWaiting(self.client)
        context.owners = (Owned(Range(0, job.layout.n_bytes), (ME,)),)
        self.checkpoint_writer.adopted(context.owners, 0, True)

    def after(self, step: int) -> None:
        """Let so many steps be done: every parameter is then their number."""
        (leaf,) = self._memory.layout.leaves
        self._memory.leaf(physical(NOW, 0), leaf)[...] = step

    def close(self) -> None:
        self.client.may_answer.set()
        self.checkpoint_writer.close()
        self._endpoint.close()
        self._own_arena.arena.close()
        vars(self).clear()  # what looks into the memory keeps it open


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(writer, "DROP_S", 30.0)  # the machine may be busy
    result = Scene(tmp_path)
    yield result
    result.close()


def saved(folder: Path) -> list[float]:
    result: list[float] = np.frombuffer(
        (folder / FILE).read_bytes()[-16:], "<f4"
    ).tolist()
    return result


def test_member_whose_copy_was_refused_takes_part_in_the_agreed_save_that_follows(
    scene: Scene, tmp_path: Path
) -> None:
    scene.client.drops.add((3, 0))
    scene.after(3)
    scene.checkpoint_writer.committed(3)  # refused, but nobody was told yet
    scene.after(4)

    scene.checkpoint_writer.take_part(4, 2)

    until(lambda: bool(scene.client.handed_in), 30)
    assert scene.client.asked == [(3, 0), (4, 2)]
    assert scene.client.handed_in == [((4, 2), True, "")]
    assert saved(tmp_path) == [4.0] * 4


def test_save_that_all_know_of_waits_for_no_writer(scene: Scene) -> None:
    scene.checkpoint_writer.committed(3)

    scene.checkpoint_writer.committed(6)

    scene.client.may_answer.set()
    until(lambda: len(scene.client.handed_in) == 2, 30)
    (first, second) = scene.client.handed_in
    assert first == ((3, 0), True, "")
    assert second == ((6, 0), False, "it was still writing the checkpoint before.")


def test_what_is_written_is_the_state_of_the_copy(scene: Scene, tmp_path: Path) -> None:
    scene.after(3)
    scene.checkpoint_writer.committed(3)
    scene.after(5)  # steps go on before anything is on disk
    scene.client.may_answer.set()

    until(lambda: bool(scene.client.handed_in), 30)

    assert saved(tmp_path) == [3.0] * 4


def test_member_that_went_past_the_step_says_so_and_writes_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    scene.client.may_answer.set()

    scene.checkpoint_writer.committed(4)

    until(lambda: bool(scene.client.handed_in), 30)
    assert scene.client.handed_in == [
        ((3, 0), False, "it went past step 3 without a copy.")
    ]
    assert not (tmp_path / FILE).exists()


# -- shards that are sent --------------------------------------------------------------


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
