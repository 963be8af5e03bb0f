"""What a member's steps and hooks, or a call, print: lines that go to the notebook.

All of it stands in the task's log, which `kit.server.task_log` writes. Some lines a
second are kept here as well, until the notebook asks for news; of the others it gets
their number. Steps that print nothing pay nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

MOST_A_SECOND: Final = 10
_KEPT: Final = 100  # lines that nobody has asked for yet
_MOST_CHARACTERS: Final = 500  # of one line
_LATE_S: Final = 2.0  # then a line is shown though it has not ended

OUT, ERROR, MORE = "out", "error", "more"  # a line, one of stderr, a number of others
_this_thread = threading.local()


class PrintedLines:
    r"""The lines of one member or call. Every method may be called by any thread.

    >>> printed = PrintedLines(clock=lambda: 0.0)
    >>> printed.write("a\nb")
    >>> printed.close()
    >>> printed.since(1)
    ([['out', 'b']], 2)
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        most_a_second: float = MOST_A_SECOND,
        kept: int = _KEPT,
    ) -> None:
        self._clock, self._most_a_second = clock, most_a_second
        # Reentrant: a handler of a signal may print in the midst of a print.
        self._guard = threading.RLock()
        self._lines: deque[list[Any]] = deque(maxlen=kept)
        self._n_lines = 0  # that were ever put there
        self._begun = {OUT: "", ERROR: ""}  # lines that have not ended
        self._begun_at = 0.0
        self._second, self._n_left_out = 0, 0
        self._n_in_second = {OUT: 0, ERROR: 0}  # apart: prints do not hide a warning

    def write(self, text: str, *, is_error: bool = False) -> None:
        """Take some text, of stderr if it `is_error`."""
        kind = ERROR if is_error else OUT
        with self._guard:
            *lines, last = (self._begun[kind] + text).split("\n")
            for line in lines:
                self._take(kind, line)
            # A carriage return at its end: what comes next is written over it.
            self._begun[kind] = _visible(last) + "\r" * last.endswith("\r")
            self._begun_at = self._clock()

    def since(self, cursor: int) -> tuple[list[list[Any]], int]:
        """Return what came after `cursor`, as [kind, line], and where it ends."""
        if not self._n_lines and not any(self._begun.values()) and not self._n_left_out:
            return [], 0
        with self._guard:
            if self._clock() - self._begun_at > _LATE_S:
                self._flush()
            elif int(self._clock()) != self._second:
                self._tell_left_out()
            n_new = max(0, self._n_lines - cursor)
            n_lost = max(0, n_new - len(self._lines))
            lines = list(self._lines)[-n_new:] if n_new else []
            return [[MORE, n_lost]] * (n_lost > 0) + lines, self._n_lines

    def close(self) -> None:
        """Take lines that have not ended as they are: no more will come."""
        with self._guard:
            self._flush()

    def _flush(self) -> None:
        for kind, line in self._begun.items():
            if line.strip():
                self._take(kind, line)
            self._begun[kind] = ""
        self._tell_left_out()

    def _take(self, kind: str, line: str) -> None:
        second = int(self._clock())
        if second != self._second:
            self._tell_left_out()
            self._second, self._n_in_second = second, {OUT: 0, ERROR: 0}
        if self._n_in_second[kind] >= self._most_a_second:
            self._n_left_out += 1
            return
        self._n_in_second[kind] += 1
        self._add([kind, _visible(line)])

    def _tell_left_out(self) -> None:
        if self._n_left_out:
            self._add([MORE, self._n_left_out])
            self._n_left_out = 0

    def _add(self, entry: list[Any]) -> None:
        self._lines.append(entry)
        self._n_lines += 1

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """Take what this thread prints in the block."""
        _this_thread.printed = self
        try:
            yield
        finally:
            _this_thread.printed = None
            self.close()


def _visible(line: str) -> str:
    r"""Return the beginning of what a terminal shows of a line.

    >>> _visible("10%\r20%"), _visible("20%\r")
    ('20%', '20%')
    """
    return line.rstrip("\r").rpartition("\r")[2][:_MOST_CHARACTERS]


def of_this_thread() -> PrintedLines | None:
    """Return what takes the lines of this thread, None if it is not a member's."""
    printed: PrintedLines | None = getattr(_this_thread, "printed", None)
    return printed
