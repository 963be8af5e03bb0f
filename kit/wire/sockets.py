"""The only file that knows sockets: the streams over them, and what they are made of.

    unix   a socket in a folder of this user alone; the kernel gives the peer's user id
    tcp    plain, for this machine's own addresses (or insecure=True)

It opens nothing by itself: `listener.py` and `dialer.py` do, with the pieces from here.
No abstract name is ever used, and no port shared with a second listener (SO_REUSEPORT).
"""

from __future__ import annotations

import array
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from kit.errors import KitError, LinkLost, UnavailableError
from kit.system import (
    NEWER_OPTIONS as NEWER_OPTIONS,
)
from kit.system import (
    RIGHTS,
    local_peer_uid,
    outlast,
    peer_uid,
    send_unpaced,
    tcp_options,
)
from kit.wire.frame import Buffer
from kit.wire.listening.address import TcpAddress
from kit.wire.stream import OVER_TCP, PATIENCE_S, Clock, Stream

T = TypeVar("T")
Socket = socket.socket
UNIX: Final = socket.AF_UNIX
PEEK: Final = socket.MSG_PEEK

_MOST_BUFFERS: Final = 64  # far below the kernel's IOV_MAX of 1024
_AT_ONCE: Final = socket.MSG_DONTWAIT
_RIGHTS: Final = RIGHTS | _AT_ONCE
_LOOK_UP_S: Final = 10.0
_PATIENCE: Final = struct.pack("@ll", 0, int(PATIENCE_S * 1e6))  # a struct timeval
# Where no option bounds them, each pause between two of TCP's attempts to send is twice
# as long as the one before: after a cut of some length, as much time again may pass
# before TCP sends what the cut has held back.
_MOST_SILENCE: Final = 3

# The kernel's limit on a wait begins anew with each piece of a payload that it has
# taken, of some 100 KiB; so what is given to one call is bounded, and with it all of
# the call.
_MOST_WAITING: Final = 2**18


