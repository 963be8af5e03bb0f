"""From a selector such as `worker:1` or `/job:ps` to the tasks it means.

Pure. Text is parsed, never evaluated.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kit.errors import InvalidArgumentError, PlacementError
from kit.task import Task

Selector = str | Task | Iterable["str | Task"]

_FORM = re.compile(
    r"(?:/?job:(?P<job>[^/:]+)(?:/(?:task|replica):(?P<task>\d+))?/?"
    r"|(?P<short>[^/:]+)(?::(?P<index>\d+))?)"
)


def make_tasks(jobs: Mapping[str, int]) -> list[Task]:
    """Return the tasks of the jobs, in the order given.

    >>> [task.short for task in make_tasks({"ps": 1, "worker": 2})]
    ['ps:0', 'worker:0', 'worker:1']
    """
    return [Task(job, index) for job, n in jobs.items() for index in range(n)]


def check_jobs(jobs: Mapping[str, int]) -> None:
    """Refuse counts and names that no cluster can have (`InvalidArgumentError`).

    >>> check_jobs({"ps": 0, "worker": 1})
    """
    for job, n in jobs.items():
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise InvalidArgumentError(
                f"{job}={n!r} is not a number of tasks; give an integer from 0 up."
            )
        if n:
            Task.parse(f"{job}:0")
    counts = ", ".join(f"{job}={n}" for job, n in jobs.items())
    if not any(n for job, n in jobs.items() if job != "ps"):
        raise InvalidArgumentError(
            f"{counts} has no worker, so nothing would compute; ask for at least one: "
            f"ps=1, worker=1."
        )


def select(selector: Selector, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks that the selector names, in the cluster's order, each once.

    A selector is `"all"`, a job (`"worker"`, `"/job:worker"`), a task (`"worker:1"`,
    `"/job:worker/task:1"`, a `Task`), or several of these. Raises `PlacementError` when
    there is no such job or task.

    >>> tasks = make_tasks({"ps": 1, "worker": 2})
    >>> [t.short for t in select(["worker:1", "/job:ps"], tasks)]
    ['ps:0', 'worker:1']
    """
    several: list[Any] = [selector]
    if isinstance(selector, Iterable) and not isinstance(selector, str):
        several = list(selector)
    wanted = {task for name in several for task in _one(name, tasks)}
    return [task for task in tasks if task in wanted]


def select_one(name: str | Task, tasks: Sequence[Task]) -> Task:
    """Return the one task of that name; `PlacementError` for a job, or for "all".

    >>> select_one("/job:worker/task:1", make_tasks({"ps": 1, "worker": 2})).short
    'worker:1'
    """
    matches = select(str(name), tasks)
    if not is_single(name):
        names = " or ".join(repr(task.short) for task in matches)
        raise PlacementError(
            f"{name!r} is a job or several tasks, and one task is wanted: {names}."
        )
    return matches[0]


def is_single(selector: Selector) -> bool:
    """Whether the selector is the name of one task, so that one result comes back.

    >>> is_single("worker:1"), is_single("worker"), is_single(["worker:1"])
    (True, False, False)
    """
    if isinstance(selector, Task):
        return True
    if not isinstance(selector, str):
        return False
    match = _FORM.fullmatch(selector)
    return bool(match and (match["task"] or match["index"]))


def _one(selector: str | Task, tasks: Sequence[Task]) -> list[Task]:
    text = selector.short if isinstance(selector, Task) else selector
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"{selector!r} selects no tasks; give a job such as 'worker', a task such "
            f"as 'worker:1', 'all', or a list of these."
        )
    if text == "all":
        return list(tasks)
    match = _FORM.fullmatch(text)
    job = match and (match["job"] or match["short"])
    index = match and (match["task"] or match["index"])
    matches = [t for t in tasks if t.job == job and index in (None, str(t.index))]
    if not matches:
        raise PlacementError(_unknown(text, tasks))
    return matches


def _unknown(text: str, tasks: Sequence[Task]) -> str:
    names = [t.short for t in tasks]
    jobs = list(dict.fromkeys(t.job for t in tasks))
    plain = text.strip("/").removeprefix("job:").replace("/task:", ":")
    near = difflib.get_close_matches(plain, [*names, *jobs, "all"], n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return (
        f"no task or job is called {text!r}; this cluster has {', '.join(names)}.{hint}"
    )
