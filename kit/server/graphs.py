"""A server's part in running graphs: its master and worker service, and their links."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kit.server.directory import Directory
from kit.session.master.master import Master
from kit.session.master.members import Members
from kit.session.transport.peers import Peers
from kit.session.transport.service import Service
from kit.session.transport.watch import Watch
from kit.session.worker.task_runtime import TaskRuntime
from kit.session.worker.worker import Worker
from kit.task import Task
from kit.wire.handshake.messages import Role
from kit.wire.link import Link


class Graphs:
    """Both services of one task, and the threads that answer on their links."""

    def __init__(
        self,
        me: Task,
        directory: Callable[[], Directory],
        tasks: Callable[[], Sequence[Task]],
        n_cpus: int = 1,
    ) -> None:
        """`directory` and `tasks` are asked when they are needed."""

        def dial(task: Task, deadline_s: float) -> Link:
            found = directory()
            limit_s = min(deadline_s, found.settings.connect_deadline_s)
            return found.dial(task, me, Role.SESSION, deadline_s=limit_s)

        watch = Watch()
        self.runtime = TaskRuntime(me, n_cpus=n_cpus)
        self.worker = Worker(self.runtime, Peers(dial, watch), watch)
        self.master = Master(self.worker, Members(self.worker, tasks))
        self._service = Service(self.master)
        self._links: set[Link] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, link: Link) -> None:
        """Answer on a link in a thread of its own until the other end closes it."""
        name = f"kit-session-{link.peer.short}"
        thread = threading.Thread(
            target=self._serve, args=(link,), name=name, daemon=True
        )
        with self._lock:
            if self._is_closed:
                link.close()
                return
            self._links.add(link)
            self._threads.add(thread)
            thread.start()

    def close(self, deadline_s: float) -> None:
        """End all sessions and runs, and wait for the threads."""
        self.master.close()
        self.worker.close()
        with self._lock:
            self._is_closed = True
            links, threads = list(self._links), list(self._threads)
        for link in links:
            link.close()
        for thread in threads:
            thread.join(deadline_s)

    def _serve(self, link: Link) -> None:
        try:
            self._service.serve(link)
        finally:
            with self._lock:
                self._links.discard(link)
                self._threads.discard(threading.current_thread())
