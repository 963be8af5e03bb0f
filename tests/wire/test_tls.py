"""TLS between two machines: who is let in, and what can be read on the way."""

from __future__ import annotations

import gc
import select
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.errors import (
    AuthenticationFailed,
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
    LinkLost,
)
from kit.wire import Credentials, Listener, Stream, dial
from kit.wire.handshake.tls import establish, make_stream, tls_context
from kit.wire.listening.address import Address, TcpAddress
from kit.wire.sockets import Socket
from kit.wire.stream import read_some, write_all
from tests.wire.conftest import accept, listening, soon

LOOPBACK = TcpAddress("127.0.0.1", 0)


def tls_meeting(
    server: Credentials | None, client: Credentials | None
) -> list[KitError]:
    """Let two sides meet, and return what each of them raised by its first read."""
    errors: list[KitError] = []

    def act(stream: Stream) -> None:
        establish(stream, soon())
        write_all(stream, [b"x" * 64], soon())
        if read_some(stream, memoryview(bytearray(64)), soon()) == 0:
            raise LinkLost("the other side went away")

    def come(address: Address) -> None:
        stream = None
        try:
            stream = dial(address, soon(), credentials=client)
            act(stream)
        except KitError as exc:
            errors.append(exc)
        finally:
            if stream is not None:
                stream.close()

    with listening(LOOPBACK, server) as listener, ThreadPoolExecutor(1) as pool:
        coming = pool.submit(come, listener.address)
        stream = accept(listener)
        try:
            act(stream)
        except KitError as exc:
            errors.append(exc)
        finally:
            stream.close()
        coming.result(timeout=10)
    return errors


def test_two_holders_of_the_certificate_meet(credentials: Credentials) -> None:
    assert tls_meeting(credentials, credentials) == []


@pytest.mark.parametrize("years", [(2001, 2002), (2200, 2201)])
def test_holders_of_the_certificate_meet_whatever_their_clock_says(
    years: tuple[int, int],
) -> None:
    dated = dated_certificate(*years)
    certificate = x509.load_pem_x509_certificate(dated.certificate_pem)
    now = datetime.now(UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    assert not begin < now < end

    assert tls_meeting(dated, dated) == []


def test_a_stranger_is_refused_whatever_the_clock_says() -> None:
    errors = tls_meeting(dated_certificate(2001, 2002), dated_certificate(2001, 2002))

    assert any(isinstance(error, AuthenticationFailed) for error in errors)


def dated_certificate(begin: int, end: int) -> Credentials:
    """Return credentials as in a file of an older version, valid between two years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "psring")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(begin, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(end, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("psring")]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return replace(
        Credentials.new(certificate=False),
        certificate_pem=certificate.public_bytes(encoding),
        private_key_pem=key.private_bytes(
            encoding,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def test_another_cluster_s_certificate_is_refused_on_both_sides(
    credentials: Credentials,
) -> None:
    errors = tls_meeting(credentials, Credentials.new())

    assert len(errors) == 2
    assert any(isinstance(error, AuthenticationFailed) for error in errors)
    assert all(isinstance(e, AuthenticationFailed | LinkLost) for e in errors)


def test_one_side_without_tls_is_refused(credentials: Credentials) -> None:
    errors = tls_meeting(credentials, None)

    assert any(isinstance(error, AuthenticationFailed) for error in errors)
    assert "does not encrypt" in "".join(map(str, errors))


def test_a_client_without_certificate_is_refused(credentials: Credentials) -> None:
    """It knows the certificate, which is public, and not its private key."""
    context = tls_context(credentials, server=False)
    bare = type(context)(context.protocol)
    bare.load_verify_locations(cadata=credentials.certificate_pem.decode())
    refused: list[KitError] = []

    def take(listener: Listener) -> None:
        stream = accept(listener)
        try:
            establish(stream, soon())
        except KitError as exc:
            refused.append(exc)
        finally:
            stream.close()

    with listening(LOOPBACK, credentials) as listener, ThreadPoolExecutor(1) as pool:
        taking = pool.submit(take, listener)
        port = listener.address.port  # type: ignore[union-attr]
        plain = socket.create_connection(("127.0.0.1", port), timeout=5)
        with bare.wrap_socket(plain, server_hostname="psring") as wrapped:
            with pytest.raises(OSError, match=r"(?i)certificate|reset|broken"):
                wrapped.recv(1)
            taking.result(timeout=10)

    assert [type(error) for error in refused] == [AuthenticationFailed]


def test_tls_is_version_1_3_and_the_pinned_one(credentials: Credentials) -> None:
    for server in (True, False):
        context = tls_context(credentials, server=server)
        assert context.minimum_version.name == "TLSv1_3"
        assert context.verify_mode.name == "CERT_REQUIRED"
        assert len(context.get_ca_certs()) <= 1

    with pytest.raises(FailedPreconditionError, match="no certificate"):
        tls_context(Credentials.new(certificate=False), server=True)


def test_a_silent_tls_peer_is_waited_for_until_the_deadline(
    credentials: Credentials,
) -> None:
    with listening(LOOPBACK, credentials) as listener:
        port = listener.address.port  # type: ignore[union-attr]
        with socket.create_connection(("127.0.0.1", port)):
            stream = accept(listener)
            with pytest.raises(DeadlineExceededError):
                establish(stream, soon(0.02))
            stream.close()


def test_a_connection_that_was_reset_before_tls_leaves_no_socket_open(
    credentials: Credentials, recwarn: pytest.WarningsRecorder
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here = Socket(fileno=server.accept()[0].detach())
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    there.close()  # with a reset, as by the end of a process
    here.setblocking(False)
    poll = select.poll()
    poll.register(here, select.POLLHUP)
    assert poll.poll(10_000)

    with pytest.raises(OSError, match=r"connected|reset"):
        make_stream(here, "tls", "worker:0", tls_context(credentials, server=True))
    gc.collect()

    assert [warning for warning in recwarn if warning.category is ResourceWarning] == []
