"""Where a task waits for others: a bound unix or TCP address.

A listener accepts and never waits. A peer has proved nothing yet except, on a unix
socket, its user id; TLS and the handshake with the key are the caller's next steps.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

from kit.errors import (
    AddressInUse,
    InvalidArgumentError,
    KitError,
    PermissionDeniedError,
)
from kit.system import peer_uid
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.private import make_private_folder
from kit.wire.handshake.tls import TlsContext, make_stream, tls_context
from kit.wire.listening.address import Address, TcpAddress, UnixAddress, check_exposure
from kit.wire.sockets import (
    UNIX,
    Socket,
    SocketStream,
    open_socket,
    resolve,
)

_RESOLVE_S = 5.0


class Listener:
    """A listening socket; `address` holds the real port. Made by `listen`."""

    def __init__(
        self,
        sock: Socket,
        address: Address,
        context: TlsContext | None,
        pinned_pem: bytes,
    ) -> None:
        sock.setblocking(False)
        self.address = address
        self.is_encrypted = context is not None
        self._socket, self._context, self._pinned = sock, context, pinned_pem
        self._file = _file_of(address)

    def fileno(self) -> int:
        """Return the descriptor to poll for POLLIN, -1 once closed."""
        return self._socket.fileno()

    def accept(self) -> SocketStream | None:
        """Return the next connection, or None if there is none (any more).

        Never blocks. Raises `PermissionDeniedError`, with the connection closed, for a
        process of another user, and `OSError` when this process has no descriptors
        left (EMFILE) or the listener is closed.
        """
        try:
            sock, where = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        if isinstance(self.address, UnixAddress):
            uid = peer_uid(sock)
            if uid != os.geteuid():
                sock.close()
                raise PermissionDeniedError(
                    f"a process of user {uid} knocked at {self.address}, which is for "
                    f"user {os.geteuid()} alone; it was sent away."
                )
            return make_stream(sock, "unix", str(self.address))
        peer = str(TcpAddress(where[0].partition("%")[0], where[1]))
        try:
            return make_stream(sock, "tcp", peer, self._context, self._pinned)
        except OSError:
            return None  # the peer is gone again: nothing is wrong here

    def close(self) -> None:
        """Stop listening and remove the socket's file. May be called twice."""
        self._socket.close()
        if isinstance(self.address, UnixAddress) and self._file is not None:
            # The name may belong to a later listener by now: compare before removing.
            if _file_of(self.address) == self._file:
                Path(self.address.path).unlink(missing_ok=True)
            self._file = None


def listen(
    address: Address,
    *,
    credentials: Credentials | None = None,
    insecure: bool = False,
    dead_after_s: float = 10.0,
    backlog: int = 128,
) -> Listener:
    """Listen at `address`; port 0 takes a free one.

    TCP is encrypted whenever the credentials hold a certificate, unless `insecure`,
    which lets anybody on the line act as this user (see `Settings`).

    Raises `AddressInUse` (with the holder, if it is known), `PermissionDeniedError`
    for an address that would be open to strangers, and `InvalidArgumentError` for one
    that this machine does not have.
    """
    if isinstance(address, UnixAddress):
        return _listen_unix(address, backlog)
    context, pinned = protection(address, credentials, insecure, server=True)
    family, where = resolve(address, time.monotonic() + _RESOLVE_S)[0]
    sock = _bound(open_socket(family, dead_after_s), address, where, backlog)
    real = TcpAddress(address.host, sock.getsockname()[1])
    return Listener(sock, real, context, pinned)


def protection(
    address: TcpAddress,
    credentials: Credentials | None,
    insecure: bool,
    *,
    server: bool,
) -> tuple[TlsContext | None, bytes]:
    """Return context and certificate for links at `address`, None and b"" without TLS.

    Both ends must decide alike. Raises as `check_exposure` does.
    """
    is_encrypted = credentials and credentials.has_certificate and not insecure
    check_exposure(address, encrypted=bool(is_encrypted), insecure=insecure)
    if credentials is None or not is_encrypted:
        return None, b""
    return tls_context(credentials, server=server), credentials.certificate_pem


def _listen_unix(address: UnixAddress, backlog: int) -> Listener:
    # The folder's mode protects the socket even before its own is set below. Changing
    # the umask instead would change it for all threads of the process.
    make_private_folder(Path(address.path).parent)
    remove_dead(Path(address.path))
    sock = _bound(open_socket(UNIX, 0.0), address, address.path, backlog)
    Path(address.path).chmod(0o600)
    return Listener(sock, address, None, b"")


def _bound(sock: Socket, address: Address, where: Any, backlog: int) -> Socket:
    try:
        sock.bind(where)
        sock.listen(backlog)
    except OSError as exc:
        sock.close()
        raise _cannot_listen(address, exc) from exc
    return sock


def _cannot_listen(address: Address, exc: OSError) -> KitError:
    if exc.errno == errno.EADDRINUSE:
        by = port_holder(address.port) if isinstance(address, TcpAddress) else ""
        return AddressInUse(
            f"{address} is taken{by}. Stop that one, or choose port 0, which always "
            f"finds a free port."
        )
    if exc.errno == errno.EACCES:
        return PermissionDeniedError(
            f"user {os.geteuid()} may not listen at {address}; take a port from 1024 "
            f"on, or a folder of your own."
        )
    return InvalidArgumentError(
        f"cannot listen at {address}: {exc.strerror}. It must be an address of this "
        f"machine."
    )


def remove_dead(path: Path) -> None:
    """Remove a socket's file if its listener is dead: connections are refused."""
    with open_socket(UNIX, 0.0) as probe:
        probe.setblocking(False)
        if probe.connect_ex(str(path)) == errno.ECONNREFUSED:
            path.unlink(missing_ok=True)


def _file_of(address: Address) -> tuple[int, int, int] | None:
    """Return what identifies the socket's file, None if there is none.

    The time when it was made is part of that: a removed file's number is used again.
    """
    if not isinstance(address, UnixAddress):
        return None
    try:
        status = Path(address.path).lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def port_holder(port: int) -> str:
    """Return " by process 123 (python)", or "" when that is not known. About 10 ms."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            heard = getattr(connection.laddr, "port", None)  # () where it has none
            if listens and heard == port and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f" by process {connection.pid} ({name})"
    except psutil.Error:
        pass
    return ""
