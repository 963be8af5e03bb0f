"""A cell that runs on several tasks: its output as it comes, its failures, its end.

It has no thread: messages arrive in one of ipyparallel's, and its user calls `outputs`,
`waiting` and `failures` from time to time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kit.cluster.cells.cell_output import CellOutput, OnMessage, OutputKind, read
from kit.cluster.cells.failures import ENDED, TaskFailure, tells_of_an_end
from kit.errors import InvalidArgumentError
from kit.groups import scope
from kit.task import Task

# How long output may come after the reply that the cell is done.
_LAST_OUTPUT_S = 1.0
MOST_SHOWN = 32 << 20  # characters that one cell may show on one task


class TaskAccess(Protocol):
    """What a cell needs of the tasks; a `Supervisor`, or a substitute in a test."""

    def execute(
        self, task: Task, code: str, on_message: OnMessage, about: Mapping[str, Any]
    ) -> Any:
        """Run code on a task; return the future of its reply.

        `about` says which cell it is, the same on all tasks; see `kit.groups.scope`.
        """

    def interrupt(self, tasks: Sequence[Task]) -> None:
        """Send SIGINT to the tasks."""

    def reason_of_loss(self, task: Task) -> str:
        """Return why a task is gone or away; empty while it can be used."""


class CellRun:
    """One cell on some tasks, running or done. All methods may be called by any thread.

    The replies and the outputs of a task come on two channels, in any order; so a task
    is done when both have come, or when no more output comes for a while.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        code: str,
        access: TaskAccess,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin the code on all the tasks; `InvalidArgumentError` for no text."""
        if not isinstance(code, str):
            raise InvalidArgumentError(
                f"code is {code!r:.100}; give a text such as \"print('hello')\". A "
                f"function is for cluster.call(tasks, function)."
            )
        self.tasks = tuple(tasks)
        self._access, self._clock = access, clock
        self._outputs: deque[CellOutput] = deque()
        self._kept = dict.fromkeys(self.tasks, 0)
        self._replied: dict[Task, float] = {}
        self._reasons: dict[Task, str] = {}
        self._about = scope.about(self.tasks)
        self._replies = {task: self._begin(task, code) for task in self.tasks}

    @property
    def scope(self) -> str:
        """What the cell is known by on its tasks; see `kit.groups.scope`."""
        return str(self._about["id"])

    def _begin(self, task: Task, code: str) -> Any:
        def take(message: Mapping[str, Any]) -> None:
            output = read(task, message)
            if output is not None:
                self._keep(output)

        if self._reason_of_loss(task):
            return None
        return self._access.execute(task, code, take, self._about)

    def _keep(self, output: CellOutput) -> None:
        # A task in an endless loop may show things until there is no memory left.
        before = self._kept[output.task]
        self._kept[output.task] = now = before + output.size
        if now <= MOST_SHOWN:
            self._outputs.append(output)
        elif before <= MOST_SHOWN:
            text = (
                f"\n[{output.task.short} has shown more than {MOST_SHOWN:,} characters "
                f"in this cell; this and all that it shows later in it is left out.]\n"
            )
            self._outputs.append(CellOutput(output.task, OutputKind.STDERR, text))

    def _reason_of_loss(self, task: Task) -> str:
        # For good: a restarted task can be used again, but this cell is lost.
        reason = self._reasons.get(task) or self._access.reason_of_loss(task)
        self._reasons[task] = reason
        return reason

    def outputs(self) -> list[CellOutput]:
        """Return the outputs since the last call, in the order of arrival."""
        outputs = []
        while self._outputs:
            outputs.append(self._outputs.popleft())
        return outputs

    @property
    def waiting(self) -> list[Task]:
        """The tasks that have not answered yet, or whose last output may still come."""
        return [task for task in self.tasks if not self._is_over(task)]

    def _is_over(self, task: Task) -> bool:
        reply = self._replies[task]
        if reply is None or self._reason_of_loss(task):
            return True
        if not reply.done():
            return False
        since = self._replied.setdefault(task, self._clock())
        if tells_of_an_end(reply.result()):
            # The watch over the process will say in a moment why it ended.
            return self._clock() - since > _LAST_OUTPUT_S
        return reply.output.done() or self._clock() - since > _LAST_OUTPUT_S

    def interrupt(self) -> list[Task]:
        """Send SIGINT to the tasks that have not finished; return these."""
        waiting = self.waiting
        self._access.interrupt(waiting)
        return waiting

    @property
    def failures(self) -> list[TaskFailure]:
        """What went wrong on tasks that are done or lost, in the order of the tasks."""
        failures = [self._failure(task) for task in self.tasks]
        return [failure for failure in failures if failure is not None]

    def _failure(self, task: Task) -> TaskFailure | None:
        reply, reason = self._replies[task], self._reason_of_loss(task)
        if reply is not None and reply.done():
            result = reply.result()
            if not isinstance(result, Exception):
                return None
            if not tells_of_an_end(result):
                return TaskFailure.of_reply(task, result)
            reason = reason or ENDED
        if reason:
            return TaskFailure(task, "PeerLost", f"{task.short} {reason}")
        return None
