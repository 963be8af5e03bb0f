"""The master service of a task: all sessions that have it as their target."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence

from kit.errors import AbortedError, ResourceExhaustedError
from kit.session.client.options import SessionOptions
from kit.session.master.cluster_tasks import ClusterTasks
from kit.session.master.session import MasterSession
from kit.session.worker.worker import Worker

# A session without a link is kept for this long, in case its client dials again.
_ABANDONED_S = 600.0
_MOST_ABANDONED = 256
# A client has links of its own for each session. One that speaks for this many over one
# link is broken, and must not fill the memory of the task.
_MOST_OF_ONE = 64


class Master:
    """All sessions whose target is this task."""

    def __init__(
        self,
        worker: Worker,
        members: ClusterTasks,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`members` has the cluster's tasks and devices."""
        self.worker, self.members = worker, members
        self._clock = clock
        self._sessions: dict[int, MasterSession] = {}
        self._users: dict[int, set[object]] = {}
        self._left: dict[int, float] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def create(self, options: SessionOptions) -> int:
        """Begin a session and return its number; end those that clients have left."""
        before = self._clock() - _ABANDONED_S
        with self._lock:
            n_too_many = len(self._left) - _MOST_ABANDONED
            abandoned = [
                item
                for n_older, (item, at) in enumerate(self._left.items())
                if at < before or n_older < n_too_many
            ]
        for number in abandoned:  # without the lock: it tells other tasks, and waits
            self.end(number)
        with self._lock:
            number = 0
            # Random: a client of the process before this one must not reach another's
            # session. 31 bits, as it is the upper half of its steps' signed numbers.
            while not number or number in self._sessions:
                number = secrets.randbits(31)
            self._sessions[number] = MasterSession(
                self.worker, self.members, number, options
            )
        return number

    def session(self, number: int) -> MasterSession:
        """Return a session; `AbortedError` when this task does not know it."""
        session = self._sessions.get(number)
        if session is None:
            raise AbortedError(
                f"{self.worker.task} does not know session {number}: it was restarted, "
                f"or the session was reset or closed. Make a new session.",
                task=str(self.worker.task),
            )
        return session

    def check_room(self, user: object) -> None:
        """Raise `ResourceExhaustedError` if a client has many sessions already."""
        with self._lock:
            n_sessions = sum(user in users for users in self._users.values())
        if n_sessions >= _MOST_OF_ONE:
            raise ResourceExhaustedError(
                f"a client has {n_sessions} sessions at {self.worker.task} over one "
                f"link; close some of them first."
            )

    def used(self, number: int, user: object) -> None:
        """Note that a client uses a session, over one of its links."""
        if number in self._sessions:
            with self._lock:
                self._users.setdefault(number, set()).add(user)
                self._left.pop(number, None)

    def left(self, user: object) -> None:
        """Note that a client's link has ended; its sessions may go on over others."""
        with self._lock:
            for number, users in self._users.items():
                if user in users:
                    users.remove(user)
                    if not users:
                        self._left[number] = self._clock()

    def end(self, number: int) -> None:
        """Close a session and cancel its runs under way; ignore an unknown one."""
        with self._lock:
            session = self._sessions.pop(number, None)
            self._users.pop(number, None)
            self._left.pop(number, None)
        if session is not None:
            session.close()

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """Clear containers on all tasks and end all sessions of this master."""
        for number in list(self._sessions):
            self.end(number)
        meta = {"op": "reset", "names": list(containers)}
        for task in self.members.tasks:
            if task == self.worker.task:
                self.worker.reset(containers)
            else:
                self.members.ask(task, meta, deadline_s)

    def close(self) -> None:
        """End all sessions."""
        for number in list(self._sessions):
            self.end(number)
