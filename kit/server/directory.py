"""Where the tasks of a cluster are, and how to reach one.

Tasks on one host are reached over unix sockets, even when the spec names ports: a
server that listens on a port also has a socket in the runtime folder, as memory can be
shared over a unix socket, and nothing need pass through the network stack.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.errors import (
    DeadlineExceededError,
    KitError,
    PlacementError,
    UnavailableError,
)
from kit.server.local_sockets import connect_near
from kit.settings import Settings
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Hello, Role
from kit.wire.handshake.private import is_guarded
from kit.wire.link import Link
from kit.wire.listening.address import (
    MAX_UNIX_PATH,
    UnixAddress,
    is_local,
    parse_address,
)

# Of a folder with a socket in it: /psring-1000/tcp-10.0.0.7-2222.1a2b-3c4d5e.sock
_LONGEST_NAME = 75
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.2


@dataclass(frozen=True)
class Directory:
    """The addresses of all tasks, and what is needed to be let in."""

    addresses: Mapping[Task, str]
    credentials: Credentials
    runtime_dir: Path
    settings: Settings

    def hosts(self, tasks: Iterable[Task]) -> list[str]:
        """Return the host of each task as in its address; empty if all are the same.

        Two names of one host count as two, as names are not resolved.
        """
        where = [parse_address(self.addresses[task]) for task in tasks]
        names = [
            ""
            if isinstance(address, UnixAddress) or is_local(address)
            else address.host
            for address in where
        ]
        return names if len(set(names)) > 1 else []

    def dial(
        self,
        task: Task,
        me: Task,
        role: Role,
        run: str = "",
        *,
        deadline_s: float | None = None,
        address: str = "",
    ) -> Link:
        """Return an authenticated link to a task; raises what `connect` raises.

        By default it may take as long as the setting `connect_deadline_s`.
        `address` is where it listens, if that differs from what the cluster knows.
        """
        if task not in self.addresses and not address:
            names = ", ".join(item.short for item in self.addresses)
            raise PlacementError(f"no task is called {task.short}; there are {names}.")
        run_id = bytes.fromhex(run) if run else bytes(16)
        if deadline_s is None:
            deadline_s = self.settings.connect_deadline_s
        return connect_near(
            parse_address(address or self.addresses[task]),
            Hello(role, me, run_id=run_id),
            self.credentials,
            self.runtime_dir,
            self.settings,
            deadline_s=deadline_s,
            expected=task,
        )

    def reach(
        self,
        task: Task,
        me: Task,
        role: Role,
        run: str = "",
        *,
        address: str = "",
        listens: bool = False,
        deadline: float,
        check: Callable[[], None],
        attempt_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Link:
        """Dial as `dial` does, and retry while nothing answers.

        The task may not listen yet, and a line may lose the packets that open a
        connection. A task that is known to have listened (`listens`) and now refuses
        has ended: that is raised at once.
        `check` is called before each attempt, which may take `attempt_s` but at most
        `connect_deadline_s`; what it raises ends the wait. After the `deadline` (of
        `clock`) raises `DeadlineExceededError`.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            check()
            try:
                rest_s = max(_FIRST_PAUSE_S, deadline - clock())
                limit_s = min(attempt_s, self.settings.connect_deadline_s, rest_s)
                return self.dial(
                    task,
                    me,
                    role,
                    run,
                    deadline_s=limit_s,
                    address=address,
                )
            except (UnavailableError, DeadlineExceededError) as error:
                if listens and isinstance(error, UnavailableError):
                    raise
                if clock() + pause_s > deadline:
                    raise _missing(task, error) from error
            sleep(pause_s)  # a refusal comes at once: do not spin through a slow start
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _missing(task: Task, error: KitError) -> DeadlineExceededError:
    text = f"{task} did not come up in time: {error.message}"
    return DeadlineExceededError(text, task=str(task))


def default_runtime_dir(settings: Settings) -> Path:
    """Return this user's folder for sockets: by setting, by XDG, or a temporary one."""
    if settings.runtime_dir:
        return Path(settings.runtime_dir)
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base and is_guarded(Path(base)) and os.access(base, os.W_OK):
        return Path(base) / "psring"
    return Path(short_folder()) / f"psring-{os.getuid()}"


def short_folder() -> str:
    """Return the temporary folder; /tmp where it is too long for a socket's path."""
    folder = tempfile.gettempdir()
    is_short = len(os.fsencode(folder)) + _LONGEST_NAME <= MAX_UNIX_PATH
    return folder if is_short else "/tmp"
