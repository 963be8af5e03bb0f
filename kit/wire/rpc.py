"""Questions and answers over a link, each with a deadline.

A question is `{"op": name, "question": number, ...}` with an optional blob, an answer
the same number and a dict with an optional blob, or an error, which is raised again
where the question was asked. Answers may come in another order than their questions:
one that waits for other tasks delays nothing else that is asked on the same link. A
handler is declared with the fields of its question, so none is answered unchecked.

Theory of operation
    The asking end has no thread that only reads. One of the threads that wait for an
    answer reads, and passes on what is meant for the others; when it has its own
    answer, the next one takes over. At the answering end, the thread that reads also
    answers. Only an answer that has to wait for more than a moment gets its own thread,
    since starting one takes time.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

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
    """The fields of a question, and what answers it, given its values and blob.

    `answer` returns None if it would have to wait for other tasks; then `later` is
    called with the same arguments, in another thread, and may wait.
    """

    fields: Fields
    answer: Callable[[dict[str, Any], bytearray], Answer | None]
    later: Callable[[dict[str, Any], bytearray], Answer] | None = None

    def finish(self, values: dict[str, Any], blob: bytearray) -> Answer:
        """Answer, however long that takes."""
        answer = (self.later or self.answer)(values, blob)
        assert answer is not None, "a handler without `later` answers at once"
        return answer


_NUMBER: Final = "question"
_IDLE_S = 3600.0  # an idle link is kept; its end is noticed at once anyway


class Caller:
    """The asking end of a link. Threads may ask at the same time.

    `is_closed`: whether it was closed on this side; nothing can be asked any more then.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.is_closed = False
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._is_reading = False
        # By the number of each question under way; None: no answer has come yet.
        self._answers: dict[int, tuple[dict[str, Any], bytearray] | None] = {}

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
        stream: on a unix socket, for a role whose links do not read ahead, and from
        one thread at a time.

        Raises the error that the other side answered with, `LinkLost`, or
        `DeadlineExceededError`; after the last two, and after an interrupt, the link is
        closed.
        """
        try:
            answer = self.ask(
                op, deadline_s, values, blob=blob, descriptors=descriptors
            )
        except InvalidArgumentError:
            raise  # nothing was asked, or the link has ended by itself
        except BaseException:
            self.close()
            raise
        return result_of(answer)

    def ask(
        self,
        op: str,
        deadline_s: float,
        values: Mapping[str, Any] | None = None,
        *,
        blob: Buffer = b"",
        descriptors: Sequence[int] = (),
    ) -> tuple[dict[str, Any], bytearray]:
        """Ask, and return the answer for `result_of`; the link stays open."""
        deadline = time.monotonic() + deadline_s
        number = next(self._numbers)
        about = {**(values or {}), "op": op, _NUMBER: number}
        message = pack_message(about, blob)
        # Before it is sent: another thread may read the answer before `send` returns
        # here.
        with self._changed:
            self._answers[number] = None
        try:
            self.link.send(*message, deadline_s=deadline_s)
            if descriptors:
                send_fds(self.link.stream, descriptors, deadline)
            return self._answer(number, deadline)
        finally:
            with self._changed:
                del self._answers[number]

    def _answer(self, number: int, deadline: float) -> tuple[dict[str, Any], bytearray]:
        reads = False
        try:
            with self._changed:
                while (reply := self._answers[number]) is None and self._is_reading:
                    rest = deadline - time.monotonic()
                    if rest <= 0:
                        raise DeadlineExceededError(
                            f"{self.link.peer.short} did not answer in time; see in "
                            f"its log what it is doing.",
                            task=str(self.link.peer),
                        )
                    self._changed.wait(rest)
                if reply is not None:
                    return reply
                # Nobody reads: this thread does, for all that wait. Decided under the
                # lock, so two never read, and no answer is without a reader.
                reads = self._is_reading = True
            while (reply := self._answers[number]) is None:
                rest = max(0.0, deadline - time.monotonic())
                answer, body = self.link.recv_message(deadline_s=rest)
                with self._changed:
                    whose = answer.pop(_NUMBER, None)
                    # A late answer, for which nobody waits any more, is dropped.
                    if type(whose) is int and whose in self._answers:
                        self._answers[whose] = answer, body
                        self._changed.notify_all()
            return reply
        finally:
            # Also after an error: somebody else must read, or all would wait in vain.
            if reads:
                with self._changed:
                    self._is_reading = False
                    self._changed.notify_all()

    def close(self) -> None:
        """Close the link."""
        self.is_closed = True  # first: an interrupt may come while it is being closed
        self.link.close()


def result_of(
    answer: tuple[dict[str, Any], bytearray],
) -> tuple[dict[str, Any], bytearray]:
    """Return an answer, or raise the error that it carries."""
    reply, _ = answer
    if "error" in reply and reply.get("failed"):
        raise from_plain(reply["error"])
    return answer


class ReconnectingCaller:
    """Asks over a link, and over a new one if an answer does not come.

    When a cut line is whole again, a new connection gets through at once; what TCP has
    kept for the old one may follow much later. So a question may be heard twice: ask
    only what may be. Threads may ask at the same time.

    A link is not closed before a newer one has carried an answer. The other side might
    otherwise see the old one end first, and take this side for gone.
    """

    def __init__(
        self,
        dial: Callable[[float], Caller],
        attempt_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Dial at the first question; `dial` gets the time by which it must succeed.

        After `attempt_s` without an answer it dials again.
        """
        self._dial, self._attempt_s, self._clock = dial, attempt_s, clock
        self._caller: Caller | None = None
        self._is_silent = False  # an answer did not come over `_caller`
        self._given_up = list[Caller]()
        self._is_closed = False
        self._guard, self._dialling = threading.Lock(), threading.Lock()

    def call(
        self,
        op: str,
        deadline_s: float,
        values: Mapping[str, Any] | None = None,
        *,
        patience_s: float = 0.0,
        blob: Buffer = b"",
    ) -> tuple[dict[str, Any], bytearray]:
        """Ask until there is an answer; giving it may itself take `patience_s`.

        Raises as `Caller.call` does, `DeadlineExceededError` after `deadline_s` and
        `patience_s`, and what `dial` raises. A peer that has closed its end is
        not dialled.
        """
        attempt_s = self._attempt_s + patience_s
        give_up = self._clock() + deadline_s + patience_s
        while True:
            caller = self._connected(give_up)
            rest = give_up - self._clock()
            if caller.link.transport != "unix":  # which nobody can cut
                rest = min(rest, attempt_s)
            try:
                answer = caller.ask(op, rest, values, blob=blob)
            except InvalidArgumentError:
                raise  # as in `Caller.call`
            except DeadlineExceededError:
                self._note_silence(caller)
                if self._clock() >= give_up:
                    raise
            except LinkLost:
                # Ours, closed because another thread has dialled again: then this one
                # asks once more over the new link. Else the peer has closed its end.
                if not self._has_given_up(caller):
                    caller.close()
                    raise
            except BaseException:
                caller.close()
                raise
            else:
                self._note_answer(caller)
                return result_of(answer)

    @property
    def is_connected(self) -> bool:
        """Whether there is a link, and the last question on it had an answer."""
        caller = self._caller
        return caller is not None and not caller.is_closed and not self._is_silent

    def close(self) -> None:
        """Close the link, for good."""
        with self._guard:
            self._is_closed = True
            links = [*self._given_up, *filter(None, [self._caller])]
            self._given_up = []
        for link in links:
            link.close()

    def _connected(self, give_up: float) -> Caller:
        # One thread dials at a time; the others then find the link that it has opened.
        with self._dialling:
            old = self._caller
            is_useless = old is None or old.is_closed or self._is_silent
            if is_useless and not self._is_closed:
                # Without the guard: dialling takes seconds, and answers that come over
                # the old link must be noted meanwhile.
                new = self._dial(give_up)
                with self._guard:
                    self._caller, self._is_silent = new, False
                    self._given_up += filter(None, [old])
            if self._is_closed or self._caller is None:
                self.close()  # again: the first `close` did not see this new link
                raise LinkLost("the link was closed on this side.")
            return self._caller

    def _note_silence(self, caller: Caller) -> None:
        with self._guard:
            self._is_silent |= caller is self._caller

    def _note_answer(self, caller: Caller) -> None:
        with self._guard:
            if caller is not self._caller:
                return
            links, self._given_up = self._given_up, []
        for link in links:
            link.close()

    def _has_given_up(self, caller: Caller) -> bool:
        """Whether a newer link replaces this caller's, or is about to."""
        with self._guard:
            is_old = caller is not self._caller or self._is_silent
            return is_old and not self._is_closed


