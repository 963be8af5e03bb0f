"""The unix socket beside a port of this host: named, found, swept.

    tcp-2222.1a2b-3c4d5e.sock       port 2222, of the process 0x1a2b started at 0x3c4d5e
    tcp-10.0.0.7-2222.1a2b-3c4d5e.sock      the same at another address than loopback's

The name holds the owner's pid and start time. So a socket that a killed server left
behind is not dialled, and the next server on this machine removes it. No lock is
needed, and no second file that could be lost.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kit.errors import UnavailableError
from kit.machine import started
from kit.settings import Settings
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Hello
from kit.wire.handshake.opening import connect
from kit.wire.link import Link
from kit.wire.listening.address import Address, TcpAddress, UnixAddress, is_local
from kit.wire.listening.listener import remove_dead
from kit.wire.sockets import is_own

MAX_BODY = 1 << 30  # parameters travel to an observer in one message
_NAME = re.compile(r"tcp-(?:[0-9a-f.:]+-)?\d+\.([0-9a-f]+)-([0-9a-f]+)\.sock", re.ASCII)


class _Found(NamedTuple):
    path: Path
    has_owner: bool  # the process in its name is running


def socket_beside(runtime_dir: Path, address: Address) -> UnixAddress | None:
    """Return where this process listens beside a port; None for a port elsewhere.

    The port must be at an address of this host: tasks there then come this way.
    """
    if not isinstance(address, TcpAddress) or not _is_here(address):
        return None
    owner = f"{os.getpid():x}-{started(os.getpid()) or 0:x}"
    return UnixAddress(str(runtime_dir / f"tcp-{_label(address)}.{owner}.sock"))


def sweep(runtime_dir: Path) -> None:
    """Remove the sockets of processes that are gone.

    But only where nothing answers: a container may share the folder, and its process
    numbers mean nothing here.
    """
    for socket in _sockets(runtime_dir):
        if not socket.has_owner:
            remove_dead(socket.path)


def connect_near(
    address: Address,
    hello: Hello,
    credentials: Credentials,
    runtime_dir: Path,
    settings: Settings,
    *,
    deadline_s: float,
    **more: Any,
) -> Link:
    """Return a link as `connect` does, over the unix socket beside a port, if any.

    When nothing answers there, the port is dialled.
    """
    deadline = time.monotonic() + deadline_s
    rest: dict[str, Any] = {
        "insecure": settings.insecure,
        "max_body": MAX_BODY,
        "checksum": settings.checksum,
        "dead_after_s": settings.dead_after_s,
        "encryption": settings.encryption,
        **more,
    }
    for near in _beside(runtime_dir, address, settings):
        with suppress(UnavailableError):
            return connect(near, hello, credentials, deadline_s=deadline_s, **rest)
    left_s = deadline - time.monotonic()
    return connect(address, hello, credentials, deadline_s=left_s, **rest)


def _beside(
    runtime_dir: Path, address: Address, settings: Settings
) -> Iterator[UnixAddress]:
    if not isinstance(address, TcpAddress) or settings.transport == "tcp":
        return
    if _is_here(address):
        for socket in _sockets(runtime_dir, _label(address)):
            if socket.has_owner:
                yield UnixAddress(str(socket.path))


def _is_here(address: TcpAddress) -> bool:
    return is_local(address) or is_own(address.host)


def _label(address: TcpAddress) -> str:
    # Hosts that share a folder may each use the same port.
    port = str(address.port)
    return port if is_local(address) else f"{address.host}-{port}"


def _sockets(runtime_dir: Path, label: str = "*") -> Iterator[_Found]:
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in runtime_dir.glob(f"tcp-{label}.*sock"):
            match = _NAME.fullmatch(path.name)
            if match:
                pid, start = (int(part, 16) for part in match.groups())
                yield _Found(path, started(pid) == start)
