"""Records a training while it runs: a thread that asks a few times a second.

It takes what is known of the run, and asks the members for digests and
states (`kit.recording.state_keeper`). The training does not wait for it, except
at the end: the tasks are asked once more before the run counts as over. An error here,
such as a full disk, ends the recording and not the training.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kit.arrays import to_numpy
from kit.checkpoint import FILES, Files, load
from kit.errors import FailedPreconditionError, KitError, to_plain
from kit.exchange.ports.memory import Array, unflatten
from kit.handles import handle
from kit.recording.facts import arrays_of, check_arrays, data_facts, step_facts
from kit.recording.folder import DIGEST, PUSH, RecordingFolder, rows_of
from kit.recording.options import Recording, recording_of
from kit.recording.own_objects import object_facts, own_objects
from kit.recording.state_keeper import states_of
from kit.recording.stored_step import pickled
from kit.settings import Settings
from kit.trace.log import Rows
from kit.trace.trace import Trace
from kit.trace.traffic import TransferKind
from kit.training.client.statement import versions_here
from kit.training.core.job import Job, Work
from kit.training.core.snapshot import Shard, is_whole, values_of
from kit.wire.rpc import Caller

if TYPE_CHECKING:
    from kit.training.client.facts import TrainingFacts
    from kit.training.client.watched import Cursors

_ROUND_S: Final = 0.25
_ROUNDS_TO_TOTALS: Final = 8  # only the newest totals count, so they are written rarely
_END_S: Final = 30.0
_NOTHING: Final = rows_of(DIGEST, ())


@handle
class Recorder:
    """The recording of one training, while it is made.

    Attributes:
        options: what was asked for.
        error: why it ended early; empty if it did not.
    """

    options: Recording
    error: str

    def __init__(
        self, options: Recording, work: Work | None, files: Files = FILES
    ) -> None:
        """Make the folder; `work` is what the training is begun with, if known.

        Raises as `RecordingFolder` does, and `InvalidArgumentError` for what cannot be
        stored with the recording.
        """
        self.options, self.error = options, ""
        self._work, self._stored_step = work, b""
        if work is not None and options.store_data:
            check_arrays(work.data)
        self._folder = RecordingFolder(options, files)
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._cursors: Cursors = ()
        self._newest: dict[str, Any] = {}  # the newest text of each kind of part
        self._n_rounds = 0
        self._failure: KitError | None = None  # of the training
        self._members: AskedMembers | None = None

    def begin(self, source: TrainingFacts, *, from_start: bool = False) -> None:
        """Begin to record what is learned of a training.

        A short training that was to be recorded from its start may be over by now: it
        is recorded as far as it is known, and this waits for that. Else raises
        `FailedPreconditionError`, and leaves nothing, if the training is over.
        """
        is_watched = source.at_end(self.end)
        if not is_watched and not from_start:
            self.give_up()
            raise FailedPreconditionError(
                "the training is over; begin another with kit.train(..., record=...)."
            )
        threading.Thread(
            target=self._run, args=(source,), name="kit-recorder", daemon=True
        ).start()
        if not is_watched:
            error = source.finished.exception(_END_S)
            self.end(error if isinstance(error, KitError) else None)

    def settings(self, chosen: Settings) -> Settings:
        """Return the settings of a training that is recorded from its start."""
        rarest = self.options.digest_every
        every = min(chosen.digest_every or rarest, rarest)
        return chosen.replace(digest_every=every)

    def take(self, job: Job) -> None:
        """Pickle the training's code, if it is to be stored.

        Raises `InvalidArgumentError` for what cannot be stored.
        """
        work = self._work
        if work is not None and self.options.store_step:
            own = own_objects(job, work)
            self._stored_step = pickled(
                {"step": work.step, **own} if own else work.step
            )

    def give_up(self) -> None:
        """Remove the folder: the training has not begun."""
        self._folder.give_up()

    def end(self, failure: KitError | None) -> None:
        """Write what is new and how it ended; return when it is on the disk."""
        self._failure = failure
        self._stop.set()
        members = self._members
        if failure is not None and members is not None:
            members.close()  # one that is lost would be waited for
        self._ended.wait(_END_S)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is written."""
        return self._ended.is_set()

    def __repr__(self) -> str:
        state = self.error or ("complete" if self.is_over else "under way")
        return f"<recording in {self._folder.path}: {state}>"

    def _run(self, source: TrainingFacts) -> None:
        try:
            with closing(AskedMembers(source, self.options)) as members:
                self._members = members
                self._begin(source.job)
                while not self._stop.wait(_ROUND_S):
                    self._round(source, members)
                # Once more for the last steps. Members of a failed run may not answer.
                self._round(source, members if self._failure is None else None)
                self._finish(source)
        except Exception as error:  # whatever it is, it must not end the training
            said = f"{type(error).__name__}: {error}"
            if isinstance(error, KitError):
                said = error.message
            elif isinstance(error, OSError):
                said = error.strerror or str(error)
            self.error = (
                f"the recording in {self._folder.path} ended early: {said}. The "
                f"training went on; what was written until then can be loaded."
            )
        finally:
            self._folder.close()
            self._work = None  # may hold the data
            self._ended.set()

    def _begin(self, job: Job) -> None:
        work = self._work
        versions = {**versions_here(), "numpy": np.__version__}
        about: dict[str, Any] = {"step": None, "data": None}
        if work is not None:
            about = {"step": step_facts(work.step), "data": data_facts(work.data)}
        objects = own_objects(job, work).items()
        about["own"] = {name: object_facts(value) for name, value in objects}
        head = {"job": job.to_plain(), "versions": versions, "at": time.time()}
        self._folder.note("HEAD", {**head, **about})
        if work is not None and self.options.store_data:
            self._folder.store_data(arrays_of(work.data))
        if self._stored_step:
            self._folder.store_step(self._stored_step)

    def _note_beginning(self, source: TrainingFacts) -> None:
        """Keep the state at the beginning: the arguments, or a checkpoint."""
        work, job = self._work, source.job
        saves = source.leads().get("saves")
        # With checkpoints, only the coordinator can say whether it began with one.
        if work is None or (job.checkpoints is not None and saves is None):
            return
        self._work = None
        resumed = (saves or {}).get("resumed")
        if resumed:
            with suppress(KitError, OSError):  # it is on another machine
                _, values = load(Path(resumed["path"]))
                self._folder.keep_state(int(resumed["step"]), values)
        elif work.params is not None:
            arrays = {spec.name: to_numpy(work.params[spec.name]) for spec in job.specs}
            self._folder.keep_state(0, arrays)

    def _round(self, source: TrainingFacts, members: AskedMembers | None) -> None:
        self._note_beginning(source)
        trace, self._cursors = source.news(self._cursors)
        for kind, rows in (("STEP", trace.steps), ("MEAS", trace.measures)):
            if len(rows):
                self._folder.note(kind, {}, rows)
        self._note_once("EPOC", {"epochs": [[*row] for row in trace.epochs]})
        leads = source.leads()
        if leads.get("arithmetic"):
            names = ("arithmetic", "libraries")
            self._note_once("WITH", {name: leads[name] for name in names})
        self._note_once("CHNG", {"changes": [[*change] for change in source.changes()]})
        for fate in (TransferKind.PUSH, TransferKind.LATE):
            pushes = _pushes(source.job, trace, fate)
            if len(pushes):
                self._folder.note(fate.name, {}, pushes)
        self._n_rounds += 1
        if len(trace.totals) and self._n_rounds % _ROUNDS_TO_TOTALS == 1:
            self._folder.note("LAST", {}, trace.totals)
        for rows in (trace.transfers, trace.spans):
            if len(rows):
                self._folder.note_messages(rows)
        digests, state = members.ask() if members is not None else (_NOTHING, None)
        if len(digests):
            self._folder.note("DIGS", {}, digests)
        if state is not None:
            self._folder.keep_state(*state)

    def _note_once(self, kind: str, plain: dict[str, Any]) -> None:
        if self._newest.get(kind) != plain and any(plain.values()):
            self._newest[kind] = plain
            self._folder.note(kind, plain)

    def _finish(self, source: TrainingFacts) -> None:
        trace, failure = source.trace(), self._failure
        plain = {
            "step": source.step(),
            "error": to_plain(failure) if failure is not None else None,
            "n_steps": [[*key, n] for key, n in source.n_steps().items()],
            "saves": [[*row] for row in trace.saves],
            "unread": trace.kept.unread,
            "lost": {str(member): text for member, text in source.lost().items()},
        }
        self._folder.note("LAST", {}, trace.totals)
        flat = source.final()
        final = None if flat is None else unflatten(source.job.layout, flat)
        self._folder.end(plain, final)


