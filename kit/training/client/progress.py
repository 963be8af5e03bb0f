"""Shows what the hooks of a training tell, where it was begun: one line, written anew.

Hooks run in the coordinator's task. What they tell comes with the news of the training,
some times a second, and is shown in the cell that called `kit.train`, in the terminal,
or in a file line by line.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kit.hooks.progress import Output, PlainLines


class Teller:
    """Shows the progress of one training. Every method may be called by any thread."""

    def __init__(self, output: Output) -> None:
        """Show lines there."""
        self._output, self._seen = output, 0
        self._guard = threading.Lock()

    def reserve(self) -> None:
        """Take a place now; call it in the cell whose output it should be."""
        with self._guard, suppress(OSError, ValueError):
            self._output.reserve()

    def take(self, said: Sequence[Sequence[Any]], is_over: bool) -> None:
        """Show what is new among the newest lines: (number, kind, text) of each."""
        with self._guard:
            new = [line for line in said if line[0] > self._seen]
            self._seen = max((line[0] for line in new), default=self._seen)
            texts = [str(text) for _, kind, text in new if kind == "progress"]
            # Where a line covers the one before, only the last one would be seen.
            if not isinstance(self._output, PlainLines):
                texts = texts[-1:]
            # A closed window must not end a training.
            with suppress(OSError, ValueError):
                for text in texts:
                    self._output.show(text)
                if is_over:
                    self._output.finish()
