"""What is exchanged and by whom, in all the forms in which a user may give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

from kit.errors import InvalidArgumentError
from kit.exchange.layout import ITEMSIZE, Spec, specs_of
from kit.task import Task

Sizes: TypeAlias = (
    int | Mapping[str, Any] | Sequence[Sequence[int]] | Callable[[], Mapping[str, Any]]
)
Compute: TypeAlias = float | Sequence[float] | Mapping[str, float]
Hosts: TypeAlias = int | Sequence[str] | None

_MOST_TASKS = 2**16  # a trace has 16 bits for the number of a task
_ITEM = ITEMSIZE["float32"]


def specs_from(sizes: Sizes) -> tuple[Spec, ...]:
    """Return the parameters: of a dict of arrays, of shapes, or of a number of bytes.

    Shapes and bytes are those of float32. Raises `InvalidArgumentError`.

    >>> specs_from([(784, 10), (10,)])[0]
    Spec(name='p0', shape=(784, 10), dtype='float32')
    >>> specs_from(4000)
    (Spec(name='p0', shape=(1000,), dtype='float32'),)
    """
    if callable(sizes):
        sizes = sizes()
    if isinstance(sizes, Mapping):
        return specs_of(sizes)
    if isinstance(sizes, int) and not isinstance(sizes, bool):
        if sizes <= 0 or sizes % _ITEM:
            raise InvalidArgumentError(
                f"{sizes} bytes are not float32 parameters; give a multiple of "
                f"{_ITEM} above 0, a list of shapes, or a dict of arrays."
            )
        return (Spec("p0", (sizes // _ITEM,), "float32"),)
    if isinstance(sizes, str) or not isinstance(sizes, Sequence) or not sizes:
        raise _no_sizes(sizes)
    return tuple(
        Spec(f"p{number}", _shape(shape, sizes), "float32")
        for number, shape in enumerate(sizes)
    )


def _shape(shape: object, sizes: object) -> tuple[int, ...]:
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise _no_sizes(sizes)
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise InvalidArgumentError(
            f"a shape is {shape!r}; give whole numbers of 0 or more, such as (784, 10)."
        )
    return tuple(shape)


def _no_sizes(sizes: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{sizes!r} says no sizes; give a dict of arrays, a list of shapes such as "
        f"[(784, 10), (10,)], or the bytes of all parameters."
    )


def tasks_of(ps: int, worker: int) -> tuple[Task, ...]:
    """Return the tasks of a cluster with these numbers of servers and workers.

    >>> [task.short for task in tasks_of(1, 2)]
    ['ps:0', 'worker:0', 'worker:1']
    """
    if worker < 1 or ps < 0 or ps + worker > _MOST_TASKS:
        raise InvalidArgumentError(
            f"ps={ps} and worker={worker} make no cluster; give worker of 1 or more, "
            f"ps of 0 or more, and {_MOST_TASKS:,} tasks together at most."
        )
    servers = [Task("ps", index) for index in range(ps)]
    return (*servers, *(Task("worker", index) for index in range(worker)))


def hosts_of(hosts: Hosts, n_tasks: int) -> tuple[str, ...]:
    """Return the host of each task; of a number of hosts, in blocks of equal size.

    >>> hosts_of(2, 4), hosts_of(None, 4)
    (('host0', 'host0', 'host1', 'host1'), ())
    """
    if hosts is None:
        return ()
    if isinstance(hosts, int):
        if not 1 <= hosts <= n_tasks:
            raise InvalidArgumentError(
                f"{n_tasks} tasks cannot be on {hosts} hosts; give a number from 1 to "
                f"{n_tasks}, or the name of each task's host."
            )
        return tuple(f"host{task * hosts // n_tasks}" for task in range(n_tasks))
    if isinstance(hosts, str) or len(hosts) != n_tasks:
        raise InvalidArgumentError(
            f"hosts names {len(hosts)} of {n_tasks} tasks' hosts; give the host of "
            f"each, servers first, or how many hosts there are."
        )
    return tuple(map(str, hosts))


def compute_of(compute: Compute, tasks: Sequence[Task]) -> dict[Task, float]:
    """Return the seconds that each worker computes in a step; servers compute none.

    >>> compute_of({"worker:1": 0.5}, tasks_of(0, 2))[Task("worker", 1)]
    0.5
    """
    workers = [task for task in tasks if task.job != "ps"]
    if isinstance(compute, Mapping):
        named = {Task.parse(name): seconds for name, seconds in compute.items()}
        unknown = [task.short for task in named if task not in workers]
        if unknown:
            raise InvalidArgumentError(
                f"compute names {', '.join(unknown)}, and the workers are "
                f"{workers[0].short} to {workers[-1].short}."
            )
        seconds_of = {task: named.get(task, 0.0) for task in workers}
    elif isinstance(compute, Sequence) and not isinstance(compute, str):
        if len(compute) != len(workers):
            raise InvalidArgumentError(
                f"compute has {len(compute)} times for {len(workers)} workers; give "
                f"one for each, one number for all, or a dict by name."
            )
        seconds_of = dict(zip(workers, compute, strict=True))
    else:
        seconds_of = dict.fromkeys(workers, compute)
    for task, seconds in seconds_of.items():
        if not isinstance(seconds, Real) or not 0 <= float(seconds) < float("inf"):
            raise InvalidArgumentError(
                f"{task.short} computes for {seconds!r}; give seconds of 0 or more."
            )
    return {task: float(seconds) for task, seconds in seconds_of.items()}
