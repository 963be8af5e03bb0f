"""`tf.logging`: Python's own logging under the original's names.

Unless the program has configured handlers, messages go to standard error with the time.
A progress line replaces the one before it.
"""

from __future__ import annotations

import logging as _logging
import sys as _sys
from typing import Any

from kit.progress import Output as _Output
from kit.progress import output_for as _output_for

DEBUG = _logging.DEBUG
INFO = _logging.INFO
WARN = _logging.WARNING
ERROR = _logging.ERROR
FATAL = _logging.FATAL

_log = _logging.getLogger("kit.tf1")
_IS_PROGRESS = "kit_progress"


class _Shown(_logging.Handler):
    """Writes records, unless the program has configured handlers that do."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(
            _logging.Formatter("%(asctime)s %(levelname)s: %(message)s", "%H:%M:%S")
        )
        self._output: _Output | None = None

    def emit(self, record: _logging.LogRecord) -> None:
        # Records propagate to the root's handlers: the message would appear twice.
        if _logging.getLogger().handlers:
            return
        try:
            self._write(record)
        except Exception:
            self.handleError(record)

    def _write(self, record: _logging.LogRecord) -> None:
        # The stream is looked up each time: it may be replaced by the program.
        stream = _sys.stderr
        if getattr(record, _IS_PROGRESS, False):
            if self._output is None:
                self._output = _output_for(stream)
            self._output.show(self.format(record))
            return
        if self._output is not None:
            self._output.finish()
            self._output = None
        stream.write(f"{self.format(record)}\n")
        stream.flush()


_log.addHandler(_Shown())

debug = _log.debug
info = _log.info
warn = warning = _log.warning
error = _log.error
fatal = _log.critical
log = _log.log


def progress(text: str) -> None:
    """Log progress as `info` does, in place of the last progress line."""
    _log.info("%s", text, extra={_IS_PROGRESS: True})


def set_verbosity(v: Any) -> None:
    """Set the lowest level that is shown."""
    _log.setLevel(v)


def get_verbosity() -> int:
    """Return the lowest level that is shown."""
    return _log.getEffectiveLevel()
