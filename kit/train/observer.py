"""Looks at all members of a training and learns when it is over.

One thread for each member asks for news, so a member that hangs delays no other's. The
observer holds nothing up: members answer from threads of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import closing
from typing import Any

import numpy as np

from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
    PeerLost,
    UnavailableError,
    to_plain,
)
from kit.log import Rows
from kit.membership import Epoch
from kit.task import Task
from kit.trace import EpochRow, Trace
from kit.train.job import Job
from kit.train.snapshot import LOGS
from kit.train.watching import Watched, gone
from kit.wire.rpc import Caller

Dial = Callable[[Task, str], Caller]
#: How much of each member's logs somebody has seen.
Cursors = tuple[tuple[int, ...], ...]

_FIRST_POLL_S, _POLL_S = 0.005, 0.1
_LAST_WORDS_S = 3.0  # the members' own reports explain more than a closed link


class Observer:
    """Knows a training from outside. Every method may be called from any thread."""

    def __init__(self, job: Job, dial: Dial, *, trusted: int | None = None) -> None:
        """Start to watch; `finished` gets its result when all members are over."""
        self.finished: Future[None] = Future()
        self.finished.set_running_or_notify_cancel()
        self._job, self._dial = job, dial
        self._trusted = job.coordinator if trusted is None else trusted
        limit = job.settings.trace_rows
        self._watched = [Watched(limit) for _ in job.tasks]
        self._guard = threading.Lock()
        self._pause = threading.Event()  # never set: a wait on it is a sleep
        self._give_up = float("inf")  # when those that still say nothing are left
        self._commands: Caller | None = None
        self._left = len(job.tasks)
        self._flat: bytearray | None = None
        for member, task in enumerate(job.tasks):
            name = f"kit-watch-{task.short}"
            threading.Thread(
                target=self._watch, args=(member,), name=name, daemon=True
            ).start()

    @property
    def leader(self) -> Watched:
        """The coordinator, as it is known here."""
        return self._watched[self._job.coordinator]

    def command(self, what: str, **values: Any) -> None:
        """Send a wish to the coordinator.

        Raises `FailedPreconditionError` when the training is over, and what the
        coordinator answers.
        """
        if self.finished.done():
            raise FailedPreconditionError(
                "the training is over; start another one with kit.train()."
            )
        values = {"run": self._job.run, "what": what, "values": values}
        with self._guard:
            if self._commands is None:
                task = self._job.tasks[self._job.coordinator]
                self._commands = self._dial(task, "")
            caller = self._commands
        limit = self._job.settings.call_deadline_s
        try:
            self.leader.leads, _ = caller.call("run.command", limit, values)
        except (UnavailableError, DeadlineExceededError):
            with self._guard:
                self._commands = None
            raise

    def wait(self, timeout: float | None) -> None:
        """Block until the training is over; see `Run.wait`."""
        try:
            self.finished.result(timeout)
        except NotInTime:
            if self.finished.done():
                raise
            raise DeadlineExceededError(
                f"the training is at step {self.step()} of {self._job.steps} after "
                f"{timeout:g} s; it goes on. Wait longer, or end it with run.stop()."
            ) from None

    def epoch(self) -> EpochRow | None:
        """Return the epoch that holds now."""
        epochs = self._watched[self._trusted].epochs
        return epochs[-1] if epochs else None

    def pending(self) -> str:
        """Return the topology that is wished and does not hold yet."""
        wish, epoch = self.wished(), (self.leader.leads or {}).get("epoch")
        if not wish or not epoch:
            return ""
        wished = Epoch.from_plain(wish).how
        return wished if wished != Epoch.from_plain(epoch).how else ""

    def wished(self) -> dict[str, Any] | None:
        """Return the configuration that is wished and does not hold yet, if any."""
        wish = (self.leader.leads or {}).get("pending")
        return None if self.finished.done() else wish

    def refused(self) -> str:
        """Return why the last wish was not taken up."""
        return str((self.leader.leads or {}).get("abandoned", ""))

    def leads(self) -> dict[str, Any]:
        """Return what the coordinator said last."""
        return self.leader.leads or {}

    def step(self) -> int:
        """Return the number of committed steps."""
        return max(one.step for one in self._watched)

    def state(self) -> str:
        """Return running, paused, done or failed."""
        if self.finished.done():
            return "failed" if self.finished.exception() else "done"
        paused = (self.leader.leads or {}).get("paused")
        return "paused" if paused else "running"

    def trace(self) -> Trace:
        """Return what is known so far."""
        return self._trace(
            np.concatenate([one.column(number) for one in self._watched])
            for number in range(len(LOGS))
        )

    def news(self, cursors: Cursors) -> tuple[Trace, Cursors]:
        """Return what came after `cursors` (() for the start), and where it ends.

        Epochs and totals are always whole.
        """
        cursors = cursors or ((0,) * len(LOGS),) * len(self._watched)
        found = [
            [one.since(number, cursor) for number, cursor in enumerate(begun)]
            for one, begun in zip(self._watched, cursors, strict=True)
        ]
        trace = self._trace(
            np.concatenate([logs[number][0] for logs in found])
            for number in range(len(LOGS))
        )
        return trace, tuple(tuple(end for _, end in logs) for logs in found)

    def _trace(self, columns: Iterable[Rows]) -> Trace:
        epochs = max((one.epochs for one in self._watched), key=len)
        totals = np.concatenate([one.totals for one in self._watched])
        transfers, spans, steps, measures = columns
        tasks = tuple(map(str, self._job.tasks))
        saves = self.leader.saves
        tables = (transfers, spans, steps, totals)
        return Trace(tasks, tuple(epochs), *tables, saves, measures)

    def lost(self) -> dict[int, str]:
        """Return the members that are gone, and what was said of them."""
        return gone(self._watched, self.leads().get("lost", {}))

    def parameters(self) -> bytearray:
        """Return the flat parameters of the last committed step."""
        if self._flat is not None:
            return self._flat
        return self._newest(self._trusted)

    def _newest(self, worker: int) -> bytearray:
        """Return a worker's parameters, or what the servers have where they lead."""
        flat, job = self._fetch(worker), self._job
        if self._is_asynchronous():  # a worker has only what it pulled last
            for server, shard in zip(job.ps, job.group.shards, strict=True):
                if self._watched[server].state == "lost":
                    continue  # what the worker pulled is the newest that is left
                held = self._fetch(server)
                for part in shard:
                    flat[part.lo : part.hi] = held[part.lo : part.hi]
        return flat

    def _is_asynchronous(self) -> bool:
        epoch = self.epoch()
        return epoch.is_asynchronous if epoch else not self._job.synchronous

    def _fetch(self, member: int) -> bytearray:
        limit = self._job.settings.step_deadline_s
        with closing(self._dial(self._job.tasks[member], "")) as caller:
            return caller.call("run.params", limit, {"run": self._job.run})[1]

    # -- one thread for each member ---------------------------------------------

    def _watch(self, member: int) -> None:
        watched, task = self._watched[member], self._job.tasks[member]
        try:
            try:
                with closing(self._dial(task, "")) as caller:
                    self._follow(caller, watched)
            except KitError as error:
                watched.lose(self._lost(task, watched.step, error))
            # Once it has begun a member that fails says so itself.
            if watched.error and (watched.state == "lost" or not watched.epochs):
                self._tell(member, watched.error)
        finally:
            self._end_of_one()

    def _follow(self, caller: Caller, watched: Watched) -> None:
        limit, pause_s = self._job.settings.dead_after_s, _FIRST_POLL_S
        while True:
            question = {"run": self._job.run, "cursors": watched.cursors}
            more = watched.take(*caller.call("run.poll", limit, question))
            if watched.is_over:
                return
            if time.monotonic() > self._give_up:
                return
            if not more:
                self._pause.wait(pause_s)
                # Longer each time: nobody waits half as long again as a training took.
                pause_s = min(1.5 * pause_s, _POLL_S)

    def _lost(self, task: Task, step: int, error: KitError) -> PeerLost:
        text = f"{task} is gone (step {step}): {error.message}"
        return PeerLost(text, task=str(task), step=step)

    def _tell(self, member: int, error: KitError) -> None:
        """Let the coordinator know of a member that failed or cannot be reached."""
        if member == self._job.coordinator:
            return
        lost = member if self._watched[member].state == "lost" else None
        values = {"run": self._job.run, "member": member, "lost": lost}
        values["error"] = to_plain(error)
        try:
            leader = self._job.tasks[self._job.coordinator]
            with closing(self._dial(leader, "")) as caller:
                caller.call("run.fail", self._job.settings.connect_deadline_s, values)
        except KitError:
            return  # the coordinator is gone too: its own watcher says so

    def _end_of_one(self) -> None:
        with self._guard:
            self._left -= 1
            if self._watched[self._trusted].is_over:
                self._give_up = min(self._give_up, time.monotonic() + _LAST_WORDS_S)
            if self._left:
                return
        error = self._verdict()
        self._keep_parameters()
        if self._commands is not None:
            self._commands.close()
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)

    def _verdict(self) -> KitError | None:
        """Return how it ended: by the trusted member, else the lost, else anybody."""
        trusted = self._watched[self._trusted]
        if trusted.state == "done":
            return None
        by_state = sorted(
            (one for one in self._watched if one.error is not None),
            key=lambda one: (one is not trusted, one.state != "lost"),
        )
        return by_state[0].error if by_state else PeerLost("the training was lost.")

    def _rank(self, worker: int) -> tuple[int, bool]:
        # A killed task may have left one worker a step ahead of another.
        return -self._watched[worker].step, worker != self._trusted

    def _keep_parameters(self) -> None:
        workers = [w for w in self._job.workers if self._watched[w].state != "lost"]
        for worker in sorted(workers, key=self._rank):
            try:
                self._flat = self._newest(worker)
            except KitError:
                continue
            return
