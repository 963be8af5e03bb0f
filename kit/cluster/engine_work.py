"""Work on the engines other than calling functions on them.

Cells, logs, and a new process for one task; `Cluster` adds the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from kit.cluster.arguments import check_times
from kit.cluster.cells import remote
from kit.cluster.cells.cell_output import CellOutput, OnMessage
from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.on import CellInterrupted, Outcome, collected, on_tasks
from kit.cluster.cells.selection import Selector, select
from kit.cluster.lifecycle import Lifecycle
from kit.cluster.loop import LoopTask
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.report import ClusterState
from kit.cluster.restarting import restart
from kit.cluster.runtime import log_path, tail_of
from kit.cluster.waiting import Plan, follow, follow_async
from kit.errors import ClusterBusy
from kit.server import engine
from kit.task import Task
from kit.training import job
from kit.training.client.run import Run

# Why a task that is not lost cannot be reached, by its state.
_AWAY = {
    ClusterState.STARTING: "is being restarted",
    ClusterState.STOPPING: "is being stopped with its cluster",
    ClusterState.STOPPED: "was stopped with its cluster",
}


class EngineAccess:
    """The engines of a supervisor, by task."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def execute(self, task: Task, code: str, on_message: OnMessage) -> Any:
        """Run code on a task; return the future of its reply."""
        return self._engines.execute(self._index(task), code, on_message)

    def interrupt(self, tasks: Sequence[Task]) -> None:
        """Send SIGINT to the tasks."""
        self._engines.interrupt([self._index(task) for task in tasks])

    def reason_of_loss(self, task: Task) -> str:
        """Return why a task is gone or away; empty while it can be used."""
        status = self._supervisor.status[task]
        if status.state is ClusterState.LOST:
            return status.reason
        away = "cannot be reached" if self._supervisor.controller_lost else ""
        return away or _AWAY.get(status.state, "")

    @property
    def _engines(self) -> Any:
        assert self._supervisor.engines is not None, "a ready supervisor has engines"
        return self._supervisor.engines

    def _index(self, task: Task) -> int:
        return self._supervisor.plan.tasks.index(task)


