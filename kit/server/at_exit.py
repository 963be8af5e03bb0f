"""Close what would outlive the process, even when SIGTERM ends it.

Python runs no exit handlers when SIGTERM takes its default action. A library must not
take a signal away from its user, so a handler is set only where that action would be
taken, and only from the main thread, where Python allows it. It closes what is
registered here and then lets the default action happen: the process ends at once, by
that signal, as its parent expects. The kernel does not let process 1 of a container end
itself by a signal; it exits with the status that a shell would report. A user's own
handler, set before or after, is left alone. What remains then, or after SIGKILL, is
removed by the next start (`local_sockets.sweep`).
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

Close = Callable[[], None]

# With the process that opened it: a fork inherits this dict, and must close nothing.
_open: dict[Close, int] = {}


def close_at_exit(close: Close) -> Close:
    """Have `close` called when the process ends; return a function that undoes this.

    `close` may be called in a signal handler, so it must take no lock, and it may be
    called twice.
    """
    _open[close] = os.getpid()
    watch_for_sigterm()

    def forget() -> None:
        _open.pop(close, None)
        if not _open:
            _stop_watching()

    return forget


def watch_for_sigterm() -> None:
    """Set the handler where it is needed; does nothing if it is set already."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _open and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _stop_watching() -> None:
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_sigterm(number: int, _: object) -> None:
    _close_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # process 1: the kernel has ignored it


def _close_all() -> None:
    for close, pid in list(_open.items()):  # a thread may add one meanwhile
        if pid == os.getpid():
            with suppress(OSError):
                close()


atexit.register(_close_all)