def serve(
    link: Link,
    handlers: Mapping[str, Handler],
    deadline_s: float,
    unexpected: Callable[[str, BaseException], None] = lambda op, error: None,
) -> int:
    """Answer questions until the other side closes the link; closes it, too.

    Returns how many were asked. A question with other values than its handler declares
    is answered with `InvalidArgumentError`. An exception in a handler becomes the
    answer; `unexpected` gets those that are not errors of this package.
    """
    answering = _Answering(link, handlers, deadline_s, unexpected)
    n_asked = 0
    with link:
        while True:
            try:
                message, blob = link.recv_message(deadline_s=_IDLE_S)
            except DeadlineExceededError:
                continue
            except KitError:
                return n_asked
            n_asked += 1
            answering.answer(message, blob)


class _Answering(NamedTuple):
    link: Link
    handlers: Mapping[str, Handler]
    deadline_s: float
    unexpected: Callable[[str, BaseException], None]

    def answer(self, message: dict[str, Any], blob: bytearray) -> None:
        """Answer a question, in another thread if that has to wait."""
        op, number = message.pop("op", ""), message.pop(_NUMBER, None)
        asked = _Asked(op, number, message, blob)
        reply = self._find(asked)
        if reply is not None:
            self._send(asked, reply)
            return
        threading.Thread(
            target=self._finish,
            args=(asked,),
            name=f"kit-wait-{self.link.peer.short}",
            daemon=True,
        ).start()

    def _finish(self, asked: _Asked) -> None:
        reply = self._find(asked, later=True)
        assert reply is not None, "`later` returns only with an answer"
        self._send(asked, reply)

    def _find(self, asked: _Asked, *, later: bool = False) -> Answer | None:
        op = asked.op
        handler = self.handlers.get(op) if isinstance(op, str) else None
        try:
            if handler is None:
                raise UnimplementedError(f"this task does not answer {shown(op)}.")
            answer = handler.finish if later else handler.answer
            return answer(check(op, handler.fields, asked.values), asked.blob)
        except Exception as error:
            if not isinstance(error, KitError):
                self.unexpected(op, error)
            return _failed(error), b""

    def _send(self, asked: _Asked, answer: Answer) -> None:
        reply, body = answer
        about = {} if asked.number is None else {_NUMBER: asked.number}
        send, limit_s = self.link.send_message, self.deadline_s
        # A lost link is noticed by the thread that reads from it.
        with suppress(LinkLost, DeadlineExceededError):
            try:
                send({**reply, **about}, body, deadline_s=limit_s)
            except InvalidArgumentError as error:  # too large for a frame, say
                send({**_failed(error), **about}, deadline_s=limit_s)


class _Asked(NamedTuple):
    op: Any
    number: Any
    values: dict[str, Any]
    blob: bytearray


def _failed(error: Exception) -> dict[str, Any]:
    return {"failed": True, "error": to_plain(error)}
