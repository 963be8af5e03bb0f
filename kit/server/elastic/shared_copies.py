"""How a copy reaches another process: in shared memory on one host, else over a link.

The process that makes copies passes the descriptor of each of its arenas once, with the
first copy in it. From then on, a short message says that there is another copy. The
arena is written again when both have released the copy in it; see `Buffers`.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.training.core.snapshot import Shard
from kit.wire.frame import Buffer
from kit.wire.local.arena import Arena
from kit.wire.local.descriptors import recv_fds
from kit.wire.rpc import Caller
from kit.wire.stream import Stream

_MOST_ARENAS: Final = 64
_DESCRIPTOR_S: Final = 10.0  # it was sent with the question


class CopyLink:
    """The asking end of a link for copies. Threads take turns."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._shown: list[Arena] = []  # by number; a closed one makes room for another
        self._turn = threading.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._caller.is_closed

    def keep(self, question: dict[str, Any], limit_s: float, copy: Shard) -> str:
        """Have a copy kept; blocks until it is. Raises what `Caller.call` does.

        Returns the unique name of the process that keeps it.
        """
        arena = copy.buffer.arena if copy.buffer is not None else None
        # One at a time, until it is answered: a descriptor must follow its own question
        # on the stream.
        with self._turn:
            arena_number = None if arena is None else self._number(arena)
            if arena is None or arena_number is None:
                more: dict[str, Any] = {"blob": copy.data}
            else:
                number, is_new = arena_number
                question = {**question, "arena": [number, arena.size, int(is_new)]}
                more = {"descriptors": [arena.fd] if is_new else []}
            reply, _ = self._caller.call("elastic.keep", limit_s, question, **more)
        return str(reply["process"])

    def _number(self, arena: Arena) -> tuple[int, bool] | None:
        """Return under which number an arena is shown, and whether that is new.

        None if the other side is on another host, or takes no more arenas: a process
        may host many members.
        """
        if self._caller.link.transport != "unix":
            return None
        if arena in self._shown:
            return self._shown.index(arena), False
        free = (n for n, item in enumerate(self._shown) if item.fd < 0)
        number = next(free, len(self._shown))
        if number == _MOST_ARENAS:
            return None
        self._shown[number : number + 1] = [arena]
        return number, True

    def close(self) -> None:
        """Close the link."""
        self._caller.close()


class ShownArenas:
    """The answering end: the arenas shown by the other side. For one thread."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._views: dict[int, memoryview] = {}

    def find(self, number: int, size: int, is_new: int) -> Buffer:
        """Return the bytes of an arena; they stay mapped while the view is used.

        Takes the descriptor of a new one from the stream. Raises
        `InvalidArgumentError` for one that was not shown, and what `recv_fds` and
        `Arena.attach` raise.
        """
        if is_new:
            deadline = time.monotonic() + _DESCRIPTOR_S
            [fd] = recv_fds(self._stream, 1, deadline)
            arena = Arena.attach(fd, size)
            if number < _MOST_ARENAS:
                self._views[number] = arena.view()
            arena.close()  # its descriptor alone: the view keeps the memory mapped
        view = self._views.get(number)
        if view is None or len(view) != size:
            raise InvalidArgumentError(
                f"no arena {number} of {size} bytes was shown on this link; show one "
                f"of the numbers below {_MOST_ARENAS} with its first copy."
            )
        return view
