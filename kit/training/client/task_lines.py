"""What steps and hooks have printed, as labelled lines: `worker:1 │ text`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kit.progress import Line
from kit.training.client.watched import Watched
from kit.training.core.job import Job
from kit.training.core.printed import ERROR, MORE


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
