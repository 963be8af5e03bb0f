"""Something shown that changes in its place, where the front end can do that."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle

_LEAST_S = 0.1


class Live:
    """One place of the output. In a terminal only the last state is shown."""

    def __init__(
        self, shell: InteractiveShell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._can_update = hasattr(shell, "kernel")
        self._clock = clock
        self._handle: Any = None
        self._shown = ""
        self._last = -_LEAST_S

    def show(self, value: object) -> None:
        """Show a state, unless one was shown a moment ago or it looks the same."""
        now = self._clock()
        if self._can_update and now - self._last >= _LEAST_S:
            self._last = now
            self._put(value)

    def close(self, value: object) -> None:
        """Show the last state."""
        self._put(value)

    def _put(self, value: object) -> None:
        text = repr(value)
        if text == self._shown:
            return
        self._shown = text
        # What cannot be shown must not end what it is about.
        with suppress(Exception):
            if self._handle is None:
                self._handle = DisplayHandle()  # type: ignore[no-untyped-call]
                self._handle.display(value)
            else:
                self._handle.update(value)
