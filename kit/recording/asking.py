"""What the recorder asks the members of a training: digests and states."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kit.errors import KitError
from kit.exchange.layout import merge
from kit.exchange.ports.memory import Array
from kit.recording.folder import DIGEST, rows_of
from kit.recording.options import Recording
from kit.trace.log import Rows
from kit.training.elastic.copies import StateCopy, put_together
from kit.wire.rpc import Caller

if TYPE_CHECKING:
    from kit.training.client.observer import Observer

State = tuple[int, dict[str, Array]]

_LEAST_AHEAD: Final = 3  # steps
_AHEAD_S: Final = 0.02
_MOST_AHEAD_S: Final = 2.0


class AskedMembers:
    """The members of a training, as its recorder asks them. One thread uses it."""

    def __init__(self, observer: Observer, options: Recording) -> None:
        self._observer, self._every_s = observer, options.state_every_s
        self._callers: dict[int, Caller] = {}
        self._job, self._cursor = observer.job, 0
        self._at: int | None = None  # the step whose state is asked for
        self._copies: dict[int, StateCopy] = {}
        self._ahead_s, self._due = _AHEAD_S, time.monotonic()
        self._seen = self._due, observer.step()

    def __enter__(self) -> AskedMembers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def ask(self) -> tuple[Rows, State | None]:
        """Return new digests, and a state if one is complete.

        Members that cannot be reached are asked again the next time.
        """
        if self._observer.job is not self._job:  # the next generation of it
            self._close()
            self._job, self._cursor = self._observer.job, 0
            self._forget()
        self._choose_step()
        digests: list[Any] = []
        coordinator = self._job.coordinator
        members = (
            range(len(self._job.tasks)) if self._at is not None else (coordinator,)
        )
        for member in members:
            try:
                found = self._ask(member)
            except KitError:
                caller = self._callers.pop(member, None)
                if caller is not None:
                    caller.close()
                continue
            if member == coordinator:
                self._cursor = found["cursor"]
                digests = found["digests"]
        return self._rows(digests), self._state()

    def _ask(self, member: int) -> dict[str, Any]:
        job, at = self._job, self._at
        if member in self._copies:
            at = None
        if member not in self._callers:
            self._callers[member] = self._observer.reach(member)
        question = {"run": job.run, "at": at, "since": self._cursor}
        limit_s = job.settings.call_deadline_s
        found, blob = self._callers[member].call("run.recorded", limit_s, question)
        if at is not None and found["state"] is not None:
            self._copies[member] = StateCopy.from_plain(found["state"], blob)
        elif at is not None and found["step"] > at and self._at is not None:
            self._is_late = True
        return dict(found)

    def _choose_step(self) -> None:
        """Ask for the state after a step that nobody has done yet, if one is due."""
        now, step = time.monotonic(), self._observer.step()
        begun, before = self._seen
        self._seen, self._is_late = (now, step), False
        row = self._observer.epoch()
        is_asynchronous = row is not None and row.is_asynchronous
        if self._at is not None or now < self._due or row is None or is_asynchronous:
            return
        pace = (step - before) / max(now - begun, 1e-3)
        # The observer's step may be a tenth of a second old.
        ahead = math.ceil(pace * (self._ahead_s + 0.1))
        at = step + max(_LEAST_AHEAD, ahead)
        if at < self._job.steps:
            self._at, self._due = at, now + self._every_s

    def _state(self) -> State | None:
        """Return the state that was asked for, if all that update have sent theirs."""
        job, at, copies = self._job, self._at, self._copies
        if at is None:
            return None
        found = merge(part for copy in copies.values() for part in copy.ranges)
        whole = merge(bucket.range for bucket in job.layout.buckets)
        keeping = job.recorded_states
        if not whole or found != whole or not copies.keys() >= {*keeping.values()}:
            if self._is_late:  # somebody had done the step before it was asked
                self._ahead_s = min(2 * self._ahead_s, _MOST_AHEAD_S)
                self._forget()
            return None
        values = put_together(job.layout, job.slots, copies.values())
        for name, worker in keeping.items():
            values[name] = np.frombuffer(copies[worker].kept, np.uint8)
        self._forget()
        return at, values

    def _forget(self) -> None:
        self._at, self._copies = None, {}

    def _rows(self, digests: list[Any]) -> Rows:
        generation = self._job.generation
        number = generation.n_changes if generation is not None else 0
        return rows_of(
            DIGEST,
            (
                (number, epoch, step, writer, value)
                for epoch, step, shares in digests
                for writer, value in shares
            ),
        )

    def _close(self) -> None:
        for caller in self._callers.values():
            caller.close()
        self._callers.clear()
