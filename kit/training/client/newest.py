"""The newest parameters of a training, as they are fetched from its tasks.

Nothing of the training is stopped for it. Its end is the last moment at which all tasks
are sure to have them: `keep` takes them then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from kit.errors import KitError
from kit.task import Task
from kit.training.client.watched import Watched
from kit.training.job import Job
from kit.wire.rpc import Caller


class Newest:
    """Knows whom to ask for which part of the parameters."""

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
        self._kept: bytearray | None = None

    def fetch(self) -> bytearray:
        """Return the flat parameters of the last committed step."""
        return self._kept if self._kept is not None else self._of(self._trusted)

    def keep(self) -> None:
        """Fetch what the training ended with, from whoever is left, and keep it."""
        workers = [w for w in self._job.workers if self._watched[w].state != "lost"]
        for worker in sorted(workers, key=self._rank):
            try:
                self._kept = self._of(worker)
            except KitError:
                continue
            return

    def _rank(self, worker: int) -> tuple[int, bool]:
        # A killed task may have left one worker a step ahead of another.
        return -self._watched[worker].step, worker != self._trusted

    def _of(self, worker: int) -> bytearray:
        """Return a worker's parameters, or what the servers have where they lead."""
        flat, job = self._ask(worker), self._job
        if self._is_asynchronous():  # a worker has only what it pulled last
            for server, shard in zip(job.ps, job.group.shards, strict=True):
                if self._watched[server].state == "lost":
                    continue  # what the worker pulled is the newest that is left
                held = self._ask(server)
                for part in shard:
                    flat[part.lo : part.hi] = held[part.lo : part.hi]
        return flat

    def _is_asynchronous(self) -> bool:
        epochs = self._watched[self._trusted].epochs
        return epochs[-1].is_asynchronous if epochs else not self._job.synchronous

    def _ask(self, member: int) -> bytearray:
        limit = self._job.settings.step_deadline_s
        with closing(self._dial(self._job.tasks[member], "")) as caller:
            return caller.call("run.params", limit, {"run": self._job.run})[1]
