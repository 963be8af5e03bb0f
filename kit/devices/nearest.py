"""Whether a cluster has the task that a device names, and which may be meant instead.

Pure. It checks job, replica and task only: each task itself checks which devices it
has. A layer above says which tasks the current cluster has.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from kit.devices.device import DeviceSpec
from kit.errors import PlacementError
from kit.task import Task


def check_known(device: str, tasks: Sequence[Task]) -> None:
    """Refuse a device name that matches none of the tasks of a cluster.

    Parts that are unset, and the job `*`, match anything; there is only replica 0.
    Raises `PlacementError`, which lists the tasks and suggests the nearest name.

    >>> tasks = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]
    >>> check_known("/job:worker/gpu:0", tasks)
    >>> check_known("/job:wroker/task:1", tasks)
    Traceback (most recent call last):
    kit.errors.PlacementError: no task is called '/job:wroker/task:1'; this cluster has\
 ps:0, worker:0..1. Did you mean '/job:worker/task:1'?
    """
    try:
        spec = DeviceSpec.from_string(device)
    except ValueError as exc:
        raise PlacementError(f"{exc} This cluster has {listed(tasks)}.") from exc
    if spec.job == "*":
        spec.job = None
    asks = (spec.job, spec.replica, spec.task) != (None, None, None)
    if asks and not _matching(spec, tasks):
        raise PlacementError(
            f"no task is called {device!r}; this cluster has {listed(tasks)}."
            f"{_advice(spec, tasks)}"
        )


def listed(tasks: Sequence[Task]) -> str:
    """Return the tasks in short, job by job: neighbours are written as a range.

    >>> listed([Task("ps", 0), *(Task("worker", i) for i in (0, 1, 2, 5))])
    'ps:0, worker:0..2, worker:5'
    """
    jobs = dict.fromkeys(task.job for task in tasks)
    texts = [
        f"{job}:{first}" if first == last else f"{job}:{first}..{last}"
        for job in jobs
        for first, last in _ranges(sorted(t.index for t in tasks if t.job == job))
    ]
    return ", ".join(texts) or "no tasks"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] > numbers[i - 1] + 1:
            yield numbers[start], numbers[i - 1]
            start = i


def _matching(spec: DeviceSpec, tasks: Sequence[Task]) -> list[Task]:
    if spec.replica not in (None, 0):
        return []
    return [
        task
        for task in tasks
        if spec.job in (None, task.job) and spec.task in (None, task.index)
    ]


def _advice(spec: DeviceSpec, tasks: Sequence[Task]) -> str:
    near = spec.replace(job=_nearest_job(spec.job, tasks))
    near.replica = None if spec.replica is None else 0
    indices = [task.index for task in _matching(near.replace(task=None), tasks)]
    if not indices:
        return " Place on one of these." if tasks else " Start a cluster first."
    if spec.task is not None:
        wanted = spec.task
        near.task = min(indices, key=lambda index: (abs(index - wanted), index))
    return f" Did you mean {near.to_string()!r}?"


def _nearest_job(job: str | None, tasks: Sequence[Task]) -> str | None:
    """Return the known job that is most similar to `job`, or `job` if none is."""
    if job is None or any(task.job == job for task in tasks):
        return job
    jobs = {task.job.lower(): task.job for task in tasks}
    near = difflib.get_close_matches(job.lower(), jobs, n=1, cutoff=0.5)
    return jobs[near[0]] if near else job


Find = Callable[[], Sequence[Task] | None]

_hook: list[Find] = []


def set_known_tasks(find: Find | None) -> None:
    """Set how the current tasks are found; `find` returns None without a cluster."""
    _hook[:] = [] if find is None else [find]


def check_device(device: str) -> None:
    """Raise `PlacementError` if the current cluster has no task of this name."""
    tasks = _hook[0]() if _hook and device else None
    if tasks is not None:
        _check_once(device, tuple(tasks))


# A graph asks for the same few names again and again.
@lru_cache(maxsize=256)
def _check_once(device: str, tasks: tuple[Task, ...]) -> None:
    check_known(device, tasks)
