"""Where the tasks of a cluster are, and how to reach one.

Tasks on one host are reached over unix sockets, even when the spec names ports of the
loopback interface: a server that listens on such a port has a socket in the runtime
folder beside it, and what memory can do is not sent through the network stack.
"""

from __future__ import annotations

import ipaddress
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.errors import (
    DeadlineExceededError,
    KitError,
    PlacementError,
    UnavailableError,
)
from kit.settings import Settings
from kit.task import Task
from kit.wire.address import Address, TcpAddress, UnixAddress, parse_address
from kit.wire.credentials import Credentials
from kit.wire.introduction import Hello, Role
from kit.wire.link import Link
from kit.wire.opening import connect

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.2
MAX_BODY = 1 << 30  # parameters travel to an observer in one message


@dataclass(frozen=True)
class Directory:
    """The addresses of all tasks, and what is needed to be let in."""

    addresses: Mapping[Task, str]
    credentials: Credentials
    runtime_dir: Path
    settings: Settings

    def dial(
        self,
        task: Task,
        me: Task,
        role: Role,
        run: str = "",
        *,
        incarnation: int = 0,
        deadline_s: float = 0,
    ) -> Link:
        """Return an authenticated link to a task; raises what `connect` raises."""
        if task not in self.addresses:
            known = ", ".join(one.short for one in self.addresses)
            raise PlacementError(f"no task is called {task.short}; there are {known}.")
        run_id = bytes.fromhex(run) if run else bytes(16)
        return connect(
            self._best(parse_address(self.addresses[task])),
            Hello(role, me, incarnation, run_id),
            self.credentials,
            deadline_s=deadline_s or self.settings.connect_deadline_s,
            expected=task,
            insecure=self.settings.insecure,
            max_body=MAX_BODY,
            checksum=self.settings.checksum,
            dead_after_s=self.settings.dead_after_s,
        )

    def reach(
        self,
        task: Task,
        me: Task,
        role: Role,
        run: str = "",
        *,
        incarnation: int = 0,
        deadline: float,
        check: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Link:
        """Dial as `dial` does, again and again while nobody answers there.

        The task may not listen yet, and a line may lose what opens a connection.
        `check` is called before each attempt; what it raises ends the waiting. After
        the `deadline` (of `clock`) raises `DeadlineExceededError`.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            check()
            try:
                return self.dial(task, me, role, run, incarnation=incarnation)
            except (UnavailableError, DeadlineExceededError) as error:
                if clock() + pause_s > deadline:
                    raise _missing(task, error) from error
            sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _best(self, address: Address) -> Address:
        if isinstance(address, TcpAddress) and self.settings.transport != "tcp":
            beside = socket_beside(self.runtime_dir, address)
            if beside is not None and Path(beside.path).exists():
                return beside
        return address


def _missing(task: Task, error: KitError) -> DeadlineExceededError:
    text = f"{task} did not come up in time: {error.message}"
    return DeadlineExceededError(text, task=str(task))


def socket_beside(runtime_dir: Path, address: TcpAddress) -> UnixAddress | None:
    """Return the unix socket that belongs to a port of the loopback interface."""
    if not is_loopback(address.host):
        return None
    return UnixAddress(str(runtime_dir / f"tcp-{address.port}.sock"))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's own loopback interface.

    >>> is_loopback("localhost"), is_loopback("10.0.0.1")
    (True, False)
    """
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def default_runtime_dir(settings: Settings) -> Path:
    """Return this user's folder for sockets: by setting, by XDG, or in /tmp."""
    if settings.runtime_dir:
        return Path(settings.runtime_dir)
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base and os.access(base, os.W_OK):
        return Path(base) / "psring"
    return Path(tempfile.gettempdir()) / f"psring-{os.getuid()}"
