"""`kit.group`: the group of the tasks that run this cell, call or program."""

from __future__ import annotations

from typing import Any, overload

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.graph.op import Op
from kit.graph.ops.state import source
from kit.groups import scope
from kit.groups.group import TaskGroup
from kit.server import engine
from kit.server.server import Server
from kit.task import Task

_TIMEOUT_S = 600.0


@overload
def group(
    *tasks: str | Task,
    link: str | None = None,
    timeout_s: float = _TIMEOUT_S,
    cluster: Server | None = None,
) -> TaskGroup: ...


@overload
def group(*tasks: Any, name: str = "group_deps") -> Op: ...


def group(
    *tasks: Any,
    link: str | None = None,
    timeout_s: float = _TIMEOUT_S,
    cluster: Server | None = None,
    name: str | None = None,
) -> Any:
    """Return the group of the tasks that run this, for collectives and messages.

    Every one of its tasks calls it, in the same order where there are several groups.
    It waits for nobody: the tasks find each other in the first call of the group.

    With ops of a graph instead of tasks, as `tf.group`, it returns an op that is done
    when they are.

    Parameters
    ----------
    *tasks : str or Task
        Jobs or tasks, such as "worker" or "ps:1". By default those that run this cell
        or `cluster.call`; in a program of its own, all tasks of this task's job.
    link : str, optional
        Slows the links, as in `kit.train`: "100mbit,5ms".
    timeout_s : float, default 600
        Seconds that a call may wait for other tasks.
    cluster : Server, optional
        This task's server, in a program of its own.
    name : str, optional
        Of the op, where ops of a graph are given.

    Returns
    -------
    TaskGroup
        This task's end of it.

    Raises
    ------
    FailedPreconditionError
        This process is no task.
    InvalidArgumentError
        A task is not known, or this one is not among them.

    Examples
    --------
    In a cell that begins with ``%%on worker``::

        group = kit.group()
        total = group.all_reduce(np.arange(4.0))
    """
    if name is not None or any(not isinstance(task, str | Task) for task in tasks):
        return source.group(*tasks, name=name or "group_deps")
    if cluster is None:
        try:
            cluster = engine.current()
        except FailedPreconditionError as error:
            raise FailedPreconditionError(
                "this process is not a task, so it has no group. Call kit.group() in a "
                "cell that begins with %%on worker, in a function of cluster.call, or "
                "with cluster=server in a program of its own."
            ) from error
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < 1e7:
        raise InvalidArgumentError(f"timeout_s={timeout_s!r}; give seconds above 0.")
    return cluster.groups.make(_chosen(tasks, cluster), link, float(timeout_s))


def _chosen(words: tuple[Any, ...], server: Server) -> list[Task]:
    tasks, where = server.directory.addresses, scope.now()
    if not words and where is not None:
        return [Task.parse(name) for name in where.tasks]
    names = words or (server.task.job,)
    chosen = list[Task]()
    for wanted in names:
        some = [
            task for task in tasks if wanted in (task, task.job, task.short, str(task))
        ]
        if not some:
            raise InvalidArgumentError(
                f"no job or task is called {wanted!r}; there are "
                f"{', '.join(task.short for task in tasks)}."
            )
        chosen += [task for task in some if task not in chosen]
    return chosen
