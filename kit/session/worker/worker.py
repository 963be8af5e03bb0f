"""The worker service of a task: keeps segments, and runs them when a master says so."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kit.errors import AbortedError, CancelledError, KitError
from kit.graph.dtypes import Array
from kit.session.client.feeds_on_tasks import present
from kit.session.master.partition import Segment, TensorMove
from kit.session.transport.channel import Channel
from kit.session.transport.peers import Peers
from kit.session.transport.watch import Watch
from kit.session.worker.program import SegmentProgram
from kit.session.worker.step import SessionKey, Step, Ways
from kit.session.worker.task_runtime import TaskRuntime
from kit.task import Task
from kit.wire.link import Link

# --------------------------------------------------------------------------------------
# Where tensors from other tasks are kept for the op that needs them.
#
# A tensor may arrive before its step has begun here. What arrives for a step that has
# ended is dropped. So are tensors of steps that do not begin within a minute, and the
# oldest when there are too many: another task must not be able to fill our memory.


_ENDED_KEPT: Final = 1024  # a late tensor of an older step is dropped after a minute
_UNASKED_S: Final = 60.0
_MOST_UNASKED: Final = 1024
_MOST_TENSORS: Final = 2**16  # of one step


class Rendezvous:
    """The tensors that have arrived, by step and number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._arrived: dict[int, dict[int, Any]] = {}
        self._since: dict[int, float] = {}
        self._begun: set[int] = set()
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """How many steps have something here."""
        return len(self._arrived)

    def put(self, step: int, number: int, value: Any) -> None:
        """Keep a tensor of a step."""
        with self._changed:
            if step in self._ended:
                return
            self._drop_unasked()
            self._since.setdefault(step, self._clock())
            box = self._arrived.setdefault(step, {})
            if len(box) < _MOST_TENSORS:
                box[number] = value
            self._changed.notify_all()

    def take(self, step: Step, number: int, what: str) -> Any:
        """Return a tensor when it is there; raises as `Step.check` does."""
        with self._changed:
            box = self._arrived.setdefault(step.number, {})
            with step.waiting(lambda: what):
                while number not in box:
                    step.check(what)
                    self._changed.wait(step.left_s)
            return box.pop(number)

    def begin(self, step: int) -> None:
        """Note that a step has begun here."""
        with self._changed:
            self._begun.add(step)

    def end(self, step: int) -> None:
        """Forget a step."""
        with self._changed:
            self._forget(step)
            self._ended[step] = None
            while len(self._ended) > _ENDED_KEPT:
                self._ended.popitem(last=False)

    def wake(self) -> None:
        """Let all threads that wait check their step again."""
        with self._changed:
            self._changed.notify_all()

    def _forget(self, step: int) -> None:
        self._arrived.pop(step, None)
        self._since.pop(step, None)
        self._begun.discard(step)

    def _drop_unasked(self) -> None:
        before = self._clock() - _UNASKED_S
        waiting = [
            since for since in self._since.items() if since[0] not in self._begun
        ]
        n_too_many = len(waiting) - _MOST_UNASKED
        for n_older, (step, at) in enumerate(waiting):
            if at < before or n_older < n_too_many:
                self._forget(step)


_MOST_SESSIONS: Final = 512
_TELL_S: Final = 2.0
_MOST_ENDED: Final = 1024


