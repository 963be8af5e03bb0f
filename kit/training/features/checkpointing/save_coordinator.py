"""The coordinator's account of checkpoints: what is being written, what came of it.

Theory of operation
-------------------

A save is known by its key: the step, and the boundary at which it was agreed (0 for the
saves that all members know from the step's number alone). There is one at a time:

    begin      the coordinator's own step loop has come there
    where      the writers ask for the draft's folder, write their shards into it
    wrote      each hands in what the manifest is to say of its shard, or why not
    conclude   all are there: the draft becomes a checkpoint by one rename

*Who asks.* Synchronous members count steps, so each knows by itself that every
`every_steps` of them a copy is due, and nobody has to meet for it. All other saves make
the members meet, and the verdict there is SAVE: those by the clock, those of
asynchronous members by the number of updates, a user's (with a ticket, by which its
answer is found), a hook's, and the last one, for which the end of the training waits.

*Who writes what.* Each range of the parameters has one writer, the first of its owners.
It copies its ranges, with their slots, between two steps, and a thread writes the copy
as one shard while the next steps go on. The first of the writers adds the parameters
without elements. The coordinator's task makes the draft, in the thread that also
concludes; it does so even if it owns nothing. A writer that is there first has to wait,
and one that does not see the draft sends its shard (`collected.py`).

*When a save counts.* All writers have handed in an entry. In a synchronous training
without backup workers, all that hold parameters have confirmed too, by their digests,
that these are the same. The coordinator's task sees every shard's file. Then the
manifest is written and all of it is synced and renamed: the checkpoint is there whole,
or not at all. Only then are the oldest ones removed.

*What a failure leaves.* Whatever goes wrong ends this save alone; it is kept as
`refused` until one succeeds, and never ends the training:

    another save is under way         this one is not begun, that one goes on
    a writer still writes the last    it says so, and this one is refused
    a shard cannot be written         its writer says why, and the draft is discarded
    not all within save_deadline_s    the same, and those that are missing are named
    parameters differ                 this save and all later ones are refused
    the training ends meanwhile       its shards have two seconds more, then the same
    the coordinator's task dies       a draft, which the next `draft` removes

In each case the checkpoints from before are as they were, but for those that are later
than the one the training went on from: they are removed just before the first new one
is committed. A user's request is answered by the save that took it up, with a path or
an error.

*Asked twice.* Every question carries the key. `where` only reads. `wrote` puts an entry
into a table, `confirm` a member into a set, and a ticket is known as long as its answer
is kept. What belongs to a save that is settled changes nothing any more. A
confirmation, or a reason why there will be no shard, may come before `begin`, when a
member was faster than the coordinator: it is kept for that save.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.arithmetic import Arithmetic
from kit.checkpoint import Folder, Manifest, ShardEntry, graph_hash, shard_from_plain
from kit.errors import CheckpointFailed, DeadlineExceededError, KitError
from kit.exchange.layout import tensors_of
from kit.trace.named_rows import SaveRow
from kit.training.core.job import Job
from kit.training.features.checkpointing.collected import CollectedFile, shard_file
from kit.training.features.checkpointing.questions import Key, ShardPath

# --------------------------------------------------------------------------------------
# One save of a training under way: who writes, what is there, what came of it.


@dataclass
class SaveAttempt:
    """One save under way."""

    key: Key
    epoch: int
    synchronous: bool
    writers: frozenset[int]
    tickets: tuple[str, ...]
    begun: float
    draft: Path | None = None
    entries: dict[int, ShardEntry] = field(default_factory=dict)
    wrong: str = ""
    witnesses: frozenset[int] = frozenset()  # whose parameters must be the same
    confirmed: set[int] = field(default_factory=set)
    collected: dict[int, CollectedFile] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether nothing more has to be waited for."""
        is_whole = self.entries.keys() >= self.writers
        return bool(self.wrong) or (is_whole and self.confirmed >= self.witnesses)

    def manifest(
        self, job: Job, graph: str, arithmetic: Arithmetic | None = None
    ) -> Manifest:
        """Return what the checkpoint says of itself; `graph` marks names and shapes."""
        extra = {
            "run": name_of(job),
            "tasks": [task.short for task in job.tasks],
            "slots": list(job.slots),
            "states": list(job.states),
            "optimizer": getattr(job.optimizer, "name", type(job.optimizer).__name__),
            "synchronous": self.synchronous,
            "batch": job.batch,
            "seed": job.seed,
            "steps": job.steps,
        }
        if arithmetic is not None:
            extra["arithmetic"] = arithmetic.to_plain()
        shards = tuple(self.entries[entry] for entry in sorted(self.entries))
        return Manifest(self.key[0], self.epoch, graph, shards, extra)


