"""The worker service of a task: keeps segments, and runs them when a master says so."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from typing import Any

from kit.errors import AbortedError, CancelledError, KitError
from kit.graph.dtypes import Array
from kit.graph.node import Edge
from kit.session.channel import Channel
from kit.session.home import Home
from kit.session.partition import Segment
from kit.session.peers import Peers
from kit.session.program import Program
from kit.session.rendezvous import Rendezvous
from kit.session.step import Step, Ways
from kit.task import Task


class Worker:
    """What a task does for the masters of its cluster."""

    def __init__(self, home: Home, peers: Peers) -> None:
        """`incarnation` is drawn anew at each start, and tells a restart."""
        self.home, self.peers = home, peers
        self.task = home.task
        self.incarnation = secrets.randbits(63) | 1
        self.rendezvous = Rendezvous()
        self._programs: dict[tuple[str, int], Program] = {}
        self._steps: dict[int, Step] = {}
        self._lock = threading.Lock()

    def register(self, session: str, plan: int, segment: Segment) -> None:
        """Make a segment ready to run."""
        program = Program(segment, self.home)
        with self._lock:
            self._programs[session, plan] = program

    def run(self, plan: int, step: Step, feeds: Sequence[Array]) -> list[Any]:
        """Run a segment once; returns its fetches.

        Raises `AbortedError` when this task does not know the segment: it was
        restarted, or the session was closed.
        """
        program = self._programs.get((step.session, plan))
        if program is None:
            raise AbortedError(
                f"{self.task} does not know this session: it was restarted, and its "
                f"variables are lost. Make a new session, and initialise or restore.",
                task=str(self.task),
            )
        with self._lock:
            self._steps[step.number] = step
        self.rendezvous.begin(step.number)
        try:
            return program.run(step, feeds)
        finally:
            with self._lock:
                self._steps.pop(step.number, None)
            self.rendezvous.end(step.number)

    def cancel(self, number: int, error: KitError) -> None:
        """End a step from outside; whoever waits in it gets `error`."""
        step = self._steps.get(number)
        if step is not None:
            step.end(error)
        self.rendezvous.wake()

    def end_session(self, session: str) -> None:
        """Forget a session: its segments and its own state; variables stay."""
        with self._lock:
            for key in [key for key in self._programs if key[0] == session]:
                del self._programs[key]
        self.home.end_session(session)

    def reset(self, containers: Sequence[str]) -> None:
        """Forget the state in some containers."""
        self.home.store.clear(containers)

    def close(self) -> None:
        """End all steps."""
        for number in list(self._steps):
            self.cancel(number, CancelledError(f"{self.task} was stopped."))


class ParticipantWays(Ways):
    """How tensors move in a step that another task's master runs."""

    def __init__(self, worker: Worker, master: Task, channel: Channel) -> None:
        self._worker, self._master, self._channel = worker, master, channel

    def send(self, step: Step, edge: Edge, to: Task, value: Any) -> None:
        """Send to the master on its channel, to others over a link of ours."""
        if to == self._master:
            self._channel.send_tensor(edge, value, step.left_s)
        else:
            self._worker.peers.put(to, step.number, edge, value, step.left_s)

    def receive(self, step: Step, edge: Edge, source: Task) -> Any:
        """Read the master's channel, or wait for what others push here."""
        if source == self._master:
            return self._channel.receive(step, edge)
        return self._worker.rendezvous.take(step, edge, str(source))
