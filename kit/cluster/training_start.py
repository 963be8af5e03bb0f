"""Begin a training on the engines of a cluster.

The step function and the data travel once to each other host, over ipyparallel's
encrypted channel, as cells do. All tasks of a host map the same memory. From then on
the notebook talks to the tasks' servers.
"""

from __future__ import annotations

import mmap
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

from kit.cluster.cells.remote import opened
from kit.errors import FailedPreconditionError, InvalidArgumentError, noted_at
from kit.exchange.topologies.topology import Topology, by_name, is_own, register
from kit.pickling import Reducer, changed_by, dumps
from kit.server import engine
from kit.system import path_of
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller

if TYPE_CHECKING:
    from kit.cluster.cluster import Cluster


# --------------------------------------------------------------------------------------
# Bring a user's own topology to the tasks of a cluster, wherever it is defined.
#
# It travels by value over ipyparallel's encrypted channel, as a cell does, and is
# registered in each task under its name. So it may be defined in a notebook's cell, a
# script, or a module that the tasks do not have; they must have the modules it imports.


def packed(name: str) -> dict[str, bytes]:
    """Return the pickled topology of that name if the user wrote it; else nothing.

    Raises `InvalidArgumentError` for a topology with an attribute that cannot be sent,
    such as a lock, and for a name that is not known here.
    """
    topology = by_name(name)
    if not is_own(topology):
        return {}
    try:
        with _by_value(topology):
            return {name: cloudpickle.dumps(topology)}
    except Exception as error:  # the classes of its attributes may raise anything
        raise InvalidArgumentError(
            f"topology {name!r} cannot be sent to the tasks: {type(error).__name__}: "
            f"{error}. Keep plain values in it, and make the rest in plan()."
        ) from error


def take(topologies: Mapping[str, bytes]) -> None:
    """Register in this task the topologies that `packed` returned."""
    for data in topologies.values():
        register(cloudpickle.loads(data))


@contextmanager
def _by_value(topology: Topology) -> Iterator[None]:
    """Have the modules of its classes pickled by value, not by name.

    By name they would be imported in the task, where they may be missing, or older than
    what was changed here.
    """
    modules = cloudpickle.list_registry_pickle_by_value()
    with ExitStack() as stack:
        for module in _own_modules(topology):
            # What the user has registered stays registered.
            if module.__name__ not in modules:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _own_modules(topology: Topology) -> list[ModuleType]:
    names = {kind.__module__ for kind in type(topology).__mro__}
    theirs = {"kit", *sys.stdlib_module_names}
    return [
        sys.modules[name]
        for name in sorted(names)
        if name in sys.modules and name.split(".")[0] not in theirs
    ]


# --------------------------------------------------------------------------------------
# How a step function and its data get to the tasks: once to each host, in memory.
#
# They are pickled once. One process of each host holds the pickle in a file in memory,
# and each task there maps it: all share one copy of an array until a task writes to it,
# which gives that task its own copy of the page. On the notebook's host the notebook
# holds it; on any other host it is the first task there, which alone gets the pickle
# over the network.
#
# On Linux the file has no name, so none can be left behind. Tasks open it through the
# process that holds it, so they must belong to the same user and see that process.

_ALIGNED = 64  # bytes of a cache line, and of the widest vector registers


@dataclass(frozen=True)
class MappedPickle:
    """Where an object is: the file, the length of its pickle, and its arrays."""

    path: str
    n_bytes: int
    arrays: tuple[tuple[int, int], ...]

    def open(self) -> Any:
        """Return a copy of the object, which shares the mapped memory.

        Raises `FailedPreconditionError` if the process that holds it cannot be seen.
        """
        try:
            with Path(self.path).open("rb") as file:
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        except OSError as error:
            raise FailedPreconditionError(
                f"the step function and the data cannot be mapped from {self.path}: "
                f"{error.strerror}. The process that holds them has ended, or this "
                f"task, which has the same address, cannot see it: both must be of "
                f"one user, and not in separate containers."
            ) from error
        arrays = [whole[begin:end] for begin, end in self.arrays]
        return opened(whole[: self.n_bytes], arrays)


