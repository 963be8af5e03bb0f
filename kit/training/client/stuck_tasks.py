"""What becomes of tasks in which a step goes on although its training has ended."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from kit.errors import KitError
from kit.task import Task
from kit.training.client.report import LOOK
from kit.training.client.watched import Watched
from kit.training.core.job import Job


class StuckTasks:
    """Restarts the tasks of one training that are stuck at its end, and says so.

    Attributes:
        restart: gives a task a new process; None where nobody here can.
        said: what became of each, for the user.
    """

    def __init__(self) -> None:
        self.restart: Callable[[Task], None] | None = None
        self.said: list[str] = []

    def end(
        self, tasks: Sequence[Task], finished: Future[None], error: KitError | None
    ) -> None:
        """Give these tasks new processes, then say that the training has ended so."""
        self.said = [self._come_back(task) for task in tasks]
        if error is None:
            finished.set_result(None)
        else:
            for text in (*self.said, f"{LOOK}."):
                error.add_note(text)
            finished.set_exception(error)

    def _come_back(self, task: Task) -> str:
        said = f"The step in {task.short} goes on although the training has ended"
        if self.restart is None:
            return f"{said}: end its process, it can begin no other training."
        try:
            self.restart(task)
        except (Exception, CancelledError) as error:  # a cluster may be stopped now
            return f"{said}, and it could not be restarted: {error}"
        return f"{said}, so it was restarted: its variables are gone."


def hosts_of(job: Job, watched: Sequence[Watched]) -> list[Task]:
    """Return the tasks in whose processes members of a training are stuck."""
    stuck = [number for number, member in enumerate(watched) if member.stuck]
    return [*dict.fromkeys(map(job.process_of, stuck))]
