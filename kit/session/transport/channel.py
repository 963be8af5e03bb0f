"""A link that belongs to one run at a time, between its master and one more task.

    begins with   SEGMENT and the feeds
    either way    TENSOR, as long as there is room
    either way    LATER: from here on tensors are pushed over links of their own
    ends with     DONE and the fetches, or FAILED

Neither end reads while it computes, and both may have much to send. So no more is sent
on the channel than is sure to fit into the buffers of a socket. What is pushed instead
is read at once, by a thread that does nothing else: so no two tasks can wait for each
other to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kit.errors import (
    DeadlineExceededError,
    InternalError,
    KitError,
    LinkLost,
    from_plain,
)
from kit.graph.dtypes import STRING, Array
from kit.session.transport.message import Act, Message, recv, send
from kit.session.worker.step import Step
from kit.wire.link import Link

# What is sure to fit into the buffers of a socket: unix sockets have 208 KiB, of which
# each frame takes about 1 KiB besides its bytes.
_ROOM_BYTES: Final = 64 * 1024
_ROOM_FRAMES: Final = 64

# A task knows better than its master what it waited for, so its error should be first.
GRACE_S: Final = 0.5

# Pushes a tensor over a link of its own.
Push = Callable[[int, dict[str, Any], Any], None]


class Channel:
    """One end of a link during one run. Only the run's own thread uses it."""

    def __init__(self, link: Link, push: Push, grace_s: float = 0.0) -> None:
        """Use an idle link. `push` takes what has no room on the channel."""
        self.link = link
        self.has_spilled = False  # the other end pushes from here on
        self.has_question = False  # with its answer due, no other run may read here
        self._push, self._grace_s = push, grace_s
        self._room_bytes, self._room_frames = _ROOM_BYTES, _ROOM_FRAMES
        self._tensors: dict[int, Message] = {}
        self._answer: Message | None = None
        self._error: KitError | None = None

    def send_tensor(
        self, step: Step, number: int, meta: dict[str, Any], value: Array | None
    ) -> None:
        """Send a tensor (None: only that its op is done)."""
        if not self._has_room(value):
            self._push(number, meta, value)
            return
        send(
            self.link,
            Act.TENSOR,
            deadline_s=step.left_s,
            number=number,
            step=step.number,
            meta=meta,
            arrays=() if value is None else (value,),
        )

    def receive(self, step: Step, number: int, what: str) -> Message | None:
        """Return a tensor; None when it will be pushed instead.

        Raises the error that the other end answered in its place.
        """
        while number not in self._tensors:
            if self.has_spilled:
                return None
            if self._answer is not None:
                raise self._error or InternalError(
                    f"{self.link.peer} ended its run without {what}."
                )
            self._read(step, what)
        return self._tensors.pop(number)

    def answer(self, step: Step) -> Message:
        """Return what ends the run; raises it if it is an error."""
        while self._answer is None:
            self._read(step, f"the answer of {self.link.peer}")
        if self._error is not None:
            raise self._error
        return self._answer

    @property
    def is_done(self) -> bool:
        """Whether the other end has ended its part in order."""
        return self._answer is not None and self._answer.act == Act.DONE

    @property
    def is_clean(self) -> bool:
        """Whether nothing is under way on the link: another run may have it."""
        return self.is_done and not self.has_question

    def failure(self) -> KitError | None:
        """Return the error that ended the other end's part, if one has."""
        self._peek()
        return self._error

    def _has_room(self, value: Array | None) -> bool:
        if self._room_frames <= 0:
            return False
        n_bytes = 0 if value is None else value.nbytes
        if value is not None and value.dtype == STRING:
            n_bytes = _ROOM_BYTES + 1  # their size is known only when they are packed
        self._room_bytes -= n_bytes
        self._room_frames -= 1
        if self._room_bytes >= 0 and self._room_frames > 0:
            return True
        # For the rest of the run, however small: once the other end has read LATER, it
        # waits for all further tensors elsewhere.
        self._room_frames = 0
        send(self.link, Act.LATER, deadline_s=GRACE_S)
        return False

    def _read(self, step: Step, what: str) -> None:
        try:
            step.waits_for = (lambda: what), self.link.peer
            message = recv(self.link, step.left_s + self._grace_s)
            step.waits_for = None
            self._keep(step, message)
        except DeadlineExceededError:
            raise step.too_late(what, self.link.peer) from None
        except LinkLost:
            if step.error is not None:  # its abort has closed the link
                raise step.error from None
            raise

    def _peek(self) -> None:
        """Take in what has arrived, without waiting."""
        try:
            while self._answer is None:
                self._keep(None, recv(self.link, 0.0))
        except KitError:
            return

    def _keep(self, step: Step | None, message: Message) -> None:
        match message.act:
            case Act.TENSOR:
                if step is not None and step.records is not None:
                    message.meta["came"] = step.clock()
                self._tensors[message.number] = message
            case Act.LATER:
                self.has_spilled = True
            case Act.FAILED:
                self._answer = message
                self._error = self._named(from_plain(message.meta.get("error")))
            case _:
                self._answer = message

    def _named(self, error: KitError) -> KitError:
        """Name the task in an error, as TensorFlow does."""
        task = self.link.peer
        error.message = (
            f"From /job:{task.job}/replica:0/task:{task.index}:\n{error.message}"
        )
        return error
