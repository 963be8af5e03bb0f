"""Messages from task to task: sent to the other task's server, received from ours."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.errors import DeadlineExceededError, InvalidArgumentError, KitError
from kit.groups.mailbox import Parcel
from kit.groups.state import CallUnderWay, GroupState
from kit.groups.values import Form, Value, leaves, n_bytes, packed, rebuilt
from kit.trace.traffic import Phase, TransferKind

_MOST_BYTES = (1 << 30) - (1 << 20)  # a frame and its head
_LOOK_S, _MORE_S = 0.002, 5.0
_KIND = TransferKind.MESSAGE


@dataclass(frozen=True)
class GroupMessage:
    """What `receive_message` returns.

    Parameters
    ----------
    value : array, number, dict or list
        What was sent.
    source : int
        The rank that sent it.
    tag : int
        Its tag.
    """

    value: Any
    source: int
    tag: int


class Pending:
    """Something that was begun, such as `isend`: `wait()` for it, or await it."""

    def __init__(self, finish: Callable[[], Any], is_done: Callable[[], bool]) -> None:
        self._finish, self._is_done = finish, is_done
        self._result: list[Any] = []

    @property
    def done(self) -> bool:
        """Whether `wait` would return at once."""
        return bool(self._result) or self._is_done()

    def wait(self) -> Any:
        """Return the result when it is there; raises what has failed."""
        if not self._result:
            self._result.append(self._finish())
        return self._result[0]

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        while not self.done:
            await asyncio.sleep(_LOOK_S)
        return self.wait()


@dataclass
class _Sending:
    """A message on its way out."""

    form: Form
    data: bytes
    to: int
    tag: int
    generation: int
    error: KitError | None = None
    is_done: bool = False


class Messages:
    """One task's messages in one group."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._out: dict[int, deque[_Sending]] = {}
        self._changed = threading.Condition()

    def send(self, value: Value, to: int, tag: int) -> None:
        """Send and wait until it lies there."""
        sending = self._packed(value, to, tag)
        with self._changed:
            is_free = not self._out.get(to)
        if is_free:
            self._deliver(sending)
            return
        self._enqueue(sending)
        self._finish(sending)

    def begin_send(self, value: Value, to: int, tag: int) -> Pending:
        """Send in another thread, after what was sent there before."""
        sending = self._packed(value, to, tag)
        self._enqueue(sending)
        return Pending(lambda: self._finish(sending), lambda: sending.is_done)

    def receive(self, call: CallUnderWay) -> GroupMessage:
        """Wait for the message that a call wants, and return it."""
        state = self._state
        # The watch ends a call in time, and says who is missing.
        deadline = time.monotonic() + state.members.timeout_s + _MORE_S
        at = state.generation, call.source, call.tag
        parcel = state.mailbox.take(*at, state.check, deadline)
        if parcel is None:
            raise DeadlineExceededError(
                f"no message arrived within {state.members.timeout_s:g} s; allow more "
                f"with kit.group(timeout_s=...)."
            )
        message = GroupMessage(_opened(parcel), parcel.source, parcel.tag)
        if state.meter.trace:
            self._note(parcel, call)
        return message

    def _note(self, parcel: Parcel, call: CallUnderWay) -> None:
        state, now = self._state, time.monotonic_ns()
        state.moved_in = state.used_in
        times = parcel.sent, parcel.usable, call.begun, now
        at = parcel.tag, parcel.generation + 1, call.where[1]
        n_bytes = len(parcel.data)
        state.history.asked_for(parcel.source, *at, times, n_bytes)
        # Until it was there the task has waited; the rest is unpacking.
        there = min(max(parcel.usable, call.begun), now)
        state.meter.span(Phase.WAIT, state.number, call.begun, there)
        state.meter.span(Phase.RECEIVE, state.number, there, now)

    def has(self, source: int | None, tag: int | None) -> bool:
        """Whether there is a message to receive, or a failure to raise."""
        state = self._state
        failure = state.failure
        if failure is not None and failure[0] >= state.generation:
            return True
        return self.probe(source, tag) is not None

    def probe(self, source: int | None, tag: int | None) -> tuple[int, int] | None:
        """Return source and tag of the next message, if it has arrived."""
        message = self._state.mailbox.find(self._state.generation, source, tag)
        if message is None or message.usable > time.monotonic_ns():
            return None
        return message.source, message.tag

    def _packed(self, value: Value, to: int, tag: int) -> _Sending:
        if value.n_bytes > _MOST_BYTES:
            raise InvalidArgumentError(
                f"a message has at most {_MOST_BYTES:,} bytes, and this one "
                f"{value.n_bytes:,}; send it in parts."
            )
        data = b"".join(array.tobytes() for array in value.arrays)
        return _Sending(value.form, data, to, tag, self._state.generation)

    def _enqueue(self, sending: _Sending) -> None:
        with self._changed:
            self._state.n_messages_sending += 1
            queue = self._out.setdefault(sending.to, deque())
            queue.append(sending)
            if len(queue) > 1:
                return  # the thread of that queue goes on with it
        threading.Thread(
            target=self._send_all,
            args=(sending.to,),
            name="kit-group-send",
            daemon=True,
        ).start()

    def _send_all(self, to: int) -> None:
        queue = self._out[to]
        while True:
            sending = queue[0]
            try:
                self._deliver(sending)
            except KitError as error:
                sending.error = error
            with self._changed:
                sending.is_done = True
                self._state.n_messages_sending -= 1
                queue.popleft()
                self._changed.notify_all()
                if not queue:
                    return

    def _finish(self, sending: _Sending) -> None:
        with self._changed:
            self._changed.wait_for(lambda: sending.is_done)
        if sending.error is not None:
            raise sending.error

    def _deliver(self, sending: _Sending) -> None:
        state, size, now = self._state, len(sending.data), time.monotonic_ns()
        me = state.members.me
        if sending.to == me:
            at = sending.generation, me, sending.tag
            times = now, now, now
            state.mailbox.put(Parcel(*at, sending.form, sending.data, *times))
            return
        hold = state.line_out.reaches_at(now, size) - now if state.line_out else 0
        values = {
            "generation": sending.generation,
            "source": me,
            "tag": sending.tag,
            "form": packed(sending.form).decode(),
            "hold": hold,
            "sent": now,
        }
        state.talks.ask(
            *(state.members, sending.to, "group.put", values),
            blob=sending.data,
            deadline_s=state.members.settings.dead_after_s,
            for_messages=True,
        )
        state.moved_in = state.used_in
        if size:
            state.formula[me, sending.to, _KIND] += size
        if state.meter.trace:
            state.meter.span(Phase.SEND, state.number, now, time.monotonic_ns())


