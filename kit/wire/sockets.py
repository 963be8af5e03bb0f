"""The only file that knows sockets and TLS: the streams, and what they are made of.

    unix   a socket in a folder of this user alone; the kernel tells the peer's user id
    tcp    plain, for this machine's own addresses (or insecure=True)
    tls    TLS 1.3, both sides show the cluster's one certificate, and no other is taken

It opens nothing by itself: `listener.py` and `dialer.py` do, with the pieces from here.
No abstract name is ever used, and no port shared with a second listener (SO_REUSEPORT).
"""

from __future__ import annotations

import array
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from kit.errors import (
    AuthenticationFailed,
    FailedPreconditionError,
    KitError,
    LinkLost,
    UnavailableError,
)
from kit.wire.address import TcpAddress
from kit.wire.credentials import CERTIFICATE_NAME, Credentials
from kit.wire.frame import Buffer
from kit.wire.stream import Clock, Stream, front, wait_ready

Socket = socket.socket
TlsContext = ssl.SSLContext
UNIX: Final = socket.AF_UNIX

_MOST_BUFFERS: Final = 64  # far below the kernel's IOV_MAX of 1024
_RECORD: Final = 16_384  # the most that one TLS record carries
_CLOSE_ON_EXEC: Final = socket.MSG_CMSG_CLOEXEC


class SocketStream:
    """A unix or plain TCP connection; it owns the socket from here on."""

    def __init__(self, sock: Socket, kind: str, peer: str) -> None:
        sock.setblocking(False)
        self._socket, self.kind, self.peer = sock, kind, peer

    def fileno(self) -> int:
        """See `Stream`, as for all methods below down to `close`."""
        return self._socket.fileno()

    def read_into(self, view: memoryview) -> int | None:
        """See `Stream.read_into`."""
        try:
            return self._socket.recv_into(view)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """See `Stream.write`."""
        try:
            return self._socket.sendmsg(buffers[:_MOST_BUFFERS])
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc

    def shutdown(self) -> None:
        """See `Stream.shutdown`."""
        with suppress(OSError):
            # Not the method of SSLSocket: that one forgets its keys, and a thread that
            # is just about to read would be given ciphertext as data.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Stream.close`."""
        self._socket.close()

    def send_rights(self, note: bytes, fds: Sequence[int]) -> bool:
        """Send descriptors beside `note`; False when it must be tried again later."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        try:
            return self._socket.sendmsg([note], [rights]) == len(note)
        except BlockingIOError:
            return False
        except OSError as exc:
            raise self._broken(exc) from exc

    def recv_rights(self, n_bytes: int, n_fds: int) -> tuple[bytes, list[int]] | None:
        """Return a note and at most `n_fds` descriptors, the caller's; None: wait."""
        room = socket.CMSG_SPACE(n_fds * array.array("i").itemsize)
        fds = array.array("i")
        try:
            note, beside, _, _ = self._socket.recvmsg(n_bytes, room, _CLOSE_ON_EXEC)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise self._broken(exc) from exc
        for level, what, data in beside:
            if (level, what) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        return note, list(fds)

    def _broken(self, exc: Exception) -> KitError:
        return LinkLost(
            f"the {self.kind} connection to {self.peer} broke: {exc}. See whether the "
            f"task there still runs, and in its log why it stopped."
        )


