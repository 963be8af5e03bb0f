"""How the requests for a training get to its coordinator: by one link, when needed.

A request that was interrupted, by a Ctrl-C for example, takes its link with it: the
answer may still come, and would be taken for that of the next request, which gets a new
link.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kit.errors import FailedPreconditionError, UnavailableError
from kit.task import Task
from kit.training.commands import check_command
from kit.training.job import Job
from kit.wire.rpc import Caller


class CommandSender:
    """The way to one training's coordinator. Threads may use it at the same time."""

    def __init__(
        self, job: Job, dial: Callable[[Task, str], Caller], is_over: Callable[[], bool]
    ) -> None:
        """`is_over` tells whether the training is; then nothing is sent any more."""
        self._job, self._dial, self._is_over = job, dial, is_over
        # Not shared with anything else: a coordinator that is gone is dialled for long.
        self._guard = threading.Lock()
        self._caller: Caller | None = None

    def send(self, what: str, values: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return what the coordinator says of the training now.

        Raises `InvalidArgumentError` for values that no training can take, before
        anything is sent, `FailedPreconditionError` when the training is over, and what
        the coordinator answers.
        """
        values = check_command(what, values)
        question = {"run": self._job.run, "what": what, "values": values}
        caller = self._way()
        try:
            limit = self._job.settings.call_deadline_s
            return caller.call("run.command", limit, question)[0]
        except BaseException as error:
            with self._guard:
                if caller.is_closed and self._caller is caller:
                    self._caller = None
            if isinstance(error, UnavailableError) and self._is_over():
                raise over() from error
            raise

    def close(self) -> None:
        """Close the link; only when the training is over, so that no other follows."""
        with self._guard:
            caller, self._caller = self._caller, None
        if caller is not None:
            caller.close()

    def _way(self) -> Caller:
        with self._guard:
            if self._is_over():
                raise over()
            if self._caller is None:
                task = self._job.tasks[self._job.coordinator]
                self._caller = self._dial(task, "")
            return self._caller


def over() -> FailedPreconditionError:
    """Return what a command to a training that is over is refused with."""
    return FailedPreconditionError(
        "the training is over; start another one with kit.train()."
    )
