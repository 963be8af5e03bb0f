"""The only file that knows TLS: its stream, and which stream a connection becomes.

    tls    TLS 1.3, both sides show the cluster's one certificate, and no other is taken

It opens nothing by itself: `listener.py` and `dialer.py` do, with the pieces from here.
"""

from __future__ import annotations

import os
import select
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Final

from kit.errors import (
    AuthenticationFailed,
    FailedPreconditionError,
    KitError,
    ProtocolError,
)
from kit.system import path_of
from kit.wire.frame import Buffer
from kit.wire.handshake.credentials import CERTIFICATE_NAME, Credentials
from kit.wire.sockets import Socket, SocketStream, suit_to_loopback
from kit.wire.stream import Clock, Stream, front, wait_ready

TlsContext = ssl.SSLContext

# X509_V_FLAG_NO_CHECK_TIME of OpenSSL's x509_vfy.h, which `ssl` does not name.
_NO_CHECK_TIME: Final = 0x200000
_RECORD: Final = 16_384  # the most that one TLS record carries


class TlsStream(SocketStream):
    """A TLS 1.3 connection; `establish` must have returned before it is used."""

    _socket: ssl.SSLSocket

    def __init__(self, sock: ssl.SSLSocket, peer: str, pinned_pem: bytes) -> None:
        super().__init__(sock, "tls", peer)
        sock.setblocking(False)
        self._pinned = ssl.PEM_cert_to_DER_cert(pinned_pem.decode())
        # The size of a record that OpenSSL could not send. It must be offered the same
        # bytes again (SSL_write(3)), so the next write takes as many, no more or fewer.
        self._sealed = 0
        self._heard = False
        # OpenSSL's object takes one caller at a time, while a link's two directions may
        # belong to two threads. No call under the lock blocks.
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
        # Equal, not merely signed by it: nobody else's certificate will do.
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

    read_waiting = read_into  # OpenSSL may have to write before it can read

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

    write_waiting = write

    def taken_back(self, kind: str) -> SocketStream:
        """Return a stream of bare bytes over the same socket; this one is closed.

        The other end must have been told to do the same: `handshake/keys.py`.
        """
        with self._lock:
            if self._socket.pending():
                raise ProtocolError(
                    f"{self.peer} sent {self._socket.pending()} bytes more under TLS "
                    f"than were due; install the same psring on both sides."
                )
            return SocketStream(Socket(fileno=self._socket.detach()), kind, self.peer)

    def _broken(self, exc: Exception) -> KitError:
        # Under TLS 1.3 a client has finished its handshake before the server has seen
        # its certificate: a refusal arrives only with the first read.
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
    # Only the one pinned certificate is accepted, so its dates mean nothing. A wrong
    # clock, or credentials in a file of an older version, must not end a cluster.
    context.verify_flags |= _NO_CHECK_TIME
    context.load_verify_locations(cadata=credentials.certificate_pem.decode())
    if server:
        context.num_tickets = 0  # no connection is ever resumed
    # OpenSSL reads a key from a path only. This one leads, on Linux, to memory that no
    # other user can open, so the key is never written to a disk.
    with path_of("certificate") as (fd, path):
        os.write(fd, credentials.certificate_pem + credentials.private_key_pem)
        context.load_cert_chain(path)
    return context


def make_stream(
    sock: Socket,
    kind: str,
    peer: str,
    context: TlsContext | None = None,
    pinned_pem: bytes = b"",
) -> SocketStream:
    """Return the stream over a connected socket, with TLS if a context is given.

    Raises `OSError`, with the socket closed, when the connection is gone already.
    """
    if kind == "tcp":
        suit_to_loopback(sock)
    if context is None:
        return SocketStream(sock, kind, peer)
    sock.setblocking(False)
    is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    try:
        sock.getpeername()  # raises; `wrap_socket` would leave a socket of its own open
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