def _pushes(job: Job, trace: Trace, kind: TransferKind) -> Rows:
    """Return whose pushes the servers took, or found late, in their order.

    Only where that decides: in asynchronous steps, and with backup workers.
    """
    deciding = [
        epoch.number
        for epoch in trace.epochs
        if job.schedule_of(not epoch.is_asynchronous).is_served
    ]
    table = trace.transfers
    is_one = table["kind"] == kind
    table = table[is_one & np.isin(table["epoch"], deciding)]
    names = {"server": "destination", "worker": "source"}
    pushes = np.empty(len(table), PUSH)
    for name in PUSH.names or ():
        pushes[name] = table[names.get(name, name)]
    return np.unique(pushes)  # a push in several messages counts once


def recorder_of(value: object, work: Work | None) -> Recorder:
    """Return the recorder that `record=` asks for."""
    return Recorder(recording_of(value), work)


# --------------------------------------------------------------------------------------
# What the members are asked for: digests and states.


State = tuple[int, dict[str, Array]]

# How far ahead a state is asked for. All members must hear of it before they have done
# that step; when one has not, it is twice as far the next time.
_LEAST_AHEAD: Final = 3  # steps
_AHEAD_S: Final = 0.02
_MOST_AHEAD_S: Final = 2.0


class AskedMembers:
    """Asks the members of a training on behalf of its recorder, in one thread."""

    def __init__(self, source: TrainingFacts, options: Recording) -> None:
        self._source, self._every_s = source, options.state_every_s
        self._callers: dict[int, Caller] = {}
        self._job, self._cursor = source.job, 0
        self._at: int | None = None  # the step whose state is asked for
        self._shards: dict[int, Shard] = {}
        self._ahead_s, self._due = _AHEAD_S, time.monotonic()
        self._seen = self._due, source.step()

    def ask(self) -> tuple[Rows, State | None]:
        """Return new digests, and a state if one is complete.

        Members that cannot be reached are asked again the next time.
        """
        if self._source.job is not self._job:  # of the next generation
            self.close()
            self._callers = {}
            self._job, self._cursor = self._source.job, 0
            self._forget()
        self._choose_step()
        digests: list[Any] = []
        coordinator = self._job.coordinator
        members = [coordinator]
        if self._at is not None:
            lost = self._source.lost()  # they answer no more, and have no state
            members = [n for n, _ in enumerate(self._job.tasks) if n not in lost]
        for member in members:
            if self._source.is_silent(member):  # to dial it would take long
                continue
            try:
                reply = self._ask(member)
            except KitError:
                caller = self._callers.pop(member, None)
                if caller is not None:
                    caller.close()
                continue
            if member == coordinator:
                self._cursor = reply["cursor"]
                digests = reply["digests"]
        return self._rows(digests), self._state()

    def _ask(self, member: int) -> dict[str, Any]:
        job, at = self._job, self._at
        if member in self._shards:
            at = None  # its state is here; the coordinator is asked for digests alone
        if member not in self._callers:
            self._callers[member] = self._source.reach(member)
        question = {"run": job.run, "at": at, "since": self._cursor}
        limit_s = job.settings.call_deadline_s
        reply, blob = self._callers[member].call("run.recorded", limit_s, question)
        if at is not None and reply["state"] is not None:
            self._shards[member] = Shard.from_plain(reply["state"], blob)
        elif at is not None and reply["step"] > at and self._at is not None:
            self._is_late = True
        return dict(reply)

    def _choose_step(self) -> None:
        """Choose a step that no member has done yet, if a state is due."""
        now, step = time.monotonic(), self._source.step()
        begun, before = self._seen
        self._seen, self._is_late = (now, step), False
        row = self._source.epoch()
        is_asynchronous = row is not None and row.is_asynchronous
        if self._at is not None or now < self._due or row is None or is_asynchronous:
            return
        pace = (step - before) / max(now - begun, 1e-3)
        # The step that is known here may be a tenth of a second old.
        ahead = math.ceil(pace * (self._ahead_s + 0.1))
        at = step + max(_LEAST_AHEAD, ahead)
        if at < self._job.steps:
            self._at, self._due = at, now + self._every_s

    def _state(self) -> State | None:
        """Return the state that was asked for, if all that update have sent theirs."""
        job, at, shards = self._job, self._at, self._shards
        if at is None:
            return None
        if not is_whole(shards.values(), self._source.lost()):
            if self._is_late:  # a member had done the step before it was asked
                self._ahead_s = min(2 * self._ahead_s, _MOST_AHEAD_S)
                self._forget()
            return None
        values = values_of(shards.values(), job.layout, job.slots)
        for name, worker in states_of(job).items():
            if worker in shards:  # else it is lost
                values[name] = np.frombuffer(shards[worker].kept, np.uint8)
        self._forget()
        return at, values

    def _forget(self) -> None:
        self._at, self._shards = None, {}

    def _rows(self, digests: list[Any]) -> Rows:
        number = self._job.generation.n_changes
        return rows_of(
            DIGEST,
            (
                (number, epoch, step, writer, value)
                for epoch, step, shares in digests
                for writer, value in shares
            ),
        )

    def close(self) -> None:
        """Close all links; what is being asked now fails. From any thread."""
        for caller in list(self._callers.values()):
            caller.close()
