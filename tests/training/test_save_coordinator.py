"""The coordinator's book of checkpoints, where its members are not equally fast."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.checkpoint import Folder, Piece, write_shard
from kit.exchange.layout import Spec
from kit.training.features.checkpointing.questions import Key
from kit.training.features.checkpointing.save_coordinator import SaveCoordinator
from tests.training.jobs import WORKERS, made

WRITERS = (0, 1)
BUSY = "it was still writing the checkpoint before."


class Clock:
    """A clock that is only turned by being read: nothing is waited for in vain."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Book:
    """A save coordinator of two workers, and the saves that it began and ended."""

    def __init__(self, folder: Path) -> None:
        job = made(
            tasks=WORKERS,
            specs=(Spec("w", (4,), "float32"),),
            optimizer=kit.GradientDescent(),
            topology="ring",
            steps=100,
            checkpoints=kit.Checkpoints(str(folder), every_steps=5),
        )
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
