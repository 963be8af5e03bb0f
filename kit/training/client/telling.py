"""Shows what a training's hooks report and its tasks print, where it was begun.

Hooks run in the coordinator's task. Their lines come with the news of the training,
several times a second, and are shown in the cell that called `kit.train`, in the
terminal, or in a file line by line: one line, overwritten. What steps and hooks print,
in each task, are labelled lines that stay: `worker:1 │ text`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kit.progress import Line, Output, PlainLines
from kit.training.core.job import Job
from kit.training.core.printed import ERROR, MORE

if TYPE_CHECKING:
    from kit.training.client.watched import Watched


class Teller:
    """Shows the progress of one training. Every method may be called by any thread."""

    def __init__(self, output: Output) -> None:
        self._output, self._seen = output, 0
        self._guard = threading.Lock()

    def reserve(self) -> None:
        """Take a place now; call it in the cell whose output it should be."""
        with self._guard, suppress(Exception):
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
            # A closed window, or a stream of the user's, must not end a training.
            with suppress(Exception):
                for text in texts:
                    self._output.show(text)
                if is_over:
                    self._output.finish()

    def add(self, lines: Sequence[Line]) -> None:
        """Show lines that stay: what tasks have printed."""
        with self._guard, suppress(Exception):
            self._output.add(lines)


def task_lines(job: Job, watched: Sequence[Watched]) -> Iterator[Line]:
    """Yield the lines that have come from the members, and forget them."""
    width = max(len(task.short) for task in job.tasks)
    for member, watch in enumerate(watched):
        label = f"{job.tasks[member].short:<{width}} │ "
        while watch.printed:
            yield labelled(label, watch.printed.popleft(), job.process_of(member).short)


def labelled(label: str, printed: Sequence[Any], log: str) -> Line:
    """Return what one entry of `PrintedLines` says, and in whose log the rest is.

    >>> labelled("worker:1 │ ", ["more", 1234], "worker:1").text
    "worker:1 │ … 1,234 more in its log: kit.current_cluster().log('worker:1')"
    """
    kind, said = printed
    if kind == MORE:
        said = f"… {said:,} more in its log: kit.current_cluster().log({log!r})"
    return Line(f"{label}{said}", is_error=kind == ERROR)