class TlsStream(SocketStream):
    """A TLS 1.3 connection; `establish` must have returned before it is used."""

    _socket: ssl.SSLSocket

    def __init__(self, sock: ssl.SSLSocket, peer: str, pinned_pem: bytes) -> None:
        super().__init__(sock, "tls", peer)
        self._pinned = ssl.PEM_cert_to_DER_cert(pinned_pem.decode())
        self._sealed = 0  # size of the record that OpenSSL holds back
        self._heard = False
        # OpenSSL's object takes one caller at a time; no call under the lock blocks.
        self._lock = threading.Lock()

    def establish(self, deadline: float, clock: Clock) -> None:
        """Finish the TLS handshake and compare the certificate with the pinned one."""
        while True:
            try:
                self._socket.do_handshake()
                break
            except ssl.SSLWantReadError:
                wait_ready(self, select.POLLIN, deadline, clock)
            except ssl.SSLWantWriteError:
                wait_ready(self, select.POLLOUT, deadline, clock)
            except (OSError, ValueError) as exc:
                raise self._broken(exc) from exc
        if self._socket.getpeercert(binary_form=True) != self._pinned:
            raise self._broken(ssl.SSLCertVerificationError("another certificate"))

    def read_into(self, view: memoryview) -> int | None:
        """See `Stream.read_into`."""
        try:
            with self._lock:
                n_bytes = self._socket.recv_into(view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except (OSError, ValueError) as exc:
            raise self._broken(exc) from exc
        self._heard = True
        return n_bytes

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """See `Stream.write`; takes one record at a time."""
        record = front(buffers, self._sealed or _RECORD)
        try:
            with self._lock:
                n_bytes = self._socket.send(record)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._sealed = len(record)
            return None
        except (OSError, ValueError) as exc:
            raise self._broken(exc) from exc
        self._sealed = 0
        return n_bytes

    def _broken(self, exc: Exception) -> KitError:
        # Under TLS 1.3 a server's no to our certificate arrives with the first read.
        is_refusal = isinstance(exc, ssl.SSLError) and not self._heard
        if not is_refusal or isinstance(exc, ssl.SSLEOFError):
            return super()._broken(exc)
        return AuthenticationFailed(
            f"no TLS connection with {self.peer}: {exc}. One side does not show this "
            f"cluster's certificate, or does not encrypt; use the same credentials and "
            f"the same setting of 'insecure' on both."
        )


def tls_context(credentials: Credentials, *, server: bool) -> TlsContext:
    """Return a context that shows and accepts the cluster's certificate and no other.

    Raises `FailedPreconditionError` if the credentials hold no certificate.
    """
    if not credentials.has_certificate:
        raise FailedPreconditionError(
            "these credentials hold no certificate; make the cluster's with "
            "Credentials.new(certificate=True)."
        )
    side = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=credentials.certificate_pem.decode())
    if server:
        context.num_tickets = 0  # no connection is ever resumed
    # OpenSSL wants a path; this one leads to memory that nobody else can open.
    fd = os.memfd_create("kit-certificate", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb", buffering=0) as file:
        file.write(credentials.certificate_pem + credentials.private_key_pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    return context


def make_stream(
    sock: Socket,
    kind: str,
    peer: str,
    context: TlsContext | None = None,
    pinned_pem: bytes = b"",
) -> Stream:
    """Return the stream over a connected socket, with TLS if a context is given.

    Raises `OSError`, with the socket closed, when the connection is gone already.
    """
    if context is None:
        return SocketStream(sock, kind, peer)
    sock.setblocking(False)
    is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    try:
        wrapped = context.wrap_socket(
            sock,
            server_side=is_server,
            do_handshake_on_connect=False,
            server_hostname=None if is_server else CERTIFICATE_NAME,
        )
    except OSError:
        sock.close()
        raise
    return TlsStream(wrapped, peer, pinned_pem)


def establish(stream: Stream, deadline: float, clock: Clock = time.monotonic) -> None:
    """Finish the TLS handshake of a fresh stream; any other stream is ready at once.

    Raises `AuthenticationFailed`, `LinkLost` or `DeadlineExceededError`.
    """
    if isinstance(stream, TlsStream):
        stream.establish(deadline, clock)


def open_socket(family: int, dead_after_s: float) -> Socket:
    """Return a socket; a TCP one notices a dead peer after `dead_after_s`.

    What is accepted from a listening socket inherits all of these options.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    if family == UNIX:
        return sock
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        *((socket.TCP_NODELAY, 1), (socket.TCP_KEEPIDLE, 2)),
        *((socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3)),
        (socket.TCP_USER_TIMEOUT, int(dead_after_s * 1000)),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def peer_uid(sock: Socket) -> int:
    """Return the user id of the process at the other end of a unix socket."""
    record = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", record)[1])  # pid, uid, gid (unix(7))


def resolve(
    address: TcpAddress, deadline: float, clock: Clock = time.monotonic
) -> list[tuple[int, Any]]:
    """Return the (family, socket address) pairs behind a host, numbers without a wait.

    A name is looked up in a thread of its own, since the system's resolver knows no
    deadline. Raises `UnavailableError` when none was found in time.
    """
    found: list[tuple[int, Any]] = []

    def look_up(flags: int) -> None:
        with suppress(OSError, UnicodeError):
            for family, _, _, _, where in socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=flags
            ):
                found.append((family, where))

    look_up(socket.AI_NUMERICHOST)
    if not found:
        thread = threading.Thread(None, look_up, "kit-resolver", (0,), daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - clock()))
    if not found:
        raise UnavailableError(
            f"the host of {address} has no known address; check its spelling and this "
            f"machine's name service."
        )
    return list(found)
