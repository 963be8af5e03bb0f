"""What runs without a limit wait for, said on standard error every ten seconds.

Not by `tf.logging`: as in the original, it is the runtime that says so.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kit.errors import KitError
from kit.settings import current


def say(what: str) -> None:
    """Write that something is still waited for."""
    if sys.stderr is not None:
        print(f"still waiting for {what}", file=sys.stderr, flush=True)


class Waits:
    """The runs of one session; a thread looks at them from the first one to `close`."""

    def __init__(self, ask: Callable[[float], list[str]]) -> None:
        """`ask` returns what they wait for, within a number of seconds."""
        self._ask = ask
        self._began: dict[object, float] = {}
        self._every_s = 0.0
        self._ended = threading.Event()
        self._lock = threading.Lock()

    @contextmanager
    def during(self) -> Iterator[None]:
        """Say of a run in the block what it waits for, if it takes long."""
        if not self._every_s:
            self._begin()
        run = object()
        self._began[run] = time.monotonic()
        try:
            yield
        finally:
            self._began.pop(run, None)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _begin(self) -> None:
        with self._lock:
            if self._every_s:
                return
            self._every_s = current().still_waiting_s
        threading.Thread(target=self._look, name="kit-tf1-waits", daemon=True).start()

    def _look(self) -> None:
        while not self._ended.wait(self._every_s):
            before = time.monotonic() - self._every_s
            if any(begin <= before for begin in list(self._began.values())):
                self._tell()

    def _tell(self) -> None:
        with suppress(KitError):  # the run itself raises what is wrong
            for what in dict.fromkeys(self._ask(self._every_s)):
                say(what)
