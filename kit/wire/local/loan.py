"""Memory lent to the peer of a link on the same host: large tensors, copied only once.

Each side of a link has an arena for what it lends. It fills a part, and sends a ticket
for it in a message. The borrower works in place, and gives the part back with the last
view of it, by one store behind a fence: no message, no lock.

    | one u64 for each loan: the number of the last one given back | pages, first fit |

Pages are taken when first used and then reused, lowest first: fresh ones cost more than
sending everything through the socket would. A process that dies gives up what it lent
or borrowed; the memory goes with its last holder.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from bisect import insort
from struct import Struct
from typing import Final, NamedTuple

from kit.errors import InvalidArgumentError, ProtocolError
from kit.memory_order import fence
from kit.wire.local.arena import Arena
from kit.wire.local.descriptors import recv_fds, send_fds
from kit.wire.stream import Clock, Stream

CAPACITY: Final = 2**29
MOST_LOANS: Final = 512

_PAGE: Final = 4096
_WORDS_SIZE: Final = 8 * MOST_LOANS
_TICKET: Final = Struct("<QQQQ")  # word, number of the loan, offset, bytes
TICKET_SIZE: Final = _TICKET.size


class Loan(NamedTuple):
    """Room to be filled, and what the peer needs to find it."""

    view: memoryview
    ticket: bytes


class _Part(NamedTuple):
    offset: int
    size: int


class Lender:
    """The lending half of one side of a link. Threads may share it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Make the arena; takes no memory yet. Raises `NotEnoughMemory`."""
        self.capacity = capacity
        self._arena = Arena.create("loans", _WORDS_SIZE + capacity)
        self._words = self._arena.view(0, _WORDS_SIZE).cast("Q")
        self._free = [_Part(0, capacity)]  # sorted, none touches the next
        self._lent: dict[int, tuple[int, _Part]] = {}  # by word: number and part
        self._idle = list(range(MOST_LOANS - 1, -1, -1))
        self._number = 0
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def fd(self) -> int:
        """The arena's descriptor, for the peer."""
        return self._arena.fd

    @property
    def lent(self) -> int:
        """How many bytes are out, in whole pages."""
        with self._lock:
            self._take_back()
            return sum(part.size for _, part in self._lent.values())

    def lend(self, n_bytes: int) -> Loan | None:
        """Return room for `n_bytes`, at least 1, or None: send them another way.

        None if all is lent, and once it is closed. Costs about 4 us. Every loan must
        reach the peer and be borrowed there, or it stays out until `close`.
        """
        if n_bytes < 1:
            raise InvalidArgumentError(f"a loan of {n_bytes} bytes cannot be made.")
        size = -(-n_bytes // _PAGE) * _PAGE
        with self._lock:
            if self._is_closed:
                return None
            self._take_back()
            part = self._first_fit(size) if self._idle else None
            if part is None:
                return None
            self._number += 1
            word = self._idle.pop()
            self._lent[word] = self._number, part
            ticket = _TICKET.pack(word, self._number, part.offset, n_bytes)
            return Loan(self._arena.view(_WORDS_SIZE + part.offset, n_bytes), ticket)

    def close(self) -> None:
        """Give the arena up, but for what is lent. May be called twice."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._lent.clear()
                self._words.release()
                self._arena.close()

    def _first_fit(self, size: int) -> _Part | None:
        """Cut `size` bytes off the first part that is large enough."""
        for index, part in enumerate(self._free):
            if part.size > size:
                self._free[index] = _Part(part.offset + size, part.size - size)
                return _Part(part.offset, size)
            if part.size == size:
                return self._free.pop(index)
        return None

    def _take_back(self) -> None:
        """Free what has been given back since the last time."""
        if self._is_closed:
            return
        for word, (number, part) in list(self._lent.items()):
            # By number: a word is used again, and may still hold that of an older loan.
            if self._words[word] == number:
                fence()  # whoever is lent it next writes after its last reader has read
                del self._lent[word]
                self._idle.append(word)
                insort(self._free, part)
        # Join free neighbours, or the arena would end up as pieces too small to lend.
        merged: list[_Part] = []
        for part in self._free:
            if merged and merged[-1].offset + merged[-1].size == part.offset:
                part = _Part(merged[-1].offset, merged.pop().size + part.size)
            merged.append(part)
        self._free = merged


class Borrower:
    """The borrowing half of one side of a link. Threads may share it."""

    def __init__(self, fd: int, capacity: int = CAPACITY) -> None:
        """Map the peer's arena and own its descriptor, even if it is refused.

        Raises `ProtocolError` unless it is an arena for loans of this capacity.
        """
        self.capacity = capacity
        size = _WORDS_SIZE + capacity
        self._arena = Arena.attach(fd, size, writable=True)
        self._words: memoryview | None = self._arena.view(0, _WORDS_SIZE).cast("Q")
        self._held: set[int] = set()

    @property
    def held(self) -> int:
        """How many loans have views."""
        return len(self._held)

    def borrow(self, ticket: bytes) -> memoryview:
        """Return the bytes that a ticket is for, writable: nobody else uses them now.

        They are given back with the last view of them, arrays and slices included,
        also after `close`. Raises `ProtocolError` for a ticket that cannot be right.
        """
        if len(ticket) != TICKET_SIZE or self._words is None:
            raise ProtocolError(
                f"{len(ticket)} bytes came as the ticket of a loan, where "
                f"{TICKET_SIZE} are expected on an open link; drop this connection."
            )
        word, number, offset, n_bytes = _TICKET.unpack(ticket)
        if (
            word >= MOST_LOANS
            or word in self._held
            or offset % _PAGE
            or not 1 <= n_bytes <= self.capacity - offset
        ):
            raise ProtocolError(
                f"a loan of {n_bytes} bytes at {offset} with word {word} cannot be: "
                f"{self.capacity} bytes and {MOST_LOANS} words are there, and "
                f"{self.held} in use. Drop this connection."
            )
        view = self._arena.view(_WORDS_SIZE + offset, n_bytes)
        # Every view of a ctypes array keeps that array alive, numpy arrays and slices
        # included. So when it is freed, nobody uses the loan any more; a memoryview
        # cannot be asked for that.
        whole = (ctypes.c_ubyte * n_bytes).from_buffer(view)
        self._held.add(word)
        give_back = weakref.finalize(
            whole, _give_back, self._words, word, number, self._held
        )
        give_back.atexit = False  # the peer notices the end of this process anyway
        return memoryview(whole)

    def close(self) -> None:
        """Let go of the arena, except for what is still in use. May be called twice."""
        self._words = None
        self._arena.close()


def _give_back(words: memoryview, word: int, number: int, held: set[int]) -> None:
    held.discard(word)
    # Last, and a single aligned store: the lender may use word and part again at once.
    fence()
    words[word] = number


def open_loans(
    stream: Stream,
    deadline: float,
    *,
    capacity: int = CAPACITY,
    clock: Clock = time.monotonic,
) -> tuple[Lender, Borrower]:
    """Exchange arenas with the peer of a unix stream that has carried no frame yet.

    Both sides call this at the same time, with the same capacity. Raises what
    `send_fds`, `recv_fds` and `Borrower` raise; nothing stays open then.
    """
    lender = Lender(capacity)
    try:
        send_fds(stream, [lender.fd], deadline, clock)
        [fd] = recv_fds(stream, 1, deadline, clock)
        return lender, Borrower(fd, capacity)
    except BaseException:
        lender.close()
        raise
