"""A reader on its task: takes names of files from a queue and gives their records."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kit.session.worker.queues import CanWait, FifoQueue
from kit.session.worker.record_files import Record


class Reader:
    """Gives the records of one file after the other, in whatever runs they are asked.

    `records` opens a file and yields its records.
    """

    def __init__(self, name: str, records: Callable[[bytes], Iterator[Record]]) -> None:
        self.name, self._open = name, records
        self._current: Iterator[Record] | None = None
        self.n_records = self.n_files = 0
        self._line = deque[object]()
        self._changed = threading.Condition()

    def read(self, call: CanWait, queue: FifoQueue, n: int) -> list[Record]:
        """Return the next record, or up to `n` of one file; waits for a file.

        Raises `OutOfRangeError` when the queue is closed and no file is left, and what
        opening a file raises; the next read goes on with the next file.
        """
        with self._alone(call):
            records = list[Record]()
            while not records:
                if self._current is None:
                    ((path,),) = queue.dequeue(call, 1)
                    self._current = self._open(path.item())
                records = self._take(n)
            return records

    def _take(self, n: int) -> list[Record]:
        assert self._current is not None, "a file is open"
        records = list[Record]()
        try:
            while len(records) < n:
                records.append(next(self._current))
        except StopIteration:
            self._current = None
            self.n_files += 1
        except Exception:
            self._current = None
            raise
        self.n_records += len(records)
        return records

    def reset(self) -> None:
        """Begin anew, with the next file of the queue."""
        with self._changed:
            self._current = None
            self.n_records = self.n_files = 0

    @contextmanager
    def _alone(self, call: CanWait) -> Iterator[None]:
        """Wait for the reads that came before; a run that ends leaves the line."""
        me = object()
        with self._changed:
            self._line.append(me)
        try:
            with self._changed:
                call.wait(lambda: self._line[0] is me, self._changed, self._what)
            yield
        finally:
            with self._changed:
                self._line.remove(me)
                self._changed.notify_all()

    def _what(self) -> str:
        return f"other reads of reader `{self.name}`"
