"""Questions and answers over a link: one at a time, each with a deadline.

A question is `{"op": name, ...}` with an optional blob, an answer a dict with an
optional blob or an error, which is raised again where the question was asked. What
answers a question is declared with its fields, so none is answered unchecked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kit.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    UnimplementedError,
    from_plain,
    to_plain,
)
from kit.message_fields import Fields, check, shown
from kit.wire.frame import Buffer
from kit.wire.link import Link
from kit.wire.local.descriptors import send_fds
from kit.wire.message import pack_message

Answer = tuple[dict[str, Any], Buffer]


class Handler(NamedTuple):
    """What a question may carry, and what answers it: from the values and the blob."""

    fields: Fields
    answer: Callable[[dict[str, Any], bytearray], Answer]


_IDLE_S = 3600.0  # an idle link is kept; the peer's end is noticed at once anyway


class Caller:
    """The asking end of a link. Threads take turns.

    `is_closed`: it was closed on this side, so nothing can be asked any more.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.is_closed = False
        self._turn = threading.Lock()

    def call(
        self,
        op: str,
        deadline_s: float,
        values: Mapping[str, Any] | None = None,
        *,
        blob: Buffer = b"",
        descriptors: Sequence[int] = (),
    ) -> tuple[dict[str, Any], bytearray]:
        """Ask and wait for the answer.

        `descriptors` follow the question, if what answers it takes them from the
        stream: on a unix socket, for a role whose links do not read ahead.

        Raises the error that the other side answered with, `LinkLost`, or
        `DeadlineExceededError`; after the last two, and after an interrupt, the link is
        of no more use, because a late answer would be taken for that of the next
        question.
        """
        with self._turn:
            message = pack_message({**(values or {}), "op": op}, blob)
            try:
                self.link.send(*message, deadline_s=deadline_s)
                if descriptors:
                    deadline = time.monotonic() + deadline_s
                    send_fds(self.link.stream, descriptors, deadline)
                reply, body = self.link.recv_message(deadline_s=deadline_s)
            except InvalidArgumentError:
                raise  # nothing was asked, or the link has ended by itself
            except BaseException:
                self.close()
                raise
        if "error" in reply and reply.get("failed"):
            raise from_plain(reply["error"])
        return reply, body

    def close(self) -> None:
        """Close the link."""
        self.is_closed = True  # first: an interrupt may come while it is being closed
        self.link.close()


class ReconnectingCaller:
    """Asks over a link, and over a new one where an answer does not come.

    When a line that was cut is whole again, a new connection gets through at once; what
    TCP has kept for the old one may follow much later. A question may thus be heard
    twice: only those that can bear it are asked here. Threads take turns.
    """

    def __init__(
        self,
        dial: Callable[[float], Caller],
        attempt_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Dial at the first question; `dial` gets the time when it has to be done.

        After `attempt_s` without an answer it dials anew.
        """
        self._dial, self._attempt_s, self._clock = dial, attempt_s, clock
        self._caller: Caller | None = None
        self._is_closed = False
        self._turn = threading.Lock()

    def call(
        self,
        op: str,
        deadline_s: float,
        values: Mapping[str, Any] | None = None,
        *,
        patience_s: float = 0.0,
        blob: Buffer = b"",
    ) -> tuple[dict[str, Any], bytearray]:
        """Ask until there is an answer, which may rightly take `patience_s`.

        Raises as `Caller.call` does, `DeadlineExceededError` after `deadline_s` and
        `patience_s`, and what `dial` raises. A peer that has closed its end is
        not dialled.
        """
        attempt_s = self._attempt_s + patience_s
        give_up = self._clock() + deadline_s + patience_s
        with self._turn:
            while True:
                caller = self._connected(give_up)
                rest = give_up - self._clock()
                if caller.link.transport != "unix":  # which nobody can cut
                    rest = min(rest, attempt_s)
                try:
                    return caller.call(op, rest, values, blob=blob)
                except DeadlineExceededError:
                    # The other side may have answered so.
                    if not caller.is_closed or self._clock() >= give_up:
                        raise

    @property
    def is_connected(self) -> bool:
        """Whether there is a link, and the last question on it had an answer."""
        return self._caller is not None and not self._caller.is_closed

    def close(self) -> None:
        """Close the link, for good."""
        self._is_closed = True
        if self._caller is not None:
            self._caller.close()

    def _connected(self, give_up: float) -> Caller:
        if self._caller is None or (self._caller.is_closed and not self._is_closed):
            self._caller = self._dial(give_up)
        if self._is_closed:
            self._caller.close()
            raise LinkLost("the link was closed on this side.")
        return self._caller


def serve(
    link: Link,
    handlers: Mapping[str, Handler],
    deadline_s: float,
    unexpected: Callable[[str, BaseException], None] = lambda op, error: None,
) -> int:
    """Answer questions until the other side closes the link, which is closed then.

    Returns how many were asked. A question whose values are not those that its handler
    declares is answered with `InvalidArgumentError`. An exception of a handler is the
    answer; `unexpected` gets those that are not errors of this package.
    """
    n_asked = 0
    with link:
        while True:
            try:
                question, blob = link.recv_message(deadline_s=_IDLE_S)
            except DeadlineExceededError:
                continue
            except KitError:
                return n_asked
            n_asked += 1
            reply, body = _answer(handlers, question, blob, unexpected)
            try:
                link.send_message(reply, body, deadline_s=deadline_s)
            except (LinkLost, DeadlineExceededError):
                return n_asked


def _answer(
    handlers: Mapping[str, Handler],
    question: dict[str, Any],
    blob: bytearray,
    unexpected: Callable[[str, BaseException], None],
) -> Answer:
    op = question.pop("op", "")
    handler = handlers.get(op) if isinstance(op, str) else None
    try:
        if handler is None:
            raise UnimplementedError(f"this task does not answer {shown(op)}.")
        return handler.answer(check(op, handler.fields, question), blob)
    except Exception as error:
        if not isinstance(error, KitError):
            unexpected(op, error)
        return {"failed": True, "error": to_plain(error)}, b""
