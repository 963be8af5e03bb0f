"""The cluster as its user holds it: tasks to address, functions to run on them.

    with kit.Cluster(ps=1, worker=3) as cluster:
        cluster.call("worker", os.getpid)          # one result for each worker

Every call that waits comes in a blocking and an awaitable form, and the blocking form
works inside a running event loop too. All work is done by the `Supervisor` in another
thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kit import machine
from kit.cluster import lifecycle, loop, report, runtime
from kit.cluster.arguments import check_times, merge_jobs
from kit.cluster.cells import remote
from kit.cluster.cells.selection import (
    Selector,
    check_jobs,
    is_single,
    make_tasks,
    select,
)
from kit.cluster.engine_work import EngineWork
from kit.cluster.launching import launch
from kit.cluster.plan import ClusterPlan
from kit.cluster.processes.bootstrap import SERVERS, Bootstrap
from kit.cluster.processes.reaper import Process
from kit.cluster.report import ClusterState, TaskStatus
from kit.cluster.runtime import default_python
from kit.dask.graph import set_cluster
from kit.errors import FailedPreconditionError
from kit.graph.known_tasks import set_known_tasks
from kit.server.directory import Directory
from kit.server.target import ClusterTarget
from kit.settings import Settings
from kit.settings import current as current_settings
from kit.spec import ClusterSpec
from kit.task import Task
from kit.training.client.run import Run
from kit.training.job import Job, Work
from kit.training.train import set_current
from kit.wire.shaping import LinkSettings


class Cluster(EngineWork):
    """A cluster of processes on this machine, each one task of a job.

    Nothing starts until `start()`, or until it is entered with `with` or `async with`,
    which also stop it.

    Parameters
    ----------
    ps : int, default 1
        Parameter servers.
    worker : int, default 3
        Workers.
    jobs : dict of str to int, optional
        More jobs by name, and how many tasks each has.
    transport : {"auto", "unix", "tcp"}
        How tasks are linked. "auto" is the best that both ends have.
    insecure : bool, default False
        No TLS on TCP. Anybody on the line can then act as you; see `Settings`.
    lease_s : float, default 15
        Seconds that the tasks outlive a notebook that was killed.
    link : str, default ""
        Speed of the links in trainings that ask for none, such as "1gbit,5ms". Empty
        for full speed.
    threads : int, optional
        BLAS threads of each task; by default a fair share of the cores.
    start_deadline_s, stop_deadline_s : float
        Seconds that a start (60) and an orderly stop (2) may take.
    log_level : int
        Level of the log of ipyparallel, as in `logging`.
    python : str, optional
        The interpreter of the tasks; by default this one.
    bootstrap : Bootstrap
        What makes an engine a task; for tests.

    Raises
    ------
    InvalidArgumentError
        A value is out of range, or a job has no usable name.

    Examples
    --------
    Train on four processes, and leave nothing behind::

        with kit.Cluster(ps=1, worker=3) as cluster:
            run = kit.train(step, params, data, steps=300)
            run.wait()
    """

    def __init__(
        self,
        ps: int = 1,
        worker: int = 3,
        *,
        jobs: Mapping[str, int] | None = None,
        transport: str = "auto",
        insecure: bool = False,
        lease_s: float = 15.0,
        link: str = "",
        threads: int | None = None,
        start_deadline_s: float = 60.0,
        stop_deadline_s: float = 2.0,
        log_level: int = logging.CRITICAL,
        python: str | None = None,
        bootstrap: Bootstrap = SERVERS,
    ) -> None:
        counts = merge_jobs(ps, worker, jobs or {})
        check_jobs(counts)
        check_times(lease_s=lease_s)
        check_times(start_deadline_s=start_deadline_s, stop_deadline_s=stop_deadline_s)
        tasks = tuple(make_tasks(counts))
        plan = ClusterPlan(
            tasks,
            threads=runtime.choose_threads(threads, len(tasks)),
            python=python or default_python(),
            transport=Settings(transport=transport).transport,
            insecure=insecure,
            lease_s=lease_s,
            start_deadline_s=start_deadline_s,
            stop_deadline_s=stop_deadline_s,
            log_level=log_level,
            bootstrap=bootstrap,
            settings=current_settings().as_plain(),
            link=str(LinkSettings.parse(link)),
        )
        super().__init__(plan)

    # -- look -------------------------------------------------------------------

    @property
    def tasks(self) -> list[Task]:
        """All tasks: the jobs in their order, in each the tasks by index."""
        return list(self._plan.tasks)

    @property
    def state(self) -> ClusterState:
        """The cluster's state; LOST when a task or what they all need is gone.

        That is ipyparallel's controller, which calls go through, and the fork server,
        which a restarted task comes from.
        """
        return ClusterState.LOST if self._lost else self._state

    @property
    def _lost(self) -> list[str]:
        if self._state is not ClusterState.READY or self._supervisor is None:
            return []
        return self._supervisor.lost

    @property
    def status(self) -> list[TaskStatus]:
        """State, pid and host of each task; why it is lost or cannot be restarted."""
        if self._supervisor is None:
            return [TaskStatus(task) for task in self._plan.tasks]
        return list(self._supervisor.status.values())

    @property
    def spec(self) -> ClusterSpec:
        """The jobs, tasks and addresses, as the servers gave them."""
        spec = self._ready().spec
        assert spec is not None, "a ready supervisor has a spec"
        return spec

    @property
    def processes(self) -> frozenset[Process]:
        """Every process that belongs to the cluster; `stop` ends them all."""
        return frozenset() if self._supervisor is None else self._supervisor.processes

    @property
    def controller_pid(self) -> int:
        """The process id of ipyparallel's controller."""
        engines = self._ready().engines
        assert engines is not None, "a ready supervisor has engines"
        return engines.controller_pid

    @property
    def threads(self) -> int:
        """BLAS threads of each engine."""
        return self._plan.threads

    @property
    def link(self) -> str:
        """The speed of the links in trainings that ask for none, "" for full speed."""
        return self._plan.link

    @link.setter
    def link(self, text: str) -> None:
        self._plan = replace(self._plan, link=str(LinkSettings.parse(text)))

    def __repr__(self) -> str:
        return report.one_line(self.state, self._plan.jobs, self.threads, self._lost)

    def _repr_html_(self) -> str:
        statuses = self.status
        used = {s.pid: machine.used_mib(s.pid) for s in statuses if s.pid is not None}
        known = {pid: mib for pid, mib in used.items() if mib is not None}
        caption, foot = repr(self).strip("<>"), self.memory_told if known else ""
        return report.table(caption, statuses, known, foot)

    @property
    def directory(self) -> Directory:
        """Where the tasks' servers are, and the key to be let in."""
        supervisor = self._ready()
        addresses = {
            task: self.spec.task_address(task.job, task.index) for task in self.tasks
        }
        chosen = current_settings().replace(
            transport=self._plan.transport, insecure=self._plan.insecure
        )
        return Directory(addresses, supervisor.credentials, supervisor.folder, chosen)

    def target(self, task: str | Task) -> ClusterTarget:
        """Return a task as the target of a session: `kit.Session(cluster.target(...))`.

        Raises `PlacementError` for one that the cluster does not have.
        """
        (found,) = select(str(task), self._plan.tasks)
        carry = partial(self.call, "all")
        return ClusterTarget(lambda: self.directory, found, carry, self._check_lives)

    @property
    def session_target(self) -> ClusterTarget:
        """The first worker: what `kit.Session(cluster)` connects to."""
        return self.target("worker:0")

    # -- use --------------------------------------------------------------------

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on all tasks; what `kit.train` calls.

        Raises `ClusterBusy` while another one runs here; none of the tasks begins then.
        """
        if not job.link:
            job = replace(job, link=self._plan.link)
        self._run = launch(self, job, work)
        # A worker that is lost and can be spared may come back and need it.
        self._work = work if job.has_backups else None
        return self._run

    def view(self, selector: Selector = "all") -> Any:
        """Return an ipyparallel `DirectView` of the tasks that the selector names.

        A selector is "all", a job, a task, or a list of these. Raises `PlacementError`
        for one that the cluster does not have, `PeerLost` for one that is lost.
        """
        supervisor = self._ready()
        wanted = select(selector, self._plan.tasks)
        assert supervisor.engines is not None, "a ready supervisor has engines"
        for task in wanted:
            self._check_lives(task)
        return supervisor.engines.view(
            [self._plan.tasks.index(task) for task in wanted]
        )

    def call(
        self,
        where: Selector,
        function: Callable[..., Any],
        *args: Any,
        deadline_s: float = 60.0,
        **kwargs: Any,
    ) -> Any:
        """Call a function on the named tasks and return what it returns; blocks.

        Parameters
        ----------
        where : str, Task, or iterable of these
            "all", a job, a task such as "worker:1", or several of them.
        function : callable
            It is sent to the tasks with `args` and `kwargs`.
        deadline_s : float, default 60
            Seconds that the call may take.

        Returns
        -------
        object or list
            The result of one task if one is named, else a list in the order of `tasks`.

        Raises
        ------
        UnknownError
            The function raised; `remote_traceback` says where. Errors of `kit.errors`
            are raised as they are.
        PeerLost, ControllerLost
            A task, or ipyparallel's controller, is gone. Raised at once.
        DeadlineExceededError
            The call took longer than `deadline_s`.

        Examples
        --------
        Ask every worker for its process::

            pids = cluster.call("worker", os.getpid)
        """
        work = self._call(where, function, args, kwargs, deadline_s)
        return _one_or_all(where, work.result())

    async def call_async(
        self,
        where: Selector,
        function: Callable[..., Any],
        *args: Any,
        deadline_s: float = 60.0,
        **kwargs: Any,
    ) -> Any:
        """Call as `call` does, without blocking the running loop."""
        work = self._call(where, function, args, kwargs, deadline_s)
        return _one_or_all(where, await work.awaited())

    def _check_lives(self, task: Task) -> None:
        self._ready().calls.check(task)

    def _call(
        self,
        where: Selector,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        deadline_s: float,
    ) -> loop.LoopTask[dict[Task, Any]]:
        supervisor = self._ready()
        check_times(deadline_s=deadline_s)
        payload = remote.pack(function, args, kwargs)
        payloads = dict.fromkeys(select(where, self._plan.tasks), payload)
        what = f"return from {getattr(function, '__name__', 'the function')}()"
        assert self._loop is not None, "a ready cluster has a loop"
        return self._loop.submit(supervisor.calls.perform(payloads, deadline_s, what))


def current() -> Cluster:
    """Return the running cluster that was started or entered last.

    Raises `FailedPreconditionError` when there is none.
    """
    found = [c for c in lifecycle.running() if isinstance(c, Cluster)]
    if not found:
        raise FailedPreconditionError(
            "no cluster is running; start one: kit.Cluster(ps=1, worker=3).start()."
        )
    return found[-1]


def _known_tasks() -> list[Task] | None:
    found = [c for c in lifecycle.running() if isinstance(c, Cluster)]
    return found[-1].tasks if found else None


set_current(current)
set_known_tasks(_known_tasks)
set_cluster(current)


def _one_or_all(where: Selector, values: Mapping[Task, Any]) -> Any:
    found = list(values.values())
    return found[0] if is_single(where) else found