@dataclass(frozen=True)
class Pickled:
    """An object as `cloudpickle` splits it: its pickle, and the arrays beside it."""

    text: bytes
    arrays: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any, what: str, reduced: Reducer | None = None) -> Pickled:
        """Pickle an object, `what` in messages; the arrays are not copied.

        `reduced` is as for `kit.pickling.dumps`. Raises `InvalidArgumentError`, naming
        what cannot be pickled.
        """
        arrays: list[Any] = []
        text = dumps(value, what, lambda buffer: arrays.append(buffer.raw()), reduced)
        return cls(text, tuple(arrays))

    def __reduce__(self) -> Any:
        # Views of memory cannot be pickled.
        return Pickled, (self.text, tuple(map(bytes, self.arrays)))

    @contextmanager
    def held(self) -> Iterator[MappedPickle]:
        """Hold it in memory, for processes of this host and user, during a block."""
        holder, mapped = self.hold()
        with holder:
            yield mapped

    def hold(self) -> tuple[ExitStack, MappedPickle]:
        """Return what holds it, until it is closed, and what to map."""
        places: list[tuple[int, int]] = []
        with ExitStack() as stack:
            descriptor, path = stack.enter_context(path_of("work"))
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(self.text)
                for array in self.arrays:
                    begin = -(-file.tell() // _ALIGNED) * _ALIGNED
                    file.seek(begin)
                    file.write(array)
                    places.append((begin, begin + memoryview(array).nbytes))
                # The last array may be empty: then `seek` alone has not made the file
                # long enough to be mapped.
                file.truncate()
            mapped = MappedPickle(path, len(self.text), tuple(places))
            return stack.pop_all(), mapped


# --------------------------------------------------------------------------------------
# The start.

_CLIENT = Task("client", 0)


def launch(cluster: Cluster, job: Job, work: Work) -> Run:
    """Begin a training on every task of a cluster, or on none."""
    cluster.bring(job.topology)
    directory = cluster.directory

    def dial(task: Task, run: str, address: str = "") -> Caller:
        is_known = address or task in directory.addresses
        # A task that was added since the training began is in a newer directory only.
        where = directory if is_known else cluster.directory
        return Caller(where.dial(task, _CLIENT, Role.OBSERVER, run, address=address))

    coordinator, *others = computing = _needing_work(cluster, job)
    servers = [task for task in cluster.tasks if task not in computing]
    try:
        if job.needs_preparing:
            job = job.at(*cluster.call("all", engine.prepare, job))
        _warn_of_copies(work.hooks)
        reducer = work.hooks.reducer() if work.hooks else None
        pickled = Pickled.of(work, "the training", reducer)
        with _sent(cluster, job.run, computing, pickled) as mapped:
            # The coordinator first: the others come to it as soon as they begin.
            cluster.call(coordinator, begin, job, mapped)
            if servers:
                cluster.call(servers, engine.begin, job, None)
            if others:
                cluster.call(others, begin, job, mapped)
    except BaseException as error:
        # Some tasks may have begun, and would wait for the others until a deadline.
        with noted_at(error):
            cluster.call("all", engine.give_up, job.run)
        raise
    return Run(job, dial, bring=cluster.bring, restart=cluster.restart)


def _warn_of_copies(hooks: Any) -> None:
    """Name what hooks change of this process: in a task they change a copy of it."""
    for hook in hooks:
        for name, value in changed_by(hook).items():
            warnings.warn(
                f"{type(hook).__name__} changes {name!r}, of the type "
                f"{type(value).__name__}: a hook runs in the first worker's task, with "
                f"a copy of it, and the one here stays as it is. What is measured "
                f"comes back in run.frame(), and what a hook prints is shown here.",
                stacklevel=8,
            )


def _needing_work(cluster: Cluster, job: Job) -> list[Task]:
    """Return the tasks whose processes get the step function, the coordinator first.

    In an elastic training any process may have to host a worker later.
    """
    if not job.is_elastic:
        return [job.tasks[number] for number in job.workers]
    return sorted(
        cluster.tasks, key=lambda task: task != job.process_of(job.coordinator)
    )


@contextmanager
def _sent(
    cluster: Cluster, run: str, tasks: Sequence[Task], work: Pickled
) -> Iterator[dict[Task, MappedPickle]]:
    """Hold the work on each host meanwhile; yield what each of the tasks maps."""
    if cluster.options.launcher is None:
        with work.held() as mapped:
            yield dict.fromkeys(tasks, mapped)
        return
    names = cluster.hosts or [""] * len(cluster.tasks)
    host_of = dict(zip(cluster.tasks, names, strict=True))
    # Backwards, so that the first task of each host is the one that stays.
    firsts = {host_of[task]: task for task in tasks[::-1]}
    # Answers come in the order of the cluster's tasks.
    hosts = sorted(firsts, key=lambda host: cluster.tasks.index(firsts[host]))
    holders = [firsts[host] for host in hosts]
    try:
        held = dict(zip(hosts, cluster.call(holders, hold, run, work), strict=True))
        yield {task: held[host_of[task]] for task in tasks}
    except BaseException as error:
        with noted_at(error):
            cluster.call(holders, let_go, run)
        raise
    cluster.call(holders, let_go, run)


# In a task: what it holds for the tasks of its host, by run.
_held: dict[str, ExitStack] = {}


def hold(run: str, work: Pickled) -> MappedPickle:
    """Hold the work of a training for the tasks of this one's host."""
    _held[run], mapped = work.hold()
    return mapped


def let_go(run: str) -> None:
    """Stop holding it; tasks that have mapped it keep the memory."""
    if run in _held:
        _held.pop(run).close()


def begin(job: Job, mapped: dict[Task, MappedPickle]) -> None:
    """Begin this task's part with the work that is held for it."""
    engine.begin(job, mapped[engine.current().task].open())
