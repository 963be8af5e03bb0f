"""A member's writer of checkpoints: it copies between two steps and writes beside them.

The training waits for the copy alone. A thread of the checkpoint writer asks the
coordinator where the shard belongs, writes it and hands in what it has written. There
is one buffer: a member that is still writing takes part in no other save, which then
fails as a whole.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kit.checkpoint import FILES, Piece, write_shard
from kit.errors import KitError
from kit.exchange.plan import Owned
from kit.training.checkpointing.collected import SentFile, shard_file
from kit.training.checkpointing.member_state import (
    OwnState,
    empty_pieces,
    ranges_of,
    writers_of,
)
from kit.training.checkpointing.resume import CheckpointStore
from kit.training.checkpointing.save_coordinator import Key
from kit.training.coordination.client import CoordinatorClient
from kit.training.member.context import MemberContext
from kit.training.member.step_events import StepObserver
from kit.training.worker import kept_state

_LOOK_S = 0.01
_DROP_S = 2.0  # to learn that a save was refused: one question to the coordinator
_LAST_WORDS_S = 2.0  # a save under way when the training fails may still succeed


class WriterTask(NamedTuple):
    """What the thread should do: take part in a save, or say why this member cannot."""

    key: Key
    pieces: tuple[Piece, ...] | None
    wrong: str = ""


class CheckpointWriter(StepObserver):
    """One member's part in all saves of a training."""

    def __init__(
        self,
        context: MemberContext,
        client: CoordinatorClient,
        store: CheckpointStore | None,
        told: threading.Event,
    ) -> None:
        """`store` is the coordinator's own; the others have none.

        `told` is set when digests are to be reported to the coordinator at once.
        """
        job = context.job
        assert job.checkpoints is not None
        self._context, self._client, self._store = context, client, store
        self._told = told
        self._save_coordinator = store.save_coordinator if store else None
        self._wanted, self._every = job.checkpoints.steps, 0
        self._writers: tuple[int, ...] = ()
        self._state: OwnState | None = None
        self._empty: tuple[Piece, ...] = ()
        self._last_due = 0
        self._tasks: queue.SimpleQueue[WriterTask | None] = queue.SimpleQueue()
        self._is_idle = threading.Event()  # set while the buffer may be written
        self._is_idle.set()
        self._is_over = threading.Event()
        self._give_up = float("inf")
        self._thread: threading.Thread | None = None

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Prepare for the owners of an epoch: touch the buffer, start the thread.

        What was copied for the epoch before is still written from its own buffer.
        """
        job, context = self._context.job, self._context
        keeps = job.states.values()
        writers = {*writers_of(owners, job.coordinator), *keeps}
        self._writers = tuple(sorted(writers))
        # What a worker kept is in the checkpoint's shards, which the coordinator alone
        # has read: ask for it once, before the first step.
        is_restored = step > 0 and context.endpoint.stamp.epoch == 1
        is_empty = not context.state and not context.compression
        if is_restored and context.me in keeps and is_empty:
            context.keep(self._client.kept())
        ranges = ranges_of(owners, self._context.me)
        is_first = self._context.me == self._writers[0]
        self._state = OwnState(job.layout, ranges, job.slots) if ranges else None
        self._empty = empty_pieces(job.layout, job.slots) if is_first else ()
        # Asynchronous members skip steps: then the coordinator alone says when.
        self._every = self._wanted if synchronous else 0
        if self._every:
            # What was due before this epoch is saved, or is not made up for.
            self._last_due = max(self._last_due, step - step % self._every)
        if self._thread is None and (
            self._save_coordinator or self._context.me in self._writers
        ):
            name = f"kit-writer-{self._context.task.short}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def committed(self, step: int) -> None:
        """Find out whether the step that was just done is to be saved."""
        if self._store is not None:
            self._store.reached(step)
        if not self._every:
            return
        due = step - step % self._every
        if due > self._last_due:
            self._last_due = due
            self.save((due, 0), step)

    def save(self, key: Key, step: int) -> None:
        """Take part in a save of the state before `step`; blocks for a copy.

        The coordinator opens the save in its save coordinator, unless one is under way.
        """
        save_coordinator, me = self._save_coordinator, self._context.me
        if save_coordinator is not None:
            number, context = self._context.endpoint.stamp.epoch, self._context
            # The others ask `where`, whose answer is to drop what is not begun here.
            if not save_coordinator.begin(
                key, number, context.synchronous, self._writers
            ):
                return
        task = self._copied(key, step) if me in self._writers else WriterTask(key, None)
        if self._context.synchronous:
            state = self._state if task.pieces is not None else None
            saved = {me: state.digest()} if state is not None else {}
            self._context.digests.note(step, self._context.now, key[1], saved)
            self._told.set()  # the checkpoint waits for it
        if save_coordinator is not None or me in self._writers:
            self._tasks.put(task)

    def close(self) -> None:
        """End the thread; a save under way gets a moment to be completed."""
        self._give_up = time.monotonic() + _LAST_WORDS_S
        self._is_over.set()
        self._tasks.put(None)
        if self._thread is not None:
            self._thread.join(self._context.job.settings.stop_deadline_s)

    def _copied(self, key: Key, step: int) -> WriterTask:
        context = self._context
        # A save is agreed only while no other is under way, so what the buffer holds
        # then belongs to one that was refused, and the thread is about to learn that.
        is_agreed = key[1] > 0
        if not self._is_idle.wait(_DROP_S if is_agreed else 0):
            return WriterTask(key, None, "it was still writing the checkpoint before.")
        if step != key[0]:
            return WriterTask(key, None, f"it went past step {key[0]} without a copy.")
        pieces: tuple[Piece, ...] = ()
        self._is_idle.clear()
        if self._state is not None:
            self._state.copy(context.memory, context.now)
            pieces = self._state.pieces
        if context.me in context.job.states.values():
            name = kept_state.name_of(context.task)
            packed = np.frombuffer(context.kept(), np.uint8)
            pieces += (Piece.whole(name, packed),)
        context.reach("ckpt.copied", step)
        return WriterTask(key, pieces + self._empty)

    # -- the thread -------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._take_part(task)
            except KitError:
                continue  # the coordinator is gone, and with it the training

    def _take_part(self, task: WriterTask) -> None:
        # In the coordinator's task one thread makes the draft, writes its shard and
        # waits for all others: saves are concluded one after the other.
        save_coordinator = self._save_coordinator
        is_open = (
            save_coordinator is None or save_coordinator.open(task.key) is not None
        )
        if task.pieces is None:
            if task.wrong and is_open:
                self._client.wrote(task.key, None, task.wrong)
        elif is_open:
            self._write(task.key, task.pieces)
        else:
            self._is_idle.set()
        if save_coordinator is not None:
            save_coordinator.conclude(
                task.key, lambda: time.monotonic() > self._give_up
            )

    def _write(self, key: Key, pieces: tuple[Piece, ...]) -> None:
        entry, wrong = None, ""
        try:
            draft = self._draft(key)
            if draft is None:
                return
            file = draft / shard_file(self._context.task)
            is_here = _sees(draft)  # else it is on the coordinator's host alone
            files = FILES if is_here else SentFile(partial(self._client.collect, key))
            entry = write_shard(file, pieces, files).to_plain()
        except Exception as error:  # no memory, no disk: the save fails, nothing else
            wrong = getattr(error, "message", repr(error))
        finally:
            # Before the entry is handed in: the next save may be agreed at once.
            self._is_idle.set()
        self._client.wrote(key, entry, wrong)

    def _draft(self, key: Key) -> Path | None:
        """Wait until the coordinator says where to write; None if nowhere."""
        give_up = time.monotonic() + self._context.job.settings.save_deadline_s
        while (place := self._client.where(key)).state == "wait":
            if time.monotonic() > min(give_up, self._give_up):
                return None
            time.sleep(_LOOK_S)
        return Path(place.path) if place.state == "write" else None


def _sees(draft: Path) -> bool:
    return draft.is_dir()
