"""Open a connection to a listening task, before a deadline.

One attempt: it does not wait for a task that is not up yet. What comes back has proved
nothing but its user id (unix) or its certificate (TLS).
"""

from __future__ import annotations

import errno
import math
import os
import select
import time
from typing import Any

from kit.errors import (
    DeadlineExceededError,
    KitError,
    PermissionDeniedError,
    UnavailableError,
)
from kit.system import peer_uid
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.tls import establish, make_stream
from kit.wire.listening.address import Address, UnixAddress
from kit.wire.listening.listener import protection
from kit.wire.sockets import (
    UNIX,
    Socket,
    open_socket,
    pending_error,
    resolve,
)
from kit.wire.stream import Clock, Stream

# When the full backlog of a unix socket empties, nobody is woken: try again after this.
_LOOK_AGAIN_MS = 5
# How many attempts begin within the time after which a task counts as dead, and how
# many are open at a time: enough for any round trip that a training can bear.
_ATTEMPTS, _AT_ONCE = 50, 12
_NOT_YET = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN})


def dial(
    address: Address,
    deadline: float,
    *,
    credentials: Credentials | None = None,
    insecure: bool = False,
    dead_after_s: float = 10.0,
    clock: Clock = time.monotonic,
) -> Stream:
    """Return a stream to the listener at `address`, ready for use.

    TCP is encrypted whenever the credentials hold a certificate, unless `insecure`,
    which lets anybody on the line act as this user (see `Settings`).

    Raises `UnavailableError` when nobody listens, `DeadlineExceededError`,
    `AuthenticationFailed` for another certificate, and `PermissionDeniedError` for a
    socket of another user or an address that would not be encrypted.
    """
    if isinstance(address, UnixAddress):
        return _dial_unix(address, deadline, clock)
    context, pinned = protection(address, credentials, insecure, server=False)
    places = resolve(address, deadline, clock)
    sock = _first_connected(address, places, dead_after_s, deadline, clock)
    try:
        stream = make_stream(sock, "tcp", str(address), context, pinned)
    except OSError as exc:
        raise _nobody(address, exc.errno or 0) from exc
    try:
        establish(stream, deadline, clock)
    except BaseException:
        stream.close()
        raise
    return stream


def _dial_unix(address: UnixAddress, deadline: float, clock: Clock) -> Stream:
    sock = open_socket(UNIX, 0.0)
    try:
        _connect_unix(sock, address, deadline, clock)
        # The path may lead through folders of others, where somebody else could have
        # put a socket; the kernel knows whose process listens.
        uid = peer_uid(sock)
        if uid != os.geteuid():
            raise PermissionDeniedError(
                f"{address} belongs to a process of user {uid}, not {os.geteuid()}; "
                f"do not use it, and ask this cluster for its addresses again."
            )
    except BaseException:
        sock.close()
        raise
    return make_stream(sock, "unix", str(address))


def _first_connected(
    address: Address,
    places: list[tuple[int, Any]],
    dead_after_s: float,
    deadline: float,
    clock: Clock,
) -> Socket:
    """Try the places behind a host name in turn; raise the last one's error."""
    last: KitError = _nobody(address, errno.EHOSTUNREACH)
    for family, where in places:
        attempts = _Attempts(address, family, where, dead_after_s)
        try:
            return attempts.first_to_connect(deadline, clock)
        except UnavailableError as exc:
            last = exc
        finally:
            attempts.close()
    raise last


class _Attempts:
    """Several attempts to connect to one place, begun one after the other.

    TCP repeats what a cut line has swallowed after 1, 2 and 4 s; a new attempt gets
    through as soon as the line is whole.
    """

    def __init__(
        self, address: Address, family: int, where: Any, dead_after_s: float
    ) -> None:
        self._address, self._family, self._where = address, family, where
        self._dead_after_s = dead_after_s
        self._socks: dict[int, Socket] = {}
        self._poll = select.poll()

    def first_to_connect(self, deadline: float, clock: Clock) -> Socket:
        """Return the socket that is connected first; the caller's from then on."""
        pause_s = self._dead_after_s / _ATTEMPTS
        while (rest := deadline - clock()) > 0:
            self._begin()
            for fd, _ in self._poll.poll(math.ceil(1000 * min(rest, pause_s))):
                # A refusal is the answer of that place, whichever attempt it is to: the
                # others would be refused as well.
                code = pending_error(self._socks[fd])
                if code:
                    raise _nobody(self._address, code)
                return self._socks.pop(fd)
        raise _too_late(self._address)

    def _begin(self) -> None:
        if len(self._socks) >= _AT_ONCE:
            oldest = next(iter(self._socks))  # TCP pauses longest before it tries again
            self._poll.unregister(oldest)
            self._socks.pop(oldest).close()
        sock = open_socket(self._family, self._dead_after_s)
        self._socks[sock.fileno()] = sock
        sock.setblocking(False)
        code = sock.connect_ex(self._where)
        if code not in (0, *_NOT_YET):
            raise _nobody(self._address, code)
        self._poll.register(sock.fileno(), select.POLLOUT)

    def close(self) -> None:
        """Give up all attempts that were not taken."""
        for sock in self._socks.values():
            sock.close()
        self._socks.clear()


def _connect_unix(
    sock: Socket, address: UnixAddress, deadline: float, clock: Clock
) -> None:
    sock.setblocking(False)
    while (code := sock.connect_ex(address.path)) in _NOT_YET:
        remaining_ms = int((deadline - clock()) * 1000)
        if remaining_ms <= 0:
            raise _too_late(address)
        select.poll().poll(min(remaining_ms, _LOOK_AGAIN_MS))
    if code not in (0, errno.EISCONN):
        raise _nobody(address, code)


def _too_late(address: Address) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"{address} did not take the connection in time. The task there may be "
        f"overloaded, or a firewall may swallow the connection."
    )


def _nobody(address: Address, code: int) -> UnavailableError:
    return UnavailableError(
        f"nothing answers at {address}: {os.strerror(code)}. Is the task there up? "
        f"If not, its log says why."
    )