class SocketStream:
    """A unix or plain TCP connection; it owns the socket from here on."""

    def __init__(self, sock: Socket, kind: str, peer: str) -> None:
        # Blocking, up to a limit, so that a wait is one call; all others say _AT_ONCE.
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
        self._socket, self.kind, self.peer = sock, kind, peer

    def fileno(self) -> int:
        """See `Stream`, as for all methods below down to `close`."""
        return self._socket.fileno()

    def read_into(self, view: memoryview) -> int | None:
        """See `Stream.read_into`."""
        try:
            return self._socket.recv_into(view, 0, _AT_ONCE)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc

    def read_waiting(self, view: memoryview) -> int | None:
        """See `PatientStream.read_waiting`."""
        try:
            return self._socket.recv_into(view)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """See `Stream.write`."""
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0], _AT_ONCE)
            return self._socket.sendmsg(buffers[:_MOST_BUFFERS], (), _AT_ONCE)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc

    def write_waiting(self, buffers: Sequence[Buffer]) -> int | None:
        """See `PatientStream.write_waiting`."""
        part = memoryview(buffers[0])[:_MOST_WAITING]
        return self._tried(lambda: self._socket.send(part))

    def origin(self) -> str:
        """Return in words who is at the other end, as far as the system knows.

        A user of this machine, or another machine. Costs up to 50 us.
        """
        try:
            if self._socket.family == UNIX:
                return f"user {peer_uid(self._socket)}"
            uid = local_peer_uid(self._socket)
            host = self._socket.getpeername()[0]
        except OSError:
            return "a peer that is gone"
        return f"host {host}" if uid is None else f"user {uid}"

    def shutdown(self) -> None:
        """See `Stream.shutdown`."""
        with suppress(OSError):
            # Not the method of SSLSocket: that one drops its TLS state, and a thread
            # that is just about to read would get ciphertext as data.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Stream.close`."""
        self._socket.close()

    def send_rights(self, note: bytes, fds: Sequence[int]) -> bool:
        """Send descriptors beside `note`; False if it must be tried again later."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        sent = self._tried(lambda: self._socket.sendmsg([note], [rights], _AT_ONCE))
        return sent == len(note)

    def recv_rights(self, n_bytes: int, n_fds: int) -> tuple[bytes, list[int]] | None:
        """Return a note and at most `n_fds` descriptors; None if nothing has come.

        The descriptors are the caller's, to be closed by it.
        """
        room = socket.CMSG_SPACE(n_fds * array.array("i").itemsize)
        fds = array.array("i")
        came = self._tried(lambda: self._socket.recvmsg(n_bytes, room, _RIGHTS))
        if came is None:
            return None
        note, beside, _, _ = came
        for level, what, data in beside:
            if (level, what) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                # The kernel may cut the list short; only whole numbers are descriptors.
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        for fd in fds if not RIGHTS else ():
            os.set_inheritable(fd, False)
        return note, list(fds)

    def _tried(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc

    def _broken(self, exc: Exception) -> KitError:
        return LinkLost(
            f"the {self.kind} connection to {self.peer} broke: {exc}. See whether the "
            f"task there still runs, and in its log why it stopped."
        )


def open_socket(family: int, dead_after_s: float) -> Socket:
    """Return a socket; a TCP one notices a dead peer after `dead_after_s`.

    Sockets accepted from a listening one inherit all of these options.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    if family == UNIX:
        return sock
    # A server that starts again gets its port back, although connections of the one
    # before still linger (TIME_WAIT).
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # A machine that dies sends nothing, not even a reset.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # TCP_NODELAY: a small frame must not wait until an earlier one is acknowledged.
    for option, value in ((socket.TCP_NODELAY, 1), *tcp_options(dead_after_s)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    for option, value in NEWER_OPTIONS:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def outlast_cuts(stream: Stream) -> None:
    """Let TCP hold on for a multiple of `dead_after_s`; others decide who is dead.

    For links whose users exchange signs of life. TCP alone would give up even on a line
    that was cut for less than that, because of the pauses between its attempts.
    """
    if stream.kind not in OVER_TCP:
        return
    # Of a copy of the descriptor: a socket object closes the one that it is made of.
    with socket.socket(fileno=os.dup(stream.fileno())) as sock:
        outlast(sock, _MOST_SILENCE)


def suit_to_loopback(sock: Socket) -> None:
    """Send at full speed if both ends are on the loopback interface.

    Nothing is lost or queued there, but a congestion control that paces its packets
    (BBR) still keeps to the bandwidth that it has measured while the machine was busy.
    """
    if sock.family == UNIX:
        return
    with suppress(OSError):
        ends = sock.getsockname()[0], sock.getpeername()[0]
        if all(ip_address(end.partition("%")[0]).is_loopback for end in ends):
            send_unpaced(sock)


def pending_error(sock: Socket) -> int:
    """Return the number of the error that a connection attempt met, 0 for none."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def resolve(
    address: TcpAddress, deadline: float, clock: Clock = time.monotonic
) -> list[tuple[int, Any]]:
    """Return the (family, socket address) pairs behind a host, numbers without a wait.

    A name is looked up in another thread: the system's resolver takes no deadline.
    Raises `UnavailableError` if none was found in time.
    """
    addresses: list[tuple[int, Any]] = []

    def look_up(flags: int) -> None:
        with suppress(OSError, UnicodeError):
            for family, _, _, _, where in socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=flags
            ):
                addresses.append((family, where))

    look_up(socket.AI_NUMERICHOST)
    if not addresses:
        thread = threading.Thread(None, look_up, "kit-resolver", (0,), daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - clock()))
    if not addresses:
        raise UnavailableError(
            f"the host of {address} has no known address; check its spelling and this "
            f"machine's name service."
        )
    return list(addresses)


def address_towards(host: str) -> str:
    """Return the address of this host from which packets to another leave; sends none.

    Raises `UnavailableError` if there is no route.
    """
    # Connecting a datagram socket sends nothing: it only chooses a route. Any port
    # does.
    where = resolve(TcpAddress(host, 9), time.monotonic() + _LOOK_UP_S)[0]
    try:
        with socket.socket(where[0], socket.SOCK_DGRAM) as sock:
            sock.connect(where[1])
            return str(sock.getsockname()[0])
    except OSError as exc:
        raise UnavailableError(f"no way leads from here to {host}: {exc}.") from exc


def is_own(host: str) -> bool:
    """Return whether a numeric address belongs to this host; a few microseconds."""
    try:
        number = ip_address(host)
        if number.is_unspecified:
            return False
        family = socket.AF_INET if number.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((host, 0))
    except (ValueError, OSError):
        return False
    return True


def why_unreachable(address: TcpAddress, limit_s: float) -> str:
    """Open a connection and close it again; return why not, empty if it went well."""
    try:
        family, where = resolve(address, time.monotonic() + limit_s)[0]
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(limit_s)
            sock.connect(where)
    except TimeoutError:
        return f"no answer within {limit_s:g} s"
    except UnavailableError as exc:
        return exc.message
    except OSError as exc:
        return exc.strerror or str(exc)
    return ""
