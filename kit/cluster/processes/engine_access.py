"""The engines of a supervisor as a cell needs them: by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.cluster.cells.cell_output import OnMessage
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.report import ClusterState
from kit.task import Task

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
        return self._supervisor.numbers[task]
