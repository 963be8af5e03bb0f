"""The newest parameters of a training, as they are fetched from its tasks.

The training does not stop for it. Its end is the last moment at which all tasks are
sure to have them: `Newest.keep` takes them then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol

from kit.task import Task
from kit.training.client.watched import Watched
from kit.training.core.job import Job
from kit.wire.rpc import Caller


class Newest:
    """Knows which task to ask for which part of the parameters.

    Attributes:
        kept: what the training ended with, if it has ended and anybody had it.
    """

    def __init__(
        self,
        job: Job,
        dial: Callable[[Task, str], Caller],
        watched: Sequence[Watched],
        trusted: int,
    ) -> None:
        """Ask the `trusted` worker first, as long as the training goes on."""
        self._job, self._dial = job, dial
        self._watched, self._trusted = watched, trusted
        self.kept: bytearray | None = None

    def fetch(self) -> bytearray:
        """Return the flat parameters of the last committed step."""
        return self.kept if self.kept is not None else self._of(self._trusted)

    def keep(self) -> None:
        """Fetch what the training ended with, from a live member, and keep it."""
        workers = [w for w in self._job.workers if self._watched[w].state != "lost"]
        # A killed task may have left one worker a step ahead of another.
        workers.sort(key=lambda w: (-self._watched[w].step, w != self._trusted))
        for worker in workers:
            try:
                self.kept = self._of(worker)
            except Exception:  # whatever it is, it is raised again by `fetch`
                continue
            return

    def _of(self, worker: int) -> bytearray:
        """Return a worker's parameters, or the servers' where these are newer."""
        flat, job = self._ask(worker), self._job
        epochs = self._watched[self._trusted].epochs
        is_asynchronous = epochs[-1].is_asynchronous if epochs else not job.synchronous
        if is_asynchronous:  # a worker has only what it pulled last
            for server, shard in zip(job.ps, job.group.shards, strict=True):
                if self._watched[server].state == "lost":
                    continue  # what the worker pulled is the newest that is left
                held = self._ask(server)
                for part in shard:
                    flat[part.lo : part.hi] = held[part.lo : part.hi]
        return flat

    def _ask(self, member: int) -> bytearray:
        limit, run = self._job.settings.step_deadline_s, self._job.run
        with closing(self._dial(self._job.tasks[member], "")) as caller:
            flat = caller.call("run.params", limit, {"run": run})[1]
            # The task holds its copy until this link has taken the last piece.
            while 0 < len(flat) < self._job.layout.n_bytes:
                question = {"run": run, "from": len(flat)}
                flat += caller.call("run.params", limit, question)[1]
            return flat


class Dial(Protocol):
    """How tasks are reached."""

    def __call__(self, task: Task, run: str, address: str = "", /) -> Caller:
        """Return a link for questions to a task, for one that watches a run.

        `address` is where it listens now, if that is elsewhere than the cluster says.
        """


def dial_in(job: Job, dial: Dial) -> Callable[[Task, str], Caller]:
    """Return how the tasks are reached in the generation of a training."""
    if not job.generation.addresses:
        return dial
    addresses = dict(zip(job.tasks, job.generation.addresses, strict=True))
    return lambda task, run: dial(task, run, addresses[task])