def name_of(job: Job) -> str:
    """Return the run that checkpoints name: all generations of a training are one."""
    return job.generation.origin or job.run


_KEPT_ANSWERS = 50
_MOST_EARLY = 1000  # each member may be, for one save
_LOG = logging.getLogger("kit.training")


class SaveCoordinator:
    """One training's saves. Every method may be called from any thread.

    Its many attributes are one state under one lock: who waits for which answer depends
    on what is due, under way, refused and damaged. What a single save has is in
    `SaveAttempt`.
    """

    def __init__(
        self,
        job: Job,
        folder: Folder,
        begun: Callable[[int], None],
        ended: Callable[[int, bool], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`begun` hears the step of each save, `ended` also whether it was written.

        Both are called without a lock held, so the end of one save may be heard after
        the start of the next.
        """
        self._job, self._wanted, self._folder = job, job.checkpoints, folder
        self._begun, self._ended, self._clock = begun, ended, clock
        self._changed = threading.Condition()
        self._attempt: SaveAttempt | None = None
        self._seen: Key = (-1, -1)
        self._early: dict[Key, str] = {}  # why some cannot, told before it was begun
        self._tickets: list[str] = []
        self._answers: deque[dict[str, Any]] = deque(maxlen=_KEPT_ANSWERS)
        self._last: dict[str, Any] | None = None
        self._fates: deque[tuple[int, bool]] = deque(maxlen=_KEPT_ANSWERS)
        self._rows: deque[SaveRow] = deque(maxlen=_KEPT_ANSWERS)
        self._refused, self.n_saved, self._n_failed = "", 0, 0
        self._due_step, self._due_at = 0, clock() + self._wanted.every_s
        self._drop_after: int | None = None
        self.own: frozenset[int] = frozenset()  # what generations before have saved
        self._damage, self._confirmed = "", dict[Key, set[int]]()
        self._graph = graph_hash(tensors_of(job.specs, job.slots))
        self.arithmetic: Arithmetic | None = None  # what the training computes with
        self.resumed: dict[str, Any] | None = None  # with what it began, if not afresh

    def go_on_from(self, step: int, path: Path, drops_later: bool) -> None:
        """Note that the training goes on from a checkpoint.

        If it is not the newest, the later ones are removed when the first new one is
        about to take its place among them.
        """
        self._last = {"step": step, "path": str(path)}
        self._due_step = step
        self._drop_after = step if drops_later else None

    def drop_all_before_saving(self) -> None:
        """Note that the training begins afresh, and gives up what the folder holds.

        That stays until the first new checkpoint is about to take its place.
        """
        self._drop_after = -1

    def account(self) -> dict[str, Any]:
        """Return what another coordinator has to know, as data that JSON can carry."""
        with self._changed:
            taken_up = self._attempt.tickets if self._attempt else ()
            tickets = [ticket for ticket in (*taken_up, *self._tickets) if ticket]
        return {**self.status(), "tickets": tickets}

    def take_over(self, account: Mapping[str, Any]) -> bool:
        """Go on with the account of another coordinator; whether a request waits."""
        with self._changed:
            self._tickets = list(account["tickets"])
            self._answers.extend(account["answers"])
            self._rows.extend(SaveRow(*row) for row in account["rows"])
            self.n_saved = max(self.n_saved, int(account["n_saved"]))
            self._n_failed = int(account["n_failed"])
            self._refused, self.resumed = str(account["refused"]), account["resumed"]
        return bool(self._tickets)

    def is_due(self, step: int, synchronous: bool) -> bool:
        """Whether a save that nobody but the coordinator knows of is due before `step`.

        By the clock, and for asynchronous members by the number of updates.
        """
        # Without the lock: it is asked before each step, and what an attempt that ends
        # at this moment delays is due at the next one.
        if self._attempt is not None:
            return False
        every = 0 if synchronous else self._wanted.every_steps
        by_step = every and step // every > self._due_step // every
        return bool(by_step) or bool(
            self._wanted.every_s and self._clock() >= self._due_at
        )

    def has(self, step: int) -> bool:
        """Whether a state is saved, or being written."""
        attempt = self._attempt
        if attempt is not None and attempt.key[0] == step:
            return not attempt.wrong
        return self._last is not None and self._last["step"] == step

    def fate(self, step: int) -> bool | None:
        """Whether a save of `step`, or of a later one in its place, was written.

        None before it is known.
        """
        with self._changed:
            if self._last is not None and self._last["step"] == step:
                return True
            return next((good for at, good in self._fates if at >= step), None)

    def ask(self, ticket: str) -> bool:
        """Note a request of the user; the next save that is agreed answers it.

        Returns whether it is new: it may be heard twice. A hook's has no ticket, since
        nobody waits for its answer, and is always new.
        """
        with self._changed:
            answered = [answer["ticket"] for answer in self._answers]
            taken_up = self._attempt.tickets if self._attempt else ()
            if ticket and ticket in (*self._tickets, *taken_up, *answered):
                return False
            self._tickets.append(ticket)
            return True

    def begin(
        self, key: Key, epoch: int, synchronous: bool, writers: Sequence[int]
    ) -> bool:
        """Take up a save; False if another one is being written, or it is there."""
        with self._changed:
            # Also when it is refused: its writers then drop their copies, and do not
            # wait.
            self._seen = max(self._seen, key)
            if not key[1] and key[0] in self.own:
                return False  # the step is done again, with the same bits
            if self._attempt is not None:
                text = (
                    f"step {key[0]} was not saved: step {self._attempt.key[0]} was "
                    f"still being written; save less often, or to a faster disk."
                )
                self._note_failure(text)
                self._note(key[0], self._clock(), text)
                return False
            tickets: list[str] = []
            # A request is answered by a save that was agreed after it; one that all
            # know by its step may be of an older state.
            if key[1]:
                tickets, self._tickets = self._tickets, []
            now = self._clock()
            who, asked = frozenset(writers), tuple(tickets)
            self._attempt = SaveAttempt(key, epoch, synchronous, who, asked, now)
            self._attempt.wrong = self._damage or self._early.get(key, "")
            early = {
                key_confirmed: some
                for key_confirmed, some in self._confirmed.items()
                if key_confirmed >= key
            }
            self._confirmed = early
            # One set for both: `confirm` adds to it by the key, before this and after.
            self._attempt.confirmed = early.setdefault(key, set())
            # Other trainings have no state that all members hold at the same step.
            if not self._job.schedule_of(synchronous).is_served:
                self._attempt.witnesses = who | frozenset(self._job.workers)
            self._early = {
                key_early: why
                for key_early, why in self._early.items()
                if key_early > key
            }
            self._due_step, self._due_at = key[0], now + self._wanted.every_s
            self._changed.notify_all()
        self._begun(key[0])
        return True

    def where(self, key: Key) -> ShardPath:
        """Return where a writer's shard belongs, if that is known already."""
        with self._changed:
            attempt = self._attempt
            if attempt is None or attempt.key != key:
                return ShardPath("drop" if self._seen >= key else "wait")
            if attempt.wrong:
                return ShardPath("drop")
            return (
                ShardPath("write", str(attempt.draft))
                if attempt.draft
                else ShardPath("wait")
            )

    def collect(self, member: int, key: Key, offset: int, block: Any) -> None:
        """Write a block of the shard of a writer that does not see the draft.

        Raises `CheckpointFailed` for a save that is over, and what the system refuses.
        """
        with self._changed:
            attempt = self._attempt
            if attempt is None or attempt.key != key or attempt.wrong:
                attempt = None
            if attempt is None or not attempt.draft or member not in attempt.writers:
                raise CheckpointFailed(f"the save of step {key[0]} was given up.")
            file = attempt.collected.get(member)
            if file is None:
                path = attempt.draft / shard_file(self._job.tasks[member])
                file = CollectedFile(path, self._folder.files)
                attempt.collected[member] = file
        file.take(offset, block)  # without the lock: the disk may take seconds

    def wrote(self, member: int, key: Key, entry: Any, wrong: str) -> None:
        """Take what a writer has written (as plain data), or why it has not."""
        try:
            shard_read = None if wrong else shard_from_plain(entry)
        except CheckpointFailed as error:
            shard_read, wrong = None, error.message
        with self._changed:
            attempt = self._attempt
            if attempt is None or attempt.key != key:
                is_early = key > self._seen  # the member was the faster one
                if shard_read is None and is_early and len(self._early) < _MOST_EARLY:
                    self._early[key] = f"{self._name(member)}: {wrong}"
                return  # else it was given up meanwhile
            if shard_read is None:
                attempt.wrong = attempt.wrong or f"{self._name(member)}: {wrong}"
            elif member in attempt.writers:
                attempt.entries[member] = shard_read
            self._changed.notify_all()

    def confirm(self, member: int, key: Key) -> None:
        """Note that the parameters that a member would save are those of the others."""
        with self._changed:
            is_open = self._attempt is not None and self._attempt.key == key
            if is_open or key > self._seen:  # it may be faster than the coordinator
                self._confirmed.setdefault(key, set()).add(member)
                self._changed.notify_all()

    def spoil(self, why: str) -> None:
        """Refuse the save under way and all to come: the parameters are damaged."""
        with self._changed:
            self._damage = self._damage or why
            if self._attempt is not None:
                self._attempt.wrong = self._attempt.wrong or why
            self._changed.notify_all()

    def open(self, key: Key) -> Path | None:
        """Make the draft, in the thread that will conclude; None if that fails."""
        draft: Path | None = None
        wrong = ""
        try:
            draft = self._folder.draft(key[0])
        except KitError as error:
            wrong = error.message
        with self._changed:
            if self._attempt is not None and self._attempt.key == key:
                self._attempt.draft = draft
                self._attempt.wrong = self._attempt.wrong or wrong
                self._changed.notify_all()
        return draft

    def conclude(self, key: Key, is_over: Callable[[], bool]) -> None:
        """Wait for all shards, then commit; `is_over` says when to give up early.

        Raises nothing: what came of it is in `status`.
        """
        attempt = self._attempt  # only this thread ends one
        if attempt is None or attempt.key != key:
            return
        path: Path | None = None
        self._wait(attempt, is_over)
        try:
            for file in list(attempt.collected.values()):
                file.close()
            if not attempt.wrong:
                path = self._commit(attempt)
        except Exception as error:  # also what a broken disk may raise
            attempt.wrong = getattr(error, "message", repr(error))
        finally:
            if path is None and attempt.draft is not None:
                self._folder.discard(attempt.draft)
            self._settle(attempt, path)

    def status(self) -> dict[str, Any]:
        """Return what is reported to the notebook, as data that JSON can carry."""
        with self._changed:
            attempt = self._attempt
            return {
                "saving": None if attempt is None else attempt.key[0],
                "last": self._last,
                "refused": self._refused,
                "n_saved": self.n_saved,
                "n_failed": self._n_failed,
                "answers": list(self._answers),
                "rows": [list(row) for row in self._rows],
                "resumed": self.resumed,
            }

    def _wait(self, attempt: SaveAttempt, is_over: Callable[[], bool]) -> None:
        limit = self._job.settings.save_deadline_s
        give_up = attempt.begun + limit
        with self._changed:
            while not attempt.is_ready:
                if is_over():
                    attempt.wrong = "the training ended while it was being written."
                    if self._job.generation.is_followed:  # the next one answers them
                        self._tickets += attempt.tickets
                        attempt.tickets = ()
                elif self._clock() > give_up:
                    missing = sorted(
                        (attempt.writers - attempt.entries.keys())
                        | (attempt.witnesses - attempt.confirmed)
                    )
                    names = ", ".join(map(self._name, missing))
                    attempt.wrong = DeadlineExceededError(
                        f"{names} did not write within {limit:g} s; allow more with "
                        f"settings(save_deadline_s=...)."
                    ).message
                else:
                    self._changed.wait(0.05)

    def _commit(self, attempt: SaveAttempt) -> Path:
        assert attempt.draft is not None
        # `Folder.commit` checks this too, but cannot name the task.
        for member, entry in attempt.entries.items():
            if not (attempt.draft / entry.file).exists():
                raise CheckpointFailed(
                    f"{self._name(member)} wrote {attempt.draft / entry.file}, and "
                    f"{self._name(self._job.coordinator)} does not see it: something "
                    f"else removes files there."
                )
        if self._drop_after is not None:
            self._folder.remove_after(self._drop_after)
            self._drop_after = None
        return self._folder.commit(
            attempt.draft, attempt.manifest(self._job, self._graph, self.arithmetic)
        )

    def _settle(self, attempt: SaveAttempt, path: Path | None) -> None:
        step, seconds = attempt.key[0], self._clock() - attempt.begun
        answer: dict[str, Any] = {"step": step, "path": str(path or ""), "error": ""}
        with self._changed:
            # From here on the next save may begin, and what is late for this one finds
            # no attempt with its key.
            self._attempt = None
            self._fates.append((step, path is not None))
            if path is None:
                self._note_failure(f"step {step} was not saved: {attempt.wrong}")
                answer["error"] = self._refused
            else:
                answer["seconds"] = seconds
                answer["n_bytes"] = sum(
                    entry.size for entry in attempt.entries.values()
                )
                self._last, self._refused = answer, ""
                self.n_saved += 1
            self._note(step, attempt.begun, answer["error"])
            self._answers += [answer | {"ticket": ticket} for ticket in attempt.tickets]
            self._changed.notify_all()
        self._ended(step, path is not None)

    def _note_failure(self, text: str) -> None:
        _LOG.warning("%s: %s", self._folder.path, text)
        self._refused = text
        self._n_failed += 1

    def _note(self, step: int, begun: float, error: str) -> None:
        begin, end = (round(at * 1e9) for at in (begun, self._clock()))
        self._rows.append(SaveRow(step, begin, end, error))

    def _name(self, member: int) -> str:
        return str(self._job.tasks[member])