def put(state: GroupState, values: dict[str, Any], blob: bytearray) -> None:
    """Take a message that has come; counts it."""
    now, size = time.monotonic_ns(), len(blob)
    usable = now + values["hold"]
    if state.line_in is not None:
        usable = state.line_in.arrives_at(usable, size)
    parcel = Parcel(
        values["generation"],
        values["source"],
        values["tag"],
        values["form"],
        blob,
        now,
        usable,
        sent_at(state.members.same_clock(values["source"]), values["sent"], now),
    )
    state.mailbox.put(parcel)
    _count(state, parcel)


def sent_at(has_same_clock: bool, sent: int, now: int) -> int:
    """Return when a message was sent by our clock: of another host's, when it came."""
    return min(sent, now) if has_same_clock else now


def count_kept(state: GroupState) -> None:
    """Count the messages that came before this task had made the group."""
    for parcel in state.mailbox.kept:
        _count(state, parcel)


def _count(state: GroupState, parcel: Parcel) -> None:
    size = len(parcel.data)
    if size:
        at = parcel.source, int(_KIND), parcel.generation + 1
        state.meter.received(*at, state.number, size, parcel.posted, parcel.usable)


def _opened(parcel: Parcel) -> Any:
    arrays, at = [], 0
    for dtype, shape in leaves(parcel.form):
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(parcel.data, dtype, count, at) if count else ()
        arrays.append(np.array(flat, dtype).reshape(shape))
        at += n_bytes(dtype, shape)
    return rebuilt(parcel.form, arrays)
