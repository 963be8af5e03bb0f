"""Linux: what `kit.system` offers, by what no other system has."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final

# A folder on the way to a file need not be readable.
FOLDER: Final = os.O_PATH
# Descriptors that a message brings are not for programs that this one starts.
RIGHTS: Final = socket.MSG_CMSG_CLOEXEC

# -- bells: waking a thread that polls, from any thread or process --


class Bell:
    """Rung by whoever has its `handle`; `fd` is readable until it is answered."""

    def __init__(self) -> None:
        self.fd = self.handle = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def answer(self) -> None:
        """Be silent until it is rung again."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        """Close it; its handle elsewhere can be rung, and wakes nobody."""
        os.close(self.fd)


def ring(handle: int) -> None:
    """Ring a bell; never waits."""
    os.eventfd_write(handle, 1)


# -- memory that is shared, and paths to memory --

# If the file behind a mapping shrinks, readers of the lost pages are killed by SIGBUS.
# So a neighbour's memory is mapped only if its size is sealed, for good (F_SEAL_SEAL).
_FIXED_SIZE: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def new_memory(name: str, size: int) -> int:
    """Return a descriptor of `size` bytes of zeros, to be mapped and passed on.

    Memory is taken as it is first touched; `name` shows in /proc only. Raises `OSError`
    or `OverflowError`.
    """
    fd = os.memfd_create(f"kit-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # The size is fixed before anybody else can have the descriptor.
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _FIXED_SIZE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def why_unsafe(fd: int) -> str:
    """Say why memory of another process must not be mapped, "" if it may be."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError as exc:
        return f"it is a file or device ({exc.strerror})"
    if seals & _FIXED_SIZE != _FIXED_SIZE:
        return f"its size is not fixed (seals {seals:#x})"
    return ""


@contextmanager
def path_of(name: str) -> Iterator[tuple[int, str]]:
    """Give a new file to write to, and a path that leads other code of ours to it.

    Only this user can open it, and nothing of it is on a disk.
    """
    fd = os.memfd_create(f"kit-{name}", os.MFD_CLOEXEC)
    try:
        yield fd, f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


# -- connections --


def has_hung_up(fd: int) -> bool:
    """Whether the other end of a connection has closed it, or has died."""
    poll = select.poll()
    poll.register(fd, _ENDED)
    return bool(poll.poll(0))


class HangUps:
    """Tells of connections whose other end has closed them, each once."""

    def __init__(self) -> None:
        self._epoll, self._bell = select.epoll(), Bell()
        self._epoll.register(self._bell.fd, select.EPOLLIN)

    def add(self, fd: int) -> None:
        """Watch a connection; raises `OSError` or `ValueError` if it is closed."""
        # One report for each: an ended one would be reported for ever.
        self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)

    def wait(self) -> list[int]:
        """Wait for ends, or for `wake`; the numbers may be newer files' by now."""
        return [fd for fd, _ in self._epoll.poll() if fd != self._bell.fd]

    def wake(self) -> None:
        """Let `wait` return, from any thread."""
        ring(self._bell.handle)

    def close(self) -> None:
        """Close it; nobody may wait."""
        self._epoll.close()
        self._bell.close()


_ENDED: Final = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def tcp_options(dead_after_s: float) -> Sequence[tuple[int, int]]:
    """Return options by which TCP notices a dead peer after so many seconds."""
    # A machine that dies sends nothing, not even a reset. An idle connection is probed
    # after 2 s and then each second; TCP_USER_TIMEOUT says how long probes and data may
    # go unanswered, and overrides the number of probes (tcp(7)).
    return (
        (socket.TCP_KEEPIDLE, 2),
        (socket.TCP_KEEPINTVL, 1),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, int(dead_after_s * 1000)),
    )


# The longest pause between two of TCP's attempts to send, where the kernel can be told
# (6.15 and newer): so TCP notices within a second that a cut line is whole again.
_TCP_RTO_MAX_MS: Final = 44  # linux/tcp.h
NEWER_OPTIONS: Sequence[tuple[int, int]] = ((_TCP_RTO_MAX_MS, 1000),)


def outlast(sock: socket.socket, times: int) -> None:
    """Let a TCP connection hold on `times` as long as it would."""
    level, option = socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT
    sock.setsockopt(level, option, times * sock.getsockopt(level, option))


def send_unpaced(sock: socket.socket) -> None:
    """Let TCP send without pauses of its own; raises `OSError`."""
    # The congestion control that every kernel has, and that every user may choose.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def peer_uid(sock: socket.socket) -> int:
    """Return the user id of the process at the other end of a unix socket."""
    record = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", record)[1])  # pid, uid, gid (unix(7))


# What sock_diag(7) is asked and answers: struct inet_diag_msg as far as it is needed.
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_ANY_STATE, _ESTABLISHED = 0xFFFF_FFFF, 1
_DIAG: Final = struct.Struct("=xB2x48x12xII")
_KERNEL_S: Final = 0.1  # it answers within the call that asks


def local_peer_uid(sock: socket.socket) -> int | None:
    """Return the user id at the other end of a TCP connection within this machine.

    None for another machine, and if the kernel does not say. It is asked for this one
    socket (sock_diag(7)): /proc/net/tcp lists all there are, and strangers could make
    that list long. A socket that its process has closed belongs to nobody (inode 0).
    """
    ours, theirs = sock.getsockname(), sock.getpeername()
    if not ip_address(theirs[0].partition("%")[0]).is_loopback:
        return None
    ends = [
        socket.inet_pton(sock.family, end[0]).ljust(16, b"\0") for end in (theirs, ours)
    ]
    any_cookie = b"\xff" * 8
    question = b"".join(
        (
            struct.pack("=BBBxI", sock.family, socket.IPPROTO_TCP, 0, _ANY_STATE),
            struct.pack("!HH", theirs[1], ours[1]),
            *ends,
            bytes(4),
            any_cookie,
        )
    )
    head = struct.pack("=IHHII", 16 + len(question), _BY_FAMILY, _REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diagnosis:
            diagnosis.settimeout(_KERNEL_S)
            diagnosis.send(head + question)
            answer = diagnosis.recv(4096)
    except OSError:
        return None
    if len(answer) < 16 + _DIAG.size or answer[4:6] != head[4:6]:
        return None
    state, uid, inode = _DIAG.unpack_from(answer, 16)
    return uid if state == _ESTABLISHED and inode else None


# -- this machine --


def cpus() -> set[int]:
    """Return the numbers of the hardware threads that this process may use."""
    return os.sched_getaffinity(0)


def machine_id() -> str:
    """Return what is the same for processes that reach each other by loopback alone."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/net').stat().st_ino}"


def pid_namespace() -> str:
    """Return what is the same for processes that know each other by the same pids."""
    return str(Path("/proc/self/ns/pid").readlink())
