"""The log of an engine's task has what its trainings print, log and warn.

An engine's own streams send all text to the notebook, as the output of a cell. What a
step function or a hook writes belongs to no cell: it is written to the log, and some of
it comes to the notebook with the news of the training (`kit.training.core.printed`).
What a cell prints is shown below it, and is not in the log.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Any

from kit.training.core import printed

_log = -1  # the descriptor of the log; an engine is one task


def keep() -> None:
    """Remember that what standard error is now is the log."""
    global _log  # as above
    _log = os.dup(2)


def write_what_no_cell_prints() -> None:
    """Have this engine's standard streams write to the log what belongs to no cell."""
    if _log < 0:
        return  # no engine: a process of a test, which has the user's streams
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, LoggedStream):
            setattr(sys, name, LoggedStream(stream, is_error=name == "stderr"))


class LoggedStream:
    """A standard stream of an engine; all but writing is the engine's own."""

    def __init__(self, stream: Any, *, is_error: bool) -> None:
        self._stream, self._is_error = stream, is_error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text; to the log if it is of no cell."""
        if isinstance(text, str) and not self._is_of_a_cell():
            with suppress(OSError):  # the disk may be full
                os.write(_log, text.encode(errors="replace"))
            if (lines := printed.of_this_thread()) is not None:
                lines.write(text, is_error=self._is_error)
                return len(text)
        return int(self._stream.write(text))

    def flush(self) -> None:
        """Send what has been written; nothing waits in a step or a hook."""
        if printed.of_this_thread() is None:
            self._stream.flush()

    def writelines(self, lines: Any) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def _is_of_a_cell(self) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return False
        begun_by = getattr(self._stream, "parent_header", None) or {}
        return begun_by.get("msg_type") == "execute_request"
