"""`tf.logging`: Python's own logging under the original's names."""

from __future__ import annotations

import logging as _logging
from typing import Any

DEBUG = _logging.DEBUG
INFO = _logging.INFO
WARN = _logging.WARNING
ERROR = _logging.ERROR
FATAL = _logging.FATAL

_log = _logging.getLogger("kit.tf1")

debug = _log.debug
info = _log.info
warn = warning = _log.warning
error = _log.error
fatal = _log.critical
log = _log.log


def set_verbosity(v: Any) -> None:
    """Set from which level on messages are shown."""
    _log.setLevel(v)


def get_verbosity() -> int:
    """Return from which level on messages are shown."""
    return _log.getEffectiveLevel()