class EngineWork(Lifecycle):
    """Cells on the tasks' engines, their logs, and their restart."""

    _run: Run | None = None
    _work: job.Work | None = None  # of that training, if a worker may come back

    @property
    def run(self) -> Run | None:
        """The training that began here last, under way or over; None without one."""
        return self._run

    def begin_cell(self, where: Selector, code: str) -> CellRun:
        """Begin a cell on the named tasks and return at once; see `on`."""
        supervisor = self._ready()
        return CellRun(select(where, self._plan.tasks), code, EngineAccess(supervisor))

    def on(
        self,
        where: Selector,
        code: str,
        *,
        timeout_s: float | None = None,
        each: bool = False,
    ) -> list[Outcome]:
        """Run code as a cell on the named tasks; return what each put out. Blocks.

        The cell sees the task's own variables, as `%%on` does.

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
            The cell raised, or a task was lost; `failures` has all of them. It is
            also a `PeerLost` if a task was lost.
        DeadlineExceededError
            The cell took longer than `timeout_s`.
        PlacementError
            The cluster has no such task.

        Examples
        --------
        Print in every worker::

            cluster.on("worker", "import os; print(os.getpid())")
        """
        return follow(self._on(where, code, timeout_s, each))

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
        try:
            return await follow_async(self._on(where, code, timeout_s, each))
        except CellInterrupted as stop:
            raise asyncio.CancelledError(str(stop)) from stop

    def _on(
        self, where: Selector, code: str, timeout_s: float | None, each: bool
    ) -> Plan[list[Outcome]]:
        if timeout_s is not None:
            check_times(timeout_s=timeout_s)
        tasks = select(where, self._plan.tasks)
        outputs: list[CellOutput] = []
        for part in [[task] for task in tasks] if each else [tasks]:
            if each:
                naming = self.begin_naming(part[0])
                yield from on_tasks(naming, outputs.extend, timeout_s)
            run = self.begin_cell(part, code)
            yield from on_tasks(run, outputs.extend, timeout_s)
        return collected(tasks, outputs)

    def begin_naming(self, task: Task) -> CellRun:
        """Begin to set `task` in a task's namespace to the task itself."""
        code = f"import kit.task\ntask = kit.task.Task.parse({task.short!r})"
        return self.begin_cell(task, code)

    def log(self, task: str | Task, n_lines: int = 20) -> str:
        """Return the last lines of a task's log; empty if it has written none."""
        return tail_of(self.log_path(task), n_lines)

    def log_path(self, task: str | Task) -> Path:
        """Return where a task's log is as long as the cluster runs."""
        (found,) = select(str(task), self._plan.tasks)
        return log_path(self._ready().folder, found.short)

    def restart(self, task: str | Task) -> None:
        """Give a task a new process at the same address, lost or not. Blocks.

        Its variables, and all that cells have defined there, are gone.

        Parameters
        ----------
        task : str or Task
            Such as "worker:1".

        Raises
        ------
        ClusterBusy
            A training that needs the task is running, or another restart of it.
        StartFailed
            The new process did not come up; the message holds its log.

        Notes
        -----
        A worker that a running training has lost and can spare (`aggregate`) takes
        part in it again, a moment after this returns: see `run.lost`.

        Examples
        --------
        Replace a worker::

            cluster.restart("worker:1")
        """
        self.begin_restart(task).result()

    async def restart_async(self, task: str | Task) -> None:
        """Restart as `restart` does, without blocking the running loop."""
        await self.begin_restart(task).awaited()

    def begin_restart(self, task: str | Task) -> LoopTask[None]:
        """Begin what `restart` does and return at once."""
        supervisor = self._ready()
        (found,) = select(str(task), self._plan.tasks)
        run = self._run_to_rejoin(found)
        assert self._loop is not None, "a ready cluster has a loop"
        work = (
            restart(supervisor, found)
            if run is None
            else self._replace(supervisor, found, run)
        )
        return self._loop.submit(work, must_finish=True)

    def _replace(
        self, supervisor: Supervisor, task: Task, run: Run
    ) -> Coroutine[Any, Any, None]:
        part = run.job, self._work, run.next_incarnation(task)
        payload = remote.pack(engine.begin, part, {})  # not in the cluster's loop
        limit_s = run.job.settings.start_deadline_s

        async def replace() -> None:
            await restart(supervisor, task)
            if not run.done:
                await supervisor.calls.perform(
                    {task: payload}, limit_s, "begin its part"
                )
                run.watch_again(task)

        return replace()

    def _run_to_rejoin(self, task: Task) -> Run | None:
        """Return the training that has lost a task and goes on; None if none runs.

        Raises `ClusterBusy` for a task that takes part, or that must not be missing.
        """
        run, supervisor = self._run, self._ready()
        if run is None or run.done:
            return None
        spared = run.job.can_spare({run.job.tasks.index(task)})
        is_lost = (
            task.short in run.lost or supervisor.status[task].state is ClusterState.LOST
        )
        if not spared or not is_lost:
            why = "has not lost it" if spared else "needs it"
            raise ClusterBusy(
                f"cannot restart {task.short} while a training runs (step {run.step} "
                f"of {run.job.steps}) that {why}; wait for it with run.wait(), or end "
                f"it with run.stop(). Only a lost worker can join again, where "
                f"kit.train(..., aggregate=R) takes fewer gradients than there are "
                f"workers."
            )
        return run

    def check_idle(self, what: str) -> None:
        """Raise `ClusterBusy` while a training runs; `what` is what has to wait."""
        run = self._run
        if run is not None and not run.done:
            raise ClusterBusy(
                f"cannot {what} while a training runs (step {run.step} of "
                f"{run.job.steps}); wait for it with run.wait(), or end it with "
                f"run.stop()."
            )
