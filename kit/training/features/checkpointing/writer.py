"""The sink of checkpoints: a member's shard becomes a file of the checkpoint's draft.

The training waits for the shard alone. The sink's thread asks the coordinator where the
file belongs, writes it and hands in what it has written. There is one buffer: a member
that is still writing takes part in no other save, which then fails as a whole.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kit.checkpoint import FILES, Piece, write_shard
from kit.errors import KitError
from kit.exchange.plan import Owned
from kit.training.core.axes import ranges_of
from kit.training.core.context import MemberContext
from kit.training.core.questions import CoordinatorClient
from kit.training.core.snapshot import (
    Buffers,
    Shard,
    Sink,
    empty_pieces,
    n_bytes_of,
    pieces,
    private,
    take,
)
from kit.training.features.checkpointing.collected import SentFile, shard_file
from kit.training.features.checkpointing.questions import (
    COLLECT,
    KEPT,
    WHERE,
    WROTE,
    Key,
)
from kit.training.features.checkpointing.resume import CheckpointStore
from kit.training.worker import kept_state

_LOOK_S = 0.01
DROP_S = 2.0  # to learn that a save was refused: one question to the coordinator
LAST_WORDS_S = 2.0  # a save under way when the training fails may still succeed


class CheckpointWriter(Sink):
    """One member's part in all saves of a training."""

    def __init__(
        self,
        context: MemberContext,
        client: CoordinatorClient,
        store: CheckpointStore | None,
        stirred: threading.Event,
    ) -> None:
        """`store` is the coordinator's own; the others have none.

        `stirred` is set when digests are to be reported to the coordinator at once.
        """
        self._client, self._store, self._stirred = client, store, stirred
        self._save_coordinator = store.save_coordinator if store else None
        self._wanted, self._every = context.job.checkpoints.every_steps, 0
        self._writers: tuple[int, ...] = ()
        self._buffers = Buffers(0, private)
        self._last_due = 0
        self._is_idle = threading.Event()  # set while the buffer may be written
        self._is_idle.set()
        self._give_up = float("inf")
        super().__init__(context, "writer")

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Prepare for the owners of an epoch: touch the buffer.

        What was copied for the epoch before is still written from its own buffer.
        """
        context, job = self._context, self._context.job
        keeps = job.states.values()
        self._writers = self.writers(keeps)
        # What a worker kept is in the checkpoint's shards, which the coordinator alone
        # has read: ask for it once, before the first step.
        is_restored = step > 0 and context.endpoint.stamp.epoch == 1
        is_empty = not context.state and not context.compression
        if is_restored and context.me in keeps and is_empty:
            context.keep(self._client.ask(KEPT))
        ranges = ranges_of(owners, context.me)
        self._buffers = Buffers(n_bytes_of(ranges, len(job.slots)), private)
        if context.me in self._writers:
            self._buffers.prepare()
        # Asynchronous members skip steps: then the coordinator alone says when.
        self._every = self._wanted if synchronous else 0
        if self._every:
            # What was due before this epoch is saved, or is not made up for.
            self._last_due = max(self._last_due, step - step % self._every)

    def committed(self, step: int) -> None:
        """Find out whether the step that was just done is to be saved."""
        if self._store is not None:
            self._store.reached(step)
        if not self._every:
            return
        due = step - step % self._every
        if due > self._last_due:
            self._last_due = due
            self._save((due, 0), step)

    def take_part(self, step: int, boundary: int) -> None:
        """See `Sink`."""
        self._save((step, boundary), step)

    def _save(self, key: Key, step: int) -> None:
        """Take part in a save of the state before `step`; blocks for a copy.

        The coordinator opens the save in its save coordinator, unless one is under way.
        """
        save_coordinator, context = self._save_coordinator, self._context
        if save_coordinator is not None:
            number = context.endpoint.stamp.epoch
            # The others ask `where`, whose answer is to drop what is not begun here.
            if not save_coordinator.begin(
                key, number, context.schedule.in_step, self._writers
            ):
                return
        shard, wrong, writes = None, "", context.me in self._writers
        if writes:
            wrong = self._why_not(key, step)
            if not wrong:
                self._is_idle.clear()
                shard = take(context, step, self._writers, self._buffers.take)
                context.reach("ckpt.copied", step)
        if context.schedule.in_step:
            saved = {context.me: shard.digest()} if shard and shard.ranges else {}
            context.digests.note(step, context.now, key[1], saved)
            self._stirred.set()  # the checkpoint waits for it
        if save_coordinator is not None or writes:
            self.beside(self._deliver, key, shard, wrong, self._buffers)

    def close(self) -> None:
        """End the thread; a save under way gets a moment to be completed."""
        self._give_up = time.monotonic() + LAST_WORDS_S
        super().close()
        self._thread.join(self._context.job.settings.stop_deadline_s)

    def _why_not(self, key: Key, step: int) -> str:
        """Return why this member cannot take its shard; empty if it can."""
        # A save is agreed only while no other is under way, so what the buffer holds
        # then belongs to one that was refused, and the thread is about to learn that.
        is_agreed = key[1] > 0
        if not self._is_idle.wait(DROP_S if is_agreed else 0):
            return "it was still writing the checkpoint before."
        if step != key[0]:
            return f"it went past step {key[0]} without a copy."
        return ""

    # -- the thread -------------------------------------------------------------

    def _deliver(
        self, key: Key, shard: Shard | None, wrong: str, buffers: Buffers
    ) -> None:
        # In the coordinator's task one thread makes the draft, writes its shard and
        # waits for all others: saves are concluded one after the other.
        saves = self._save_coordinator
        with suppress(KitError):  # the coordinator is gone, and with it the training
            is_open = saves is None or saves.open(key) is not None
            if shard is None:
                if wrong and is_open:
                    self._hand_in(key, None, wrong)
            else:
                self._write(key, shard, buffers, is_open=is_open)
            if saves is not None:
                saves.conclude(key, lambda: time.monotonic() > self._give_up)

    def _write(
        self, key: Key, shard: Shard, buffers: Buffers, *, is_open: bool
    ) -> None:
        entry, wrong = None, ""
        try:
            draft = self._draft(key) if is_open else None
            if draft is None:
                return
            file = draft / shard_file(self._context.task)
            is_here = _sees(draft)  # else it is on the coordinator's host alone
            files = FILES if is_here else SentFile(partial(self._send, key))
            entry = write_shard(file, self._pieces(shard), files).to_plain()
        except Exception as error:  # no memory, no disk: the save fails, nothing else
            wrong = getattr(error, "message", repr(error))
        finally:
            # Before the entry is handed in: the next save may be agreed at once.
            assert shard.buffer is not None, "it was taken here"
            buffers.give_back(shard.buffer)
            self._is_idle.set()
        self._hand_in(key, entry, wrong)

    def _hand_in(self, key: Key, entry: Any, wrong: str) -> None:
        """Hand in the entry of a shard, as plain data, or why there is none."""
        # In the blob: it is as long as there are parameters.
        self._client.ask(WROTE, json.dumps(entry).encode(), key=key, wrong=wrong)

    def _send(self, key: Key, offset: int, block: Any) -> None:
        self._client.ask(COLLECT, block, key=key, offset=offset)

    def _pieces(self, shard: Shard) -> list[Piece]:
        context, job = self._context, self._context.job
        all_pieces = [*pieces(shard, job.layout, job.slots)]
        if context.me in job.states.values():
            packed = np.frombuffer(shard.kept, np.uint8)
            all_pieces.append(Piece.whole(kept_state.name_of(context.task), packed))
        if context.me == shard.writers[0]:
            all_pieces += empty_pieces(job.layout, job.slots)
        return all_pieces

    def _draft(self, key: Key) -> Path | None:
        """Wait until the coordinator says where to write; None if nowhere."""
        give_up = time.monotonic() + self._context.job.settings.save_deadline_s
        while (shard_path := self._client.ask(WHERE, key=key)).state == "wait":
            if time.monotonic() > min(give_up, self._give_up):
                return None
            time.sleep(_LOOK_S)
        return Path(shard_path.path) if shard_path.state == "write" else None


def _sees(draft: Path) -> bool:
    return draft.is_dir()
