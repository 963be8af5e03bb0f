"""How one process of an elastic training asks the others, and itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, Protocol

from kit.errors import InternalError
from kit.server.elastic.begun_here import BegunHere
from kit.server.elastic.shared_copies import CopyLink
from kit.server.elastic.standing import Plain, Standing
from kit.task import Task
from kit.training.core.snapshot import Shard
from kit.training.features.elastic.asking import Ask, Coroutine, Pause, Told, ask_all
from kit.training.features.elastic.generation import Holder
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Answer, Caller

if TYPE_CHECKING:
    from kit.server.trainings import StandIn

_LOG: Final = logging.getLogger("kit.server")


class Neighbours(Protocol):
    """What a process needs to reach the others of its cluster."""

    def dial_process(
        self, task: Task, deadline_s: float, role: Role = Role.CONTROL
    ) -> Caller:
        """Return a link for questions to the server of the process of a task."""

    def stand_in(self, task: Task, run: str) -> StandIn:
        """Return a new server of this process that answers for another task."""

    def begun_here(self, origin: str) -> BegunHere:
        """Return the generations of a training that have begun on this host."""


class OtherProcesses:
    """Asks processes; questions to this one are answered at once, without a link."""

    def __init__(
        self,
        standing: Standing,
        neighbours: Neighbours,
        answer: Callable[[str, Plain], Answer],
    ) -> None:
        """`answer` answers the questions that this process asks itself."""
        self.now, self._neighbours = standing, neighbours
        self._answer = answer
        self._copy_links: dict[str, CopyLink] = {}
        self._dialling = threading.Lock()
        self._fetching: set[Caller] = set()

    def run(self, name: str, coroutine: Coroutine[None]) -> None:
        """Run a coroutine to its end in a new thread."""

        def to_its_end() -> None:
            try:
                self.finish(coroutine)
            except Exception as error:
                # The members have ended, and nothing else begins the next generation: a
                # wait for it would last for ever.
                text = f"{self.now.me} cannot go on: {type(error).__name__}: {error}"
                self.now.fail(InternalError(text, task=self.now.me))
                _LOG.exception("%s cannot go on", self.now.me)

        threading.Thread(target=to_its_end, name=name, daemon=True).start()

    def finish(self, coroutine: Coroutine[None]) -> None:
        """Run a coroutine to its end in this thread; raises what it raises."""
        with suppress(StopIteration):
            wanted = next(coroutine)
            while True:
                wanted = coroutine.send(self._tell(wanted))

    def _tell(self, wanted: Ask | Pause) -> Told:
        if isinstance(wanted, Ask):  # without the lock: a process may ask us meanwhile
            return self.ask_all(wanted)
        with self.now.changed:
            self.now.changed.wait_for(*wanted)
        return {}

    def ask_all(self, wanted: Ask) -> Told:
        """Ask processes at the same time; see `elastic.asking`."""
        question = self._about(wanted.values)
        limit_s = wanted.limit_s or self.now.job.settings.step_deadline_s

        def ask(process: str) -> Plain:
            if process == self.now.me:
                return self._answer(wanted.op, question)[0]
            with closing(self._dial(process)) as caller:
                return caller.call(wanted.op, limit_s, question)[0]

        return ask_all(wanted.processes, ask, wanted.is_enough, wanted.moment_s)

    def copy(self, holder: Holder, member: int) -> Shard:
        """Return a copy that a process holds; `close` ends the wait."""
        values = {"moment": list(holder.moment), "member": member}
        limit_s = self.now.job.settings.step_deadline_s
        with closing(self._dial(holder.process)) as caller:
            self._fetching.add(caller)
            try:
                reply, data = caller.call("elastic.fetch", limit_s, self._about(values))
            finally:
                self._fetching.discard(caller)
        return Shard.from_plain(reply["about"], data)

    def keep(self, process: str, copy: Shard) -> str:
        """Have a copy kept by another process; blocks until it is there.

        Returns a name that no other process has, not even a later one of its task.
        """
        job = self.now.job
        with self._dialling:  # members of this process must not open a link each
            link = self._copy_links.get(process)
            if link is None or link.is_closed:
                link = CopyLink(self._dial(process, Role.COPIES))
                self._copy_links[process] = link
        if self.now.is_closed:  # since: `close` may have run before this link was here
            self.close()
        question = self._about({"run": job.run, "about": copy.about()})
        return link.keep(question, job.settings.step_deadline_s, copy)

    def close(self) -> None:
        """Close the links for copies, which ends all waits; `keep` opens new ones."""
        links, self._copy_links = self._copy_links, {}  # first: a new one is not closed
        for link in links.values():
            link.close()
        for caller in self._fetching.copy():
            caller.close()

    def _about(self, values: Plain) -> Plain:
        return {"origin": self.now.generation.origin, **values}

    def _dial(self, process: str, role: Role = Role.CONTROL) -> Caller:
        task, limits = Task.parse(process), self.now.job.settings
        return self._neighbours.dial_process(task, limits.suspect_after_s, role)
