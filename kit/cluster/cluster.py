"""The cluster as users see it: tasks to address, functions to run on them.

    with kit.Cluster(ps=1, worker=3) as cluster:
        cluster.call("worker", os.getpid)          # one result for each worker

Every call that waits has a blocking and an awaitable form, and the blocking form also
works inside a running event loop, because the `Supervisor` does all work in another
thread. `Cluster` has many methods, since all that is done with a cluster is found there
by completion; what they do stands in its `Lifecycle`, in `cells` and in `report`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from kit import machine
from kit.cluster import memory, report, runtime
from kit.cluster.adding import adding, removing
from kit.cluster.cells import remote
from kit.cluster.cells.calls import CallInterrupted
from kit.cluster.cells.cell_output import CellOutput
from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.on import (
    Outcome,
    cells_on,
    collected,
    on_tasks,
)
from kit.cluster.cells.selection import (
    Selector,
    check_jobs,
    is_single,
    make_tasks,
    select,
    select_one,
)
from kit.cluster.changes import TaskChange
from kit.cluster.dask_workers.workers import DaskWorkers, check_client
from kit.cluster.launchers import Launcher
from kit.cluster.launchers.site import launcher_for
from kit.cluster.lifecycle import Lifecycle
from kit.cluster.loop import LoopTask
from kit.cluster.options import (
    ClusterOptions,
    check_times,
    checked_gpus,
    merge_jobs,
)
from kit.cluster.polling import Polling, awaited, drive
from kit.cluster.processes.bootstrap import SERVERS, Bootstrap
from kit.cluster.processes.reaper import Process
from kit.cluster.report import ClusterState, TaskStatus
from kit.cluster.restarting import SHOW_AGAIN, busy, rejoin, restart
from kit.cluster.runtime import default_python
from kit.cluster.training_start import launch, packed
from kit.errors import (
    ClusterBusy,
    InvalidArgumentError,
    KitError,
    PeerLost,
    noted_at,
)
from kit.handles import OldName, handle
from kit.markup import Html, in_cell
from kit.server.directory import Directory
from kit.server.engine import end_at_once, give_up
from kit.server.target import ClusterTarget
from kit.settings import INSECURE, Settings
from kit.settings import current as current_settings
from kit.spec import ClusterSpec
from kit.task import Task
from kit.training.arguments import whole
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.shaping import LinkSettings
from kit.wire.stream import MPI


@handle
class Cluster:
    """A cluster of processes, on this machine or many, each one task of a job.

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
    transport : {"auto", "unix", "tcp", "mpi"}
        How tasks are linked. "auto" is the best that both ends have. With "mpi", which
        needs `launcher=kit.launchers.MPI()`, each task is a rank, and gradients and
        parameters travel over MPI.
    insecure : bool, default False
        No TLS on TCP. Anybody on the network can then act as you; see `Settings`.
    lease_s : float, default 15
        Seconds that the tasks outlive a notebook that was killed.
    link : str, default ""
        Speed of the links in trainings that do not set one, such as "1gbit,5ms". Empty
        for full speed.
    threads : int, optional
        BLAS threads of each task; by default a fair share of the cores, over several
        hosts the least share of all. All tasks have the same number, on which the last
        bits of their products depend; variables such as OMP_NUM_THREADS are set by it.
    gpus : int or "auto", default "auto"
        How many GPUs of its host each worker sees, which are its own. "auto" is one,
        which workers share where there are fewer; 0 hides all. No GPU is used before a
        training or a graph asks for one. `CUDA_VISIBLE_DEVICES`, as Slurm sets it, says
        which there are.
    start_deadline_s, stop_deadline_s : float
        Seconds that a start (60) and an orderly stop (2) may take.
    log_level : int
        Level of the log of ipyparallel, as in `logging`.
    python : str, optional
        The interpreter of the tasks; by default this one.
    launcher : Launcher or str, optional
        Starts the tasks on other hosts: one of `kit.launchers`, or the name of one that
        the site's file describes, such as `"slurm"`. By default all tasks are processes
        of this host.
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
        gpus: int | str = "auto",
        start_deadline_s: float = 60.0,
        stop_deadline_s: float = 2.0,
        log_level: int = logging.CRITICAL,
        python: str | None = None,
        launcher: Launcher | str | None = None,
        bootstrap: Bootstrap = SERVERS,
    ) -> None:
        counts = merge_jobs(ps, worker, jobs or {})
        check_jobs(counts)
        check_times(lease_s=lease_s)
        check_times(start_deadline_s=start_deadline_s, stop_deadline_s=stop_deadline_s)
        tasks = tuple(make_tasks(counts))
        chosen = launcher_for(launcher)
        if chosen is not None:
            chosen.n_processes(len(tasks))  # raises when they cannot be placed
        _check_transport(transport, chosen)
        checked = Settings(transport=transport, insecure=insecure)
        options = ClusterOptions(
            tasks,
            threads=_threads(threads, len(tasks), chosen),
            python=python or default_python(),
            transport=checked.transport,
            insecure=checked.insecure,
            lease_s=lease_s,
            start_deadline_s=start_deadline_s,
            stop_deadline_s=stop_deadline_s,
            log_level=log_level,
            bootstrap=bootstrap,
            settings=current_settings().as_plain(),
            link=str(LinkSettings.parse(link)),
            launcher=chosen,
            gpus=checked_gpus(gpus),
        )
        self._begin_with(options)

    @classmethod
    def from_dask(
        cls,
        client: Any,
        ps: int = 1,
        worker: int = 3,
        *,
        insecure: bool = False,
        address: str = "",
        **options: Any,
    ) -> Self:
        """Make a cluster whose tasks run beside the workers of a dask cluster.

        dask starts the workers, wherever it can, and ends the tasks with them. The
        tasks take no threads from dask: its own work goes on beside them.

        Parameters
        ----------
        client : distributed.Client
            A client of a dask cluster with TLS. Its workers are chosen at the start,
            host by host; each holds at most as many tasks as it has threads.
        ps, worker : int
            As for every cluster.
        insecure : bool, default False
            Allow a dask cluster without TLS, and use no TLS between tasks either.
            Anybody on the network can then act as you, even on a single machine.
        address : str, optional
            The address at which the workers reach this machine.
        **options
            The other parameters of `Cluster`, except `launcher` and `python`.

        Raises
        ------
        InvalidArgumentError
            The client is asynchronous, or its cluster is not encrypted.
        FailedPreconditionError
            The client is closed.

        Notes
        -----
        `start` raises `StartFailed` if the workers have too few threads, or different
        versions of Python or the kit. `stop` leaves the dask cluster as it was.

        Examples
        --------
        Five tasks on a dask cluster of this machine::

            with LocalCluster(n_workers=5, security=True) as local:
                client = Client(local)
                with kit.Cluster.from_dask(client, ps=1, worker=4) as cluster:
                    print(cluster.status)
        """
        check_client(client, insecure=insecure)
        workers = DaskWorkers(client=client, address=address)
        return cls(ps, worker, insecure=insecure, launcher=workers, **options)

    def _begin_with(self, options: ClusterOptions) -> None:
        self._life = Lifecycle(options)
        self._run: Run | None = None
        # Of that training, for a worker that may come back and needs it again.
        self._work: Work | None = None

    # -- inspect ----------------------------------------------------------------

    @property
    def tasks(self) -> list[Task]:
        """All tasks: the jobs in their order, in each the tasks by index."""
        return list(self.options.tasks)

    @property
    def hosts(self) -> list[str]:
        """The host name of each task; empty if all tasks are on one host.

        Addresses, if two hosts have the same name.
        """
        hosts = self.directory.hosts(self.tasks)
        host_of = {status.task: status.host for status in self.status}
        names = [host_of.get(task, "") for task in self.tasks]
        # Names serve only if they tell the hosts apart exactly as their addresses do.
        pairs = set(zip(hosts, names, strict=False))
        return names if len(set(names)) == len(pairs) > 1 else hosts

    @property
    def state(self) -> ClusterState:
        """The cluster's state; LOST when a task or a process that all need is gone.

        All tasks need ipyparallel's controller, which carries calls, and the fork
        server, which starts new processes for lost tasks.
        """
        return ClusterState.LOST if self._lost else self._life.state

    @property
    def _lost(self) -> list[str]:
        life, is_ready = self._life, self._life.state is ClusterState.READY
        return life.supervisor.lost if is_ready and life.supervisor else []

    @property
    def status(self) -> list[TaskStatus]:
        """State, pid and host of each task, and why it is lost, in their order."""
        supervisor = self._life.supervisor
        if supervisor is None:
            return [TaskStatus(task) for task in self.tasks]
        return list(supervisor.status.values())

    @property
    def spec(self) -> ClusterSpec:
        """The jobs, tasks and addresses, as the servers gave them."""
        spec = self._life.ready()[0].spec
        assert spec is not None, "a ready supervisor has a spec"
        return spec

    @property
    def processes(self) -> frozenset[Process]:
        """Every process that belongs to the cluster; `stop` ends them all."""
        supervisor = self._life.supervisor
        return frozenset() if supervisor is None else supervisor.processes

    @property
    def controller_pid(self) -> int:
        """The process id of ipyparallel's controller."""
        return self._life.ready()[0].engines.controller.pid

    @property
    def threads(self) -> int:
        """BLAS threads of each task, the same for all.

        By default they are a task's share of the cores; on several hosts the least
        share of all, which is known when the cluster has started: 0 until then.
        """
        supervisor = self._life.supervisor
        return supervisor.hosts.threads if supervisor else self.options.threads

    @property
    def link(self) -> str:
        """The speed of the links in trainings that set none; "" for full speed."""
        return self.options.link

    @link.setter
    def link(self, text: str) -> None:
        self._life.options = replace(self.options, link=str(LinkSettings.parse(text)))

    @property
    def options(self) -> ClusterOptions:
        """What was asked of the cluster."""
        return self._life.options

    def twin(self) -> Self:
        """Return a new cluster with the same options, not started yet."""
        # Past __init__: it would read the settings anew, which may have changed.
        other = object.__new__(type(self))
        other._begin_with(self.options)
        return other

    @property
    def memory_mib(self) -> float:
        """The memory of all its processes, in MiB; takes some 20 ms."""
        return sum(machine.used_mib(process.pid) or 0.0 for process in self.processes)

    @property
    def cores_in_words(self) -> str:
        """What too few cores mean for its speed, in words.

        Empty if there are enough, or if a launcher starts the tasks on other hosts.
        """
        if self.options.launcher is not None:
            return ""
        return report.few_cores(self.options.jobs, machine.cores())

    @property
    def memory_in_words(self) -> str:
        """How much of the available memory it takes, in words."""
        supervisor = self._life.supervisor
        if self.options.launcher is not None:
            used = supervisor.used_mib() if supervisor is not None else {}
            return f"memory: {sum(used.values()):,.0f} MiB of the tasks on all hosts"
        if self._life.state is ClusterState.READY:
            return memory.summary(self.memory_mib, machine.memory())
        need_mib = memory.need_mib(len(self.tasks))
        return memory.summary(need_mib, machine.memory(), is_estimate=True)

    cores_told = OldName("cores_told", "cores_in_words")
    memory_told = OldName("memory_told", "memory_in_words")

    def check_memory(self, instead_of: Cluster | None = None) -> None:
        """Raise `NotEnoughMemory` if it would not fit; the message says what would.

        `instead_of` is a cluster that will be stopped first.
        """
        if self.options.launcher is not None:
            return  # the memory of other hosts is not known here
        freed_mib = 0.0 if instead_of is None else instead_of.memory_mib
        memory.check(self.options.jobs, machine.memory(), freed_mib)

    @property
    def insecure(self) -> bool:
        """Whether its links are without encryption."""
        return self.options.insecure

    def __repr__(self) -> str:
        warning = INSECURE if self.insecure else ""
        return report.one_line(
            self.state, self.options.jobs, self.threads, self._lost, warning
        )

    def _repr_html_(self) -> Html:
        statuses = self.status
        supervisor = self._life.supervisor
        used = supervisor.used_mib() if supervisor is not None else {}
        caption, foot = repr(self).strip("<>"), self.memory_in_words if used else ""
        return in_cell(report.table(caption, statuses, used, foot))

    @property
    def directory(self) -> Directory:
        """The addresses of the tasks' servers, and the key to connect to them."""
        addresses = {
            task: self.spec.task_address(task.job, task.index) for task in self.tasks
        }
        chosen = current_settings().replace(
            transport=self.options.transport, insecure=self.options.insecure
        )
        mine = self._life.ready()[0]
        return Directory(addresses, mine.credentials, mine.folder, chosen)

    def target(self, task: str | Task) -> ClusterTarget:
        """Return a task as the target of a session: `kit.Session(cluster.target(...))`.

        Raises `PlacementError` for one that the cluster does not have.
        """
        chosen = select_one(task, self.tasks)
        carry = partial(self.call, "all")
        return ClusterTarget(lambda: self.directory, chosen, carry, self._check_lives)

    @property
    def session_target(self) -> ClusterTarget:
        """The first worker: what `kit.Session(cluster)` connects to."""
        return self.target("worker:0")

    # -- start and stop ---------------------------------------------------------

    def start(self) -> Self:
        """Start all processes and servers; block until every task is ready.

        A start that fails or is interrupted leaves nothing behind.

        Returns
        -------
        Cluster
            This cluster, so that `cluster = kit.Cluster().start()` works.

        Raises
        ------
        StartFailed
            A process did not come up; the message holds its log.
        NotEnoughMemory
            The machine has too little memory. Nothing was started.

        Warns
        -----
        UserWarning
            Another cluster runs in this process, as when a cell is run again.
        """
        self._life.warn_of_others()
        drive(self.begin_start())
        return self

    def begin_start(self) -> Polling[None]:
        """Start as `start` does, as a polling: yields the seconds until the next check.

        Closing the generator early gives up the start.
        """
        return self._life.starting(self)

    async def start_async(self) -> Self:
        """Start as `start` does, without blocking the running loop."""
        self._life.warn_of_others()
        await awaited(self.begin_start())
        return self

    def stop(self) -> None:
        """Stop everything and block until nothing is left. May be called again.

        Calls and restarts that are under way raise `CancelledError`. If this call is
        interrupted, the stop continues by itself.

        Raises
        ------
        DeadlineExceededError
            A process was killed but has not ended: the system itself holds it.
        PermissionDeniedError
            What a task has started as another user, as by sudo, still runs; all others
            have ended.

        Notes
        -----
        It takes 10 s at most with the default stop deadline of 2 s.
        """
        drive(self._life.stopping())

    async def stop_async(self) -> None:
        """Stop as `stop` does, without blocking the running loop."""
        await awaited(self._life.stopping())

    def __enter__(self) -> Self:
        if self._life.state is ClusterState.NEW:
            drive(self.begin_start())
        self._life.enter()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with nullcontext() if error is None else noted_at(error):
            self.stop()

    async def __aenter__(self) -> Self:
        if self._life.state is ClusterState.NEW:
            await awaited(self.begin_start())
        self._life.enter()
        return self

    async def __aexit__(
        self, kind: Any, error: BaseException | None, trace: Any
    ) -> None:
        with nullcontext() if error is None else noted_at(error):
            await self.stop_async()

    # -- use --------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The newest training of this cluster, running or over; None without one."""
        return self._run

    def begin_cell(self, where: Selector, code: str) -> CellRun:
        """Begin a cell on the named tasks and return at once; see `on`."""
        supervisor = self._life.ready()[0]
        return CellRun(select(where, self.tasks), code, supervisor)

    def on(
        self,
        where: Selector,
        code: str,
        *,
        timeout_s: float | None = None,
        each: bool = False,
    ) -> list[Outcome]:
        """Run code as a cell on the named tasks; return the output of each. Blocks.

        The cell sees the task's own variables, as with `%%on`. Of what it prints on a
        task beyond a million characters, only the end arrives, with a line before it
        that says how much is left out; what it shows is bounded as well.

        Parameters
        ----------
        where : str, Task, or iterable of these
            "all", a job, a task such as "worker:1", or several of them.
        code : str
            The cell.
        timeout_s : float, optional
            Seconds until the tasks that are still busy are interrupted.
        each : bool, default False
            Run it on one task after the other; the variable `task` is the task.

        Returns
        -------
        list of Outcome
            One for each task, in their order.

        Raises
        ------
        CellFailed
            The cell raised, or a task was lost; `failures` has one entry for each. The
            error is also a `PeerLost` if a task was lost.
        DeadlineExceededError
            The cell took longer than `timeout_s`.
        PlacementError
            The cluster has no such task.

        Examples
        --------
        Print in every worker::

            cluster.on("worker", "import os; print(os.getpid())")
        """
        return drive(self._on(where, code, timeout_s, each))

    async def on_async(
        self,
        where: Selector,
        code: str,
        *,
        timeout_s: float | None = None,
        each: bool = False,
    ) -> list[Outcome]:
        """Run code as `on` does, without blocking the running loop.

        Being cancelled interrupts the tasks, as Ctrl-C does.
        """
        return await awaited(self._on(where, code, timeout_s, each))

    def _on(
        self, where: Selector, code: str, timeout_s: float | None, each: bool
    ) -> Polling[list[Outcome]]:
        if timeout_s is not None:
            check_times(timeout_s=timeout_s)
        tasks = select(where, self.tasks)
        outputs: list[CellOutput] = []
        for run in cells_on(self, tasks, code, each=each):
            yield from on_tasks(run, outputs.extend, timeout_s)
        return collected(tasks, outputs)

    def begin_naming(self, task: Task) -> CellRun:
        """Begin to set `task` in a task's namespace to the task itself."""
        code = f"import kit.task\ntask = kit.task.Task.parse({task.short!r})"
        return self.begin_cell(task, code)

    def log(self, task: str | Task, n_lines: int = 20) -> str:
        """Return the last lines of a task's log.

        A log of more than 8 MiB is cut: both of its ends are kept, with a line between
        them that says how much is left out. So it is with very long lines here.

        Parameters
        ----------
        task : str or Task
            Such as "worker:1".
        n_lines : int, default 20
            How many lines at most.

        Returns
        -------
        str
            The lines; empty if the task has written none.

        Raises
        ------
        PlacementError
            The cluster has no such task.
        FailedPreconditionError
            The cluster has not been started.

        Examples
        --------
        Read what a worker has said::

            print(cluster.log("worker:1"))
        """
        chosen, n_lines = select_one(task, self.tasks), whole("n_lines", n_lines)
        return self._life.ready()[0].log_tail(chosen, n_lines)

    def log_path(self, task: str | Task) -> Path:
        """Return the path of a task's log on its host; a stop removes the log."""
        chosen = select_one(task, self.tasks)
        return self._life.ready()[0].log_path(chosen)

    def restart(self, task: str | Task) -> None:
        """Give a task a new process at the same address, whether lost or not. Blocks.

        Its variables, and everything that cells have defined there, are gone.

        Parameters
        ----------
        task : str or Task
            Such as "worker:1".

        Raises
        ------
        ClusterBusy
            A training that needs the task is running, or the task is being restarted
            or removed already.
        StartFailed
            The new process did not come up; the message holds its log.

        Notes
        -----
        A worker that a running training has lost but could spare (`aggregate`), and any
        task of an elastic training, takes part in it again a moment after this
        returns: see `run.lost` and `run.history`.

        Examples
        --------
        Replace a worker::

            cluster.restart("worker:1")
        """
        self.begin_restart(task).result()

    def kill(self, task: str | Task) -> None:
        """Kill a task's process with SIGKILL, to practise a loss.

        Parameters
        ----------
        task : str or Task
            Such as "worker:1".

        Raises
        ------
        PeerLost
            It was already lost.
        PlacementError
            The cluster has no such task.

        Examples
        --------
        See how a training copes::

            run = kit.train(step, params, data, elastic=True)
            cluster.kill("worker:1")
        """
        chosen = select_one(task, self.tasks)
        self._check_lives(chosen)
        with suppress(PeerLost):  # it is dead before it can answer
            self.call(chosen, end_at_once)

    async def restart_async(self, task: str | Task) -> None:
        """Restart as `restart` does, without blocking the running loop."""
        await self.begin_restart(task)

    def begin_restart(self, task: str | Task) -> LoopTask[None]:
        """Begin to restart a task; return at once.

        Parameters
        ----------
        task : str or Task
            Such as "worker:1".

        Returns
        -------
        LoopTask
            Its `result()` blocks until the task is ready, and raises what `restart`
            raises.

        Raises
        ------
        PlacementError
            The cluster has no such task.
        """
        supervisor, loop = self._life.ready()
        chosen = select_one(task, self.tasks)
        run = self._run_under_way
        # A training that waits for the end of an endless step has done without it.
        if run is None or chosen in run.stuck:
            work = restart(supervisor, chosen)
        else:
            work = rejoin(supervisor, chosen, run, self._work)
        return loop.submit(work, must_finish=True)

    def add(self, job: str = "worker") -> Task:
        """Start one more task of a job; return it when it is ready. Blocks.

        Parameters
        ----------
        job : str, default "worker"
            The name of one of the cluster's jobs.

        Returns
        -------
        Task
            The new task; its index is the first free one.

        Raises
        ------
        InvalidArgumentError
            The cluster has no such job.
        ClusterBusy
            The running elastic training has no logical worker for it.
        FailedPreconditionError
            A launcher started the tasks, and it alone says how many there are.
        NotEnoughMemory, StartFailed
            It does not fit into memory, or did not come up; nothing has changed.

        Notes
        -----
        An elastic training lets it join at the next boundary between two steps, a
        moment after this returns. Any other training goes on as it is.

        Examples
        --------
        Let a training have one more task::

            run = kit.train(step, params, data, elastic=kit.Elastic(logical_workers=4))
            cluster.add("worker")
        """
        return self.begin_add(job).result()

    def begin_add(self, job: str = "worker") -> LoopTask[Task]:
        """Begin what `add` does and return at once."""
        _, loop = self._life.ready()
        run, used_mib = self._run_under_way, self.memory_mib
        return loop.submit(
            adding(self._life, job, run, self._work, used_mib), must_finish=True
        )

    def remove(self, task: str | Task) -> None:
        """End a task for good. Blocks.

        An elastic training goes on without it first, and repeats no step.

        Parameters
        ----------
        task : str or Task
            Such as "worker:2".

        Raises
        ------
        ClusterBusy
            A training that is not elastic needs it, or it is being removed or restarted
            already.
        FailedPreconditionError
            It is the only worker, or a launcher started the tasks.
        PlacementError
            The cluster has no such task.
        DeadlineExceededError
            The training did not let it go in time; nothing has changed.

        Examples
        --------
        Give a task's memory and cores back::

            cluster.remove("worker:2")
        """
        self.begin_remove(task).result()

    def begin_remove(self, task: str | Task) -> LoopTask[None]:
        """Begin what `remove` does and return at once."""
        _, loop = self._life.ready()
        chosen = select_one(task, self.tasks)
        work = removing(self._life, chosen, self._run_under_way)
        return loop.submit(work, must_finish=True)

    @property
    def _run_under_way(self) -> Run | None:
        return None if self._run is None or self._run.done else self._run

    def check_idle(self, what: str) -> None:
        """Raise `ClusterBusy` while a training runs; `what` names what has to wait."""
        if self._run is not None and not self._run.done:
            raise busy(self._run, what)

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on all tasks; `kit.train` calls this.

        Raises `ClusterBusy` while another one runs here, or a task is being restarted
        or removed; then no task begins.
        """
        changes = self._life.ready()[0].changes
        ending = [*changes.of(TaskChange.REMOVE), *changes.of(TaskChange.RESTART)]
        changes.check(*ending, what_waits="cannot begin a training: ")
        if job.is_elastic and self.options.transport == MPI:
            raise InvalidArgumentError(
                "elastic=True needs tasks that may be lost and come back, and a lost "
                "rank of MPI does not, and may end all others. Leave it out, or start "
                "the cluster without transport='mpi'."
            )
        if self.options.transport == MPI:  # errors tell what can be done there
            job = replace(job, settings=job.settings.replace(transport=MPI))
        if not job.link:
            job = replace(job, link=self.options.link)
        if self._run is not None and self._run.state == "failed":
            # A task that was silent for too long may not have heard of its end.
            with suppress(KitError):
                self.call("all", give_up, self._run.job.run)
        try:
            self._run = launch(self, job, work)
        except ClusterBusy as error:
            if self._run is None:  # it is not of this cluster
                raise
            text = error.message + SHOW_AGAIN
            raise ClusterBusy(text, task=error.task) from error
        self._work = replace(work, params=None) if job.generation.is_followed else None
        return self._run

    def bring(self, topology: str) -> None:
        """Send the tasks a topology if the user wrote it; blocks. `Run` calls this.

        Raises `InvalidArgumentError` if it cannot be sent.
        """
        module = packed(topology)
        if module:
            supervisor, loop = self._life.ready()
            loop.submit(supervisor.bring(module)).result()

    def view(self, selector: Selector = "all") -> Any:
        """Return an ipyparallel `DirectView` of the named tasks.

        Parameters
        ----------
        selector : str, Task, or iterable of these
            "all", a job, a task such as "worker:1", or several of them.

        Returns
        -------
        ipyparallel.DirectView
            A view of their engines.

        Raises
        ------
        PlacementError
            The cluster has no such task.
        PeerLost
            One of the tasks is lost.
        """
        supervisor, _ = self._life.ready()
        wanted = select(selector, self.tasks)
        for task in wanted:
            self._check_lives(task)
        return supervisor.engines.view([supervisor.numbers[task] for task in wanted])

    def call(
        self,
        where: Selector,
        function: Callable[..., Any],
        *args: Any,
        deadline_s: float = 60.0,
        **kwargs: Any,
    ) -> Any:
        """Call a function on the named tasks and return what it returns; blocks.

        What it prints there is shown here, by the name of the task, when it returns.

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
            The result of one task if one is named, else a list in the order of `tasks`,
            which is empty if `where` names none.

        Raises
        ------
        UnknownError
            The function raised; `remote_traceback` says where. Errors of `kit.errors`
            keep their class.
        PeerLost, ControllerLost
            A task, or ipyparallel's controller, is gone. Raised at once.
        PlacementError
            The cluster has no such job or task.
        DeadlineExceededError
            The call took longer than `deadline_s`.
        KeyboardInterrupt
            Ctrl-C; the tasks that still work on the call are interrupted too.

        Examples
        --------
        Ask every worker for its process::

            pids = cluster.call("worker", os.getpid)
        """
        work = self._call(where, function, args, kwargs, deadline_s)
        try:
            return _one_or_all(where, work.result())
        except KeyboardInterrupt:
            name = getattr(function, "__name__", "the function")
            raise CallInterrupted(
                f"interrupted, and so were the tasks that had not returned from "
                f"{name}() yet; the cluster goes on."
            ) from None

    async def call_async(
        self,
        where: Selector,
        function: Callable[..., Any],
        *args: Any,
        deadline_s: float = 60.0,
        **kwargs: Any,
    ) -> Any:
        """Call as `call` does, without blocking the running loop.

        Being cancelled interrupts the tasks, as Ctrl-C does.
        """
        work = self._call(where, function, args, kwargs, deadline_s)
        return _one_or_all(where, await work)

    def _check_lives(self, task: Task) -> None:
        self._life.ready()[0].calls.check(task)

    def _call(
        self,
        where: Selector,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        deadline_s: float,
    ) -> LoopTask[dict[Task, Any]]:
        supervisor, loop = self._life.ready()
        check_times(deadline_s=deadline_s)
        tasks = select(where, self.tasks)
        payload = remote.pack(function, args, kwargs, tasks)
        payloads = dict.fromkeys(tasks, payload)
        what = f"return from {getattr(function, '__name__', 'the function')}()"
        give_up = supervisor.interrupt
        return loop.submit(
            supervisor.calls.perform(payloads, deadline_s, what, give_up)
        )


def _check_transport(transport: str, launcher: Launcher | None) -> None:
    if transport == MPI and not (launcher and launcher.starts_ranks):
        raise InvalidArgumentError(
            "transport='mpi' needs tasks that mpiexec starts, each as a rank: "
            "kit.Cluster(launcher=kit.launchers.MPI(), transport='mpi')."
        )
    if transport == "unix" and launcher is not None:
        raise InvalidArgumentError(
            "transport='unix' links tasks of one host only; leave it out for tasks on "
            "other hosts: those of one host are linked by unix sockets all the same."
        )


def _threads(asked: int | None, n_tasks: int, launcher: Launcher | None) -> int:
    if launcher is not None and asked is None:
        return 0  # the least share of all hosts, which tell their cores when they start
    return runtime.choose_threads(asked, n_tasks)


def _one_or_all(where: Selector, values: Mapping[Task, Any]) -> Any:
    results = list(values.values())
    return results[0] if is_single(where) else results
