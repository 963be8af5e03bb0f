"""The way from one process of an elastic training to the others, and to itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

from kit.errors import DeadlineExceededError, KitError
from kit.server.elastic.standing import Plain, Standing
from kit.task import Task
from kit.training.elastic.copies import StateCopy
from kit.training.elastic.generation import Moment
from kit.wire.frame import Buffer
from kit.wire.rpc import Answer, Caller

if TYPE_CHECKING:
    from kit.server.trainings import Trainings

_MOMENT_S = 0.2
Told = Mapping[str, Plain | KitError]


class StandIn(Protocol):
    """A server for a member whose own process is lost."""

    trainings: Trainings

    @property
    def address(self) -> Any:
        """Where it listens."""

    def stop(self) -> None:
        """End everything."""


class Neighbours(Protocol):
    """The way to the other processes of the cluster."""

    def dial_process(self, task: Task, deadline_s: float) -> Caller:
        """Return a link for questions to the server of a task's own process."""

    def stand_in(self, task: Task, run: str) -> StandIn:
        """Return a new server of this process that answers for another task."""


class Processes:
    """Asks other processes; a question to the own one is answered at once."""

    def __init__(
        self,
        standing: Standing,
        neighbours: Neighbours,
        answer: Callable[[str, Plain], Answer],
    ) -> None:
        """`answer` answers what this process asks itself."""
        self._now, self._neighbours = standing, neighbours
        self._answer = answer
        self._callers: dict[str, Caller] = {}  # for copies

    def ask_all(
        self,
        processes: Iterable[str],
        op: str,
        values: Plain,
        is_enough: Callable[[Told], bool] = lambda _: False,
    ) -> dict[str, Plain | KitError]:
        """Ask processes at the same time; what one fails with is its answer.

        As soon as that `is_enough`, the others get only a moment more.
        """

        def ask(process: str) -> Plain | KitError:
            try:
                return self.ask(process, op, values)[0]
            except KitError as error:
                return error

        wanted = list(processes)
        pool = ThreadPoolExecutor(len(wanted) or 1)
        asked = {pool.submit(ask, process): process for process in wanted}
        told: dict[str, Plain | KitError] = {}
        waiting: set[Future[Plain | KitError]] = set(asked)
        while waiting:
            moment = _MOMENT_S if is_enough(told) else None
            done, waiting = wait(waiting, moment, FIRST_COMPLETED)
            told |= {asked[one]: one.result() for one in done}
            if not done:
                text = "it did not answer as soon as the others."
                late = {asked[one]: DeadlineExceededError(text) for one in waiting}
                told, waiting = told | late, set()
        pool.shutdown(wait=False)
        return told

    def ask(self, process: str, op: str, values: Plain) -> tuple[Plain, Buffer]:
        """Ask one process; raises what it answers, and what the way to it does."""
        question, limits = self._about(values), self._now.job.settings
        if process == self._now.me:
            return self._answer(op, question)
        with closing(self._dial(process)) as caller:
            return caller.call(op, limits.step_deadline_s, question)

    def copy(self, holder: str, moment: Moment, member: int) -> StateCopy:
        """Return a copy that a process holds."""
        values = {"moment": list(moment), "member": member}
        told, data = self.ask(holder, "elastic.fetch", values)
        return StateCopy.from_plain(told["about"], data)

    def keep(self, process: str, copy: StateCopy) -> None:
        """Have a copy kept by another process; blocks until it is there."""
        job = self._now.job
        caller = self._callers.get(process)
        if caller is None or caller.is_closed:
            caller = self._dial(process)
            self._callers = {process: caller}
        question = self._about({"run": job.run, "about": copy.about()})
        limit_s = job.settings.step_deadline_s
        caller.call("elastic.keep", limit_s, question, blob=copy.data)

    def close(self) -> None:
        """Close the links."""
        for caller in self._callers.values():
            caller.close()

    def _about(self, values: Plain) -> Plain:
        return {"origin": self._now.generation.origin, **values}

    def _dial(self, process: str) -> Caller:
        task, limits = Task.parse(process), self._now.job.settings
        return self._neighbours.dial_process(task, limits.suspect_after_s)
