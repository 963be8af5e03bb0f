"""A bounded list of rows, to which some threads append while others read the news.

Rows are those of a structured numpy dtype. Nothing here knows what they mean.

Theory of operation. The rows are a ring in one block of memory: row number n is at
place n modulo the window. Appending does as little as possible, since it happens for
every message of a step: the packed row is added to a bytearray, without a lock, and
some 64 rows at a time are put into their places, under the lock. A reader settles what
is new first, so it sees all that was appended before. `bytearray += bytes` and
`del new[:n]` are each one operation under the interpreter's lock, so rows appended
meanwhile are behind those that are removed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from struct import Struct
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.errors import ResourceExhaustedError

Rows = npt.NDArray[Any]

LONGEST_NAME = 32  # bytes of a text in a row
# How numpy calls a column, and how struct does.
_CODES = {"u1": "B", "u2": "H", "u4": "I", "i8": "q", "f8": "d"} | {
    f"S{LONGEST_NAME}": f"{LONGEST_NAME}s"
}
_OWN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_BATCH = 64  # rows that are put into their places together
_WINDOW = 8_192  # rows that are kept even after they were read


def rows(dtype: np.dtype[Any], tuples: Iterable[tuple[Any, ...]] = ()) -> Rows:
    """Return tuples as one structured array of `dtype`.

    >>> rows(np.dtype([("at", "i8"), ("size", "u2")]), [(20, 1)]).tolist()
    [(20, 1)]
    """
    return np.array([tuple(row) for row in tuples], dtype=dtype)


def encoded_name(name: object) -> bytes:
    """Return a name as a row holds it; empty for what no row can tell from others.

    >>> encoded_name("loss"), encoded_name("a" * 40), encoded_name("a b")
    (b'loss', b'', b'a b')
    """
    if not isinstance(name, str) or not name.isprintable():  # numpy cuts zeros off
        return b""
    encoded = name.encode()
    return encoded if len(encoded) <= LONGEST_NAME else b""


class Log:
    """A bounded list of rows with a cursor, so that a reader can ask for the news.

    The newest `window` rows are kept in any case; beyond these, rows make room once
    they were read, so a log that is read in time stays that small. At most `limit` rows
    are kept.

    The rows are packed into one block of memory, of which the window is taken at once
    and the rest when first used; the garbage collector has nothing to visit. A row
    costs a third of a microsecond.

    >>> log = Log(np.dtype([("at", "i8"), ("size", "u2")]), limit=2)
    >>> for at in range(3):
    ...     log.add((at, 7))
    >>> news, cursor = log.since(0)
    >>> news["at"].tolist(), cursor
    ([1, 2], 3)
    """

    def __init__(self, dtype: np.dtype[Any], limit: int, window: int = _WINDOW) -> None:
        self.dtype = dtype
        self._limit, self._size = limit, dtype.itemsize
        self._window = min(window, limit)
        self._read = 0  # all rows before this number were given to somebody
        # From the system, not the heap: the heap would have to clear a block that was
        # used before, which takes all of the memory at once, and a fifth of a second
        # for the logs of a training.
        try:
            self._block = memoryview(mmap.mmap(-1, limit * self._size, _OWN))
        except (OSError, OverflowError, ValueError) as error:
            raise ResourceExhaustedError(
                f"there is no memory for a log of {limit:,} rows of {self._size} bytes "
                f"({error}); give fewer with settings(trace_rows=...)."
            ) from error
        self._rows: Rows = np.frombuffer(self._block, dtype)
        self._rows[: self._window] = 0  # taken now, so that it does not grow later
        codes = "".join(_CODES[dtype[name].str[1:]] for name in dtype.names or ())
        self._pack = Struct("=" + codes).pack
        self._new = bytearray()
        self._packed = 0
        self._lock = Lock()  # computing and exchanging may be two threads

    def add(self, row: tuple[Any, ...]) -> None:
        """Append one row; a full log loses its oldest one."""
        self.extend_packed(self._pack(*row))

    def extend(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Append some rows, in their order."""
        self.extend_packed(b"".join([self._pack(*row) for row in rows]))

    def extend_packed(self, packed: bytes | memoryview) -> None:
        """Append rows that are packed as `dtype` says; whole ones."""
        self._new += packed
        if len(self._new) >= _BATCH * self._size:
            with self._lock:
                self._settle()

    @property
    def added(self) -> int:
        """How many rows were ever added."""
        with self._lock:
            return self._packed + len(self._new) // self._size

    def since(self, cursor: int, most: int | None = None) -> tuple[Rows, int]:
        """Return kept rows from number `cursor` on, and the cursor after them."""
        with self._lock:
            self._settle()
            begin = min(max(cursor, self._packed - self._window, 0), self._packed)
            left = self._packed - begin
            count = left if most is None else min(left, most)
            self._read = max(self._read, begin + count)
            return self._rows[self._places(begin, begin + count)], begin + count

    def newest(self, most: int) -> Rows:
        """Return the newest rows; they do not count as read."""
        with self._lock:
            self._settle()
            begin = max(0, self._packed - min(most, self._window))
            return self._rows[self._places(begin, self._packed)]

    def _settle(self) -> None:
        """Put what is new in its place. Others may append behind it meanwhile."""
        # Whole rows only: the length is read once, so what is appended from now on
        # stays.
        new, size = self._new, self._size
        count = len(new) // size
        self._make_room(count)
        done = 0
        while done < count:
            offset = self._packed % self._window
            some = min(count - done, self._window - offset)
            part = new[done * size : (done + some) * size]
            self._block[offset * size : (offset + some) * size] = part
            self._packed += some
            done += some
        del new[: count * size]

    def _make_room(self, count: int) -> None:
        """Widen the window if `count` rows would fall on some that nobody has read."""
        # It doubles, up to the limit: rows are moved a few times in the whole training.
        # At the limit the oldest unread rows are lost, and the reader sees that by its
        # cursor.
        unread = self._packed + count - self._read
        if unread <= self._window or self._window == self._limit:
            return
        first = max(0, self._packed - self._window)
        kept = self._rows[self._places(first, self._packed)]
        while self._window < unread:
            self._window = self._window * 2
        self._window = min(self._window, self._limit)
        self._rows[self._places(first, self._packed)] = kept

    def _places(self, begin: int, end: int) -> npt.NDArray[np.intp]:
        return np.arange(begin, end) % self._window