class Worker:
    """What a task does for the masters of its cluster.

    `incarnation` is drawn at each start, so that a restart is noticed.
    """

    def __init__(
        self, runtime: TaskRuntime, peers: Peers, watch: Watch | None = None
    ) -> None:
        self.runtime, self.peers, self.watch = runtime, peers, watch or Watch()
        self.task = runtime.task
        self.incarnation = secrets.randbits(62) | 1
        self.rendezvous = Rendezvous()
        # Drawn too: the token of a segment in the process before must match none here.
        self._tokens = itertools.count(secrets.randbits(31))
        self._programs: dict[int, tuple[SessionKey, SegmentProgram]] = {}
        self._sessions: OrderedDict[SessionKey, None] = OrderedDict()  # as used last
        self._ended: OrderedDict[SessionKey, None] = OrderedDict()
        self.steps: dict[int, Step] = {}
        self._lock = threading.Lock()

    def register(
        self, session: SessionKey, segment: Segment, *, isolated: bool = False
    ) -> int:
        """Make a segment ready to run; returns its number on this task.

        Raises `AbortedError` for a session that has ended. When there are more sessions
        than a task keeps, the one that has not run for longest is forgotten: its master
        has probably gone without a word.
        """
        if session in self._ended:
            raise AbortedError(f"{self.task} was told that this session is closed.")
        self._used(session)
        self.runtime.begin_session(session, isolated=isolated)
        program = SegmentProgram(segment, self.runtime)
        with self._lock:
            token = next(self._tokens) % 2**32
            self._programs[token] = session, program
        return token

    def check_incarnation(self, expected: int) -> None:
        """Raise `AbortedError` when a session has known this task before a restart."""
        if expected != self.incarnation:
            raise self._restarted()

    def run(self, token: int, step: Step, feeds: Sequence[Array]) -> list[Any]:
        """Run a segment once; returns its fetches.

        Raises `AbortedError` when this task does not know the segment: it was
        restarted, or the session was closed.
        """
        session_state = self.runtime.session_state(step.session)
        entry = self._programs.get(token)
        if entry is None or entry[0] != step.session or session_state is None:
            raise self._restarted()
        # Taken now: if the session ends meanwhile, what is late must change this state,
        # which nobody sees any more, and no other.
        step.session_state = session_state
        self._used(step.session)
        self.steps[step.number] = step
        self.rendezvous.begin(step.number)
        try:
            return entry[1].run(step, present(feeds))
        finally:
            self.steps.pop(step.number, None)
            self.rendezvous.end(step.number)

    def abort(self, step: Step, error: KitError, *, spare: Link | None = None) -> None:
        """End a step from another thread; a thread that waits in it gets `error`."""
        # In this order: what is woken must find the error.
        step.abort(error, spare=spare)
        self.rendezvous.wake()

    def wait_of(self, number: int, session: SessionKey) -> str:
        """Return what a step of a session waits for here, or that it computes."""
        step = self.steps.get(number)
        if step is None or step.session != session:
            return ""
        return self.wait_of_step(step)

    def wait_of_step(self, step: Step) -> str:
        """Return what a step waits for; the task that it waits for is asked."""
        waits_for = step.waits_for
        if waits_for is None:
            return f"the end of a computation on {self.task}"
        what, task = waits_for
        words = ""
        # Only a master asks, so questions go no further than one task.
        if task is not None and step.session[0] == self.task:
            meta = {"op": "wait_of", "step": step.number}
            with suppress(KitError):
                words = str(self.peers.ask(task, meta, _TELL_S).meta["wait"])
        return words or what()

    def end_session(self, session: SessionKey) -> None:
        """Forget a session: its segments and its own state; variables stay.

        Its key is remembered, as a `register` that is late must be refused.
        """
        with self._lock:
            old = [token for token, (of, _) in self._programs.items() if of == session]
            for token in old:
                del self._programs[token]
            self._sessions.pop(session, None)
            self._ended[session] = None
            while len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)
        self.runtime.end_session(session)

    def _used(self, session: SessionKey) -> None:
        """Note that a session is in use; forget the least recently used of too many."""
        with self._lock:
            self._sessions[session] = None
            self._sessions.move_to_end(session)
            is_many = len(self._sessions) > _MOST_SESSIONS
            oldest = next(iter(self._sessions))
        if is_many:
            self.end_session(oldest)

    @property
    def n_segments(self) -> int:
        """How many segments are registered."""
        return len(self._programs)

    @property
    def n_sessions(self) -> int:
        """How many sessions have segments here."""
        return len(self._sessions)

    def reset(self, containers: Sequence[str]) -> None:
        """Forget the state in some containers."""
        self.runtime.store.clear(containers)

    def close(self) -> None:
        """End all steps and all links to other tasks, and forget all state."""
        for step in list(self.steps.values()):
            self.abort(step, CancelledError(f"{self.task} was stopped."))
        self.peers.close()
        self.watch.close()
        self.runtime.store.clear()  # values may be in memory that other tasks lend

    def _restarted(self) -> AbortedError:
        return AbortedError(
            f"{self.task} does not know this session: it was restarted, and its "
            f"variables are lost. Make a new session, and initialise or restore.",
            task=str(self.task),
        )


class ParticipantWays(Ways):
    """How tensors move in a step of another task's master."""

    def __init__(self, worker: Worker, master: Task, link: Link) -> None:
        self._worker, self._master, self._link = worker, master, link
        self._channel: Channel | None = None

    def send(self, step: Step, move: TensorMove, value: Any) -> None:
        """Send to the master over its channel, to others over our own links."""
        along = step.note_sending()
        if move.peer == self._master:
            self._to_master(step).send_tensor(step, move.number, along, value)
        else:
            self._worker.peers.push(step, move.peer, move.number, along, value)

    def receive(self, step: Step, move: TensorMove) -> Any:
        """Read the master's channel, or wait for what others push here."""
        message = None
        what = f"{move.tensor!r} from {move.peer}"
        if move.peer == self._master:
            message = self._to_master(step).receive(step, move.number, what)
        if message is None:
            message = self._worker.rendezvous.take(step, move.number, what)
        return step.take(move, message)

    def _to_master(self, step: Step) -> Channel:
        if self._channel is None:
            push = partial(self._worker.peers.push, step, self._master)
            self._channel = Channel(self._link, push)
        return self._channel
