"""macOS and the BSDs: what `kit.system` offers, by what POSIX has.

It was run on Linux only, where `KIT_SYSTEM=posix` takes it. It does less: memory has no
seals, so a neighbour that cuts its own off ends its readers; TCP has no limit on data
that are not acknowledged; an end behind bytes that nobody has read is not seen; and
nobody says which user of this machine is at the other end of a TCP connection.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import socket
import stat
import struct
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY
RIGHTS: Final = 0
_LOOK_MS: Final = 50


class Bell:
    """Rung by whoever has its `handle`; `fd` is readable until it is answered."""

    def __init__(self) -> None:
        self.fd, self.handle = os.pipe()
        for end in (self.fd, self.handle):
            os.set_blocking(end, False)

    def answer(self) -> None:
        """Be silent until it is rung again."""
        with suppress(BlockingIOError):
            while os.read(self.fd, 1 << 16):
                pass

    def close(self) -> None:
        """Close it; its handle elsewhere can be rung, and wakes nobody."""
        os.close(self.fd)
        os.close(self.handle)


def ring(handle: int) -> None:
    """Ring a bell; never waits."""
    with suppress(BlockingIOError, BrokenPipeError):  # it rings already, or is closed
        os.write(handle, bytes(8))  # as many as hops.c writes


def new_memory(name: str, size: int) -> int:
    """Return a descriptor of `size` bytes of zeros, to be mapped and passed on.

    It is a file that has lost its name: memory and disk are taken as it is first
    touched. Raises `OSError` or `OverflowError`.
    """
    fd, path = tempfile.mkstemp(prefix=f"kit-{name}-".replace("/", "-"))
    try:
        Path(path).unlink()
        os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def why_unsafe(fd: int) -> str:
    """Say why memory of another process must not be mapped, "" if it may be."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return "it is a device, or another user's"
    return "it is a file with a name" if status.st_nlink else ""


@contextmanager
def path_of(name: str) -> Iterator[tuple[int, str]]:
    """Give a new file to write to, and a path that leads other code of ours to it.

    Only this user can open it.
    """
    fd, path = tempfile.mkstemp(prefix=f"kit-{name}-")
    try:
        yield fd, path
    finally:
        os.close(fd)
        Path(path).unlink()


def has_hung_up(fd: int) -> bool:
    """Whether the other end of a connection has closed it, or has died."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    events = poll.poll(0)
    if not events:
        return False
    if events[0][1] & ~select.POLLIN:
        return True
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as sock:
        try:
            return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class HangUps:
    """Tells of connections whose other end has closed them, each once.

    It looks at each twenty times a second: no call waits for an end alone.
    """

    def __init__(self) -> None:
        self._bell, self._fds = Bell(), set[int]()
        self._poll = select.poll()
        self._poll.register(self._bell.fd, select.POLLIN)

    def add(self, fd: int) -> None:
        """Watch a connection."""
        self._fds.add(fd)

    def wait(self) -> list[int]:
        """Wait for ends, or for `wake`; the numbers may be newer files' by now."""
        while not self._poll.poll(_LOOK_MS):
            ended = [fd for fd in self._fds.copy() if _is_over(fd)]
            if ended:
                self._fds.difference_update(ended)
                return ended
        return []

    def wake(self) -> None:
        """Let `wait` return, from any thread."""
        ring(self._bell.handle)

    def close(self) -> None:
        """Close it; nobody may wait."""
        self._bell.close()


def _is_over(fd: int) -> bool:
    try:
        return has_hung_up(fd)
    except OSError:
        return True


# macOS has the first one's name for what others call the second.
_IDLE: Final = ("TCP_KEEPALIVE", "TCP_KEEPIDLE")


def tcp_options(dead_after_s: float) -> Sequence[tuple[int, int]]:
    """Return options by which TCP notices a dead peer after so many seconds.

    An idle connection is probed after 2 s and then each second.
    """
    idle = next(name for name in _IDLE if hasattr(socket, name))
    return (
        (getattr(socket, idle), 2),
        (socket.TCP_KEEPINTVL, 1),
        (socket.TCP_KEEPCNT, max(1, round(dead_after_s) - 2)),
    )


NEWER_OPTIONS: Sequence[tuple[int, int]] = ()


def outlast(sock: socket.socket, times: int) -> None:
    """Let a TCP connection hold on `times` as long as it would."""
    level, option = socket.IPPROTO_TCP, socket.TCP_KEEPCNT
    sock.setsockopt(level, option, times * sock.getsockopt(level, option))


def send_unpaced(sock: socket.socket) -> None:
    """Do nothing: pauses of TCP's own are a choice of Linux."""


def peer_uid(sock: socket.socket) -> int:
    """Return the user id of the process at the other end of a unix socket."""
    if hasattr(socket, "SO_PEERCRED"):  # Linux, which has no getpeereid
        record = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", record)[1])
    uid, gid = ctypes.c_uint(), ctypes.c_uint()
    library = ctypes.CDLL(None, use_errno=True)
    if library.getpeereid(sock.fileno(), ctypes.byref(uid), ctypes.byref(gid)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return uid.value


def local_peer_uid(sock: socket.socket) -> int | None:
    """Return None: nobody says who is at the other end of a TCP connection."""
    return None


def cpus() -> set[int]:
    """Return the numbers of the hardware threads of this machine."""
    return set(range(os.cpu_count() or 1))


def machine_id() -> str:
    """Return what is the same for processes that reach each other by loopback alone."""
    return f"{platform.node()} {uuid.getnode():x}"


def pid_namespace() -> str:
    """Return what is the same for processes that know each other by the same pids."""
    return ""
