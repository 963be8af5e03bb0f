"""Show the output of a cell's tasks in the notebook, at most ten times a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from IPython.core.interactiveshell import InteractiveShell

from kit.cluster.cells.cell_output import Output
from kit.magics.labelled import Bundle, Labelled, Shown
from kit.task import Task

_LEAST_S = 0.1


class Showing:
    """One cell's output on its way to the screen; call it with what has come."""

    def __init__(
        self,
        shell: InteractiveShell,
        tasks: Iterable[Task],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shell, self._clock = shell, clock
        self._labelled = Labelled(tasks, clock)
        self._waiting: list[Output] = []
        self._last = -_LEAST_S

    def __call__(self, outputs: Sequence[Output]) -> None:
        """Take outputs; show them now, or together with the next ones."""
        self._waiting += outputs
        if self._clock() - self._last >= _LEAST_S:
            self._show(self._labelled.take(self._waiting))
            self._waiting.clear()

    def close(self) -> None:
        """Show all that is left."""
        self._show(self._labelled.take(self._waiting))
        self._waiting.clear()
        self._show(self._labelled.close())

    def _show(self, shown: Sequence[Shown]) -> None:
        for one in shown:
            # What cannot be shown must not end what it is about.
            with suppress(Exception):
                self._show_one(one)
        if shown:
            self._last = self._clock()

    def _show_one(self, one: Shown) -> None:
        if isinstance(one, Bundle):
            transient = {"display_id": one.display_id} if one.display_id else {}
            self._shell.display_pub.publish(
                dict(one.data),
                dict(one.metadata),
                transient=transient,
                update=one.updates,
            )
            return
        stream = sys.stderr if one.is_error else sys.stdout
        stream.write(one.text)
        stream.flush()
