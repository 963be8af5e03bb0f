"""The door of a task: accepts connections, checks each one, hands over links.

One thread accepts; each handshake has a short thread of its own, with a deadline, so a
stranger who says nothing delays nobody. At most `at_most` handshakes run at once; who
comes beyond that is sent away. Every refusal is one line in the log.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from kit.errors import KitError, PermissionDeniedError
from kit.task import Task
from kit.wire.credentials import Credentials
from kit.wire.link import MAX_BODY, Link
from kit.wire.listener import Listener
from kit.wire.opening import welcome
from kit.wire.stream import Clock, Stream

_log = logging.getLogger(__name__)

# With no descriptors left accept() fails while the listener stays ready: without a
# pause this thread would take a whole core.
_PAUSE_MS: Final = 100


class Acceptor:
    """Accepts on `listeners`, which it owns, from its creation until `close`.

    `on_link` gets each proven link, which is the callee's from then on; it is called in
    the handshake's thread and must return soon.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        credentials: Credentials,
        local: Task,
        on_link: Callable[[Link], None],
        *,
        handshake_s: float = 5.0,
        at_most: int = 32,
        max_body: int = MAX_BODY,
        checksum: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        self.refused = 0
        self._listeners, self._on_link, self._local = list(listeners), on_link, local
        self._credentials, self._handshake_s = credentials, handshake_s
        self._at_most, self._max_body = at_most, max_body
        self._checksum, self._clock = checksum, clock
        self._state = threading.Lock()
        self._under_way: dict[threading.Thread, Stream] = {}
        self._is_closing = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(
            target=self._accept_all, name="kit-acceptor", daemon=True
        )
        self._thread.start()

    def close(self, deadline_s: float = 5.0) -> None:
        """Stop accepting, break off handshakes under way, and wait for all threads.

        May be called twice, but not from `on_link`. Links handed over stay open.
        """
        with self._state:
            if self._is_closing:
                return
            self._is_closing = True
            under_way = dict(self._under_way)
        os.eventfd_write(self._wake, 1)
        for stream in under_way.values():
            stream.shutdown()
        deadline = self._clock() + deadline_s
        for thread in (self._thread, *under_way):
            thread.join(max(0.0, deadline - self._clock()))
        for listener in self._listeners:
            listener.close()
        os.close(self._wake)

    def _accept_all(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        by_fd = {listener.fileno(): listener for listener in self._listeners}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        while not self._is_closing:
            for fd, _ in poll.poll():
                if fd in by_fd and not self._is_closing:
                    self._accept(by_fd[fd])

    def _accept(self, listener: Listener) -> None:
        try:
            stream = listener.accept()
        except PermissionDeniedError as exc:
            self._note_refusal(exc)
        except OSError as exc:
            _log.error("cannot accept at %s: %s", listener.address, exc)
            pause = select.poll()
            pause.register(self._wake, select.POLLIN)
            pause.poll(_PAUSE_MS)
        else:
            if stream is not None:
                self._start_handshake(stream)

    def _start_handshake(self, stream: Stream) -> None:
        thread = threading.Thread(
            target=self._shake_hands, args=(stream,), name="kit-handshake", daemon=True
        )
        with self._state:
            is_full = len(self._under_way) >= self._at_most
            if not is_full and not self._is_closing:
                self._under_way[thread] = stream
                thread.start()
                return
        stream.close()
        if is_full:
            self._note_refusal(f"{self._at_most} handshakes are under way already")

    def _shake_hands(self, stream: Stream) -> None:
        try:
            link = welcome(
                stream,
                self._local,
                self._credentials,
                deadline_s=self._handshake_s,
                max_body=self._max_body,
                checksum=self._checksum,
                clock=self._clock,
            )
        except KitError as exc:
            self._note_refusal(exc)
        else:
            self._hand_over(link)
        finally:
            with self._state:
                del self._under_way[threading.current_thread()]

    def _hand_over(self, link: Link) -> None:
        try:
            self._on_link(link)
        except Exception:
            _log.exception("%s could not take the link of %s", self._local, link.peer)
            link.close()

    def _note_refusal(self, reason: object) -> None:
        _log.warning("%s refused a connection: %s", self._local.short, reason)
        with self._state:
            self.refused += 1
