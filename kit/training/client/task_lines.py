"""What steps and hooks have printed, as labelled lines: `worker:1 │ text`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.hooks.progress import Line
from kit.training.client.watched import Watched
from kit.training.job import Job
from kit.training.member.printed import ERROR, MORE


def task_lines(job: Job, watched: Sequence[Watched]) -> Iterator[Line]:
    """Yield the lines that have come from the members, and forget them."""
    width = max(len(task.short) for task in job.tasks)
    for member, one in enumerate(watched):
        label = f"{job.tasks[member].short:<{width}} │ "
        while one.printed:
            kind, said = one.printed.popleft()
            if kind == MORE:
                said = f"… {said:,} more in its log: cluster.log({_log(job, member)!r})"
            yield Line(f"{label}{said}", is_error=kind == ERROR)


def _log(job: Job, member: int) -> str:
    """Return whose log it is: that of the task in whose process the member is."""
    if job.generation is None:
        return job.tasks[member].short
    return job.generation.places[member]
