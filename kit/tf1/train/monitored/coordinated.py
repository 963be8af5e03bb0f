"""Makes sessions with their threads and hooks, the first one and those after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.hooks.hook import SessionRunHook
from kit.tf1.graph.collections import GraphKeys, get_collection
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.train.monitored.hook_environment import known_global_step_read
from kit.tf1.train.monitored.recovery import Recovery
from kit.tf1.train.monitored.session_creators import SessionCreator
from kit.tf1.train.monitored.session_layers import CoordinatedSession, HookedSession
from kit.tf1.train.queues.coordinator import Coordinator
from kit.tf1.train.queues.queue_runner import start_queue_runners


class CoordinatedCreator:
    """Knows the session of the moment, and makes the next one."""

    def __init__(
        self,
        creator: SessionCreator,
        hooks: Sequence[SessionRunHook],
        stop_grace_period_secs: float,
        recovery: Recovery,
    ) -> None:
        self._creator, self._hooks = creator, hooks
        self._grace_s, self._recovery = stop_grace_period_secs, recovery
        self._graph = get_default_graph()
        self.session: Any = None

    def create_session(self) -> CoordinatedSession:
        """Make a session, start its threads, and show it to the hooks."""
        # A task may be lost where another graph is the default.
        with self._graph.as_default():
            return self._create()

    def _create(self) -> CoordinatedSession:
        session = self._creator.create_session()
        coord = Coordinator(clean_stop_exception_types=[])
        hooked = HookedSession(session, self._hooks, self._recovery)
        made = CoordinatedSession(hooked, coord, self._grace_s)
        self.session = session
        try:
            if get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(sess=session, coord=coord)
            self._recovery.watch(session, known_global_step_read())
            for hook in self._hooks:
                hook.after_create_session(session, coord)
        except BaseException:
            made.close()
            self.session = None
            raise
        return made

    def forget(self) -> None:
        """Know of no session any more."""
        self.session = None
