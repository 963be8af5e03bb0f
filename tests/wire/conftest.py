"""Pairs of streams and links of every kind, for the conformance suites."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kit.testing.streams import memory_pair, sliced
from kit.testing.task_process import until
from kit.wire import Credentials, Hello, Link, Listener, Role, Stream
from kit.wire.handshake.handshake import ClientHandshake
from kit.wire.handshake.keys import ready
from kit.wire.handshake.opening import link_bounds, perform, welcome
from kit.wire.handshake.tls import establish
from kit.wire.listening.address import Address, TcpAddress, UnixAddress
from kit.wire.listening.dialer import dial
from kit.wire.listening.listener import listen
from kit.wire.sockets import SocketStream
from kit.wire.stream import AES_GCM
from tests.wire.half_link import PS, WORKER, HalfLink

Streams = tuple[Stream, Stream]
KINDS = ("memory", "sliced", "unix", "tcp", "tls", "aes-gcm")


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


@contextmanager
def listening(
    address: Address, credentials: Credentials | None = None, insecure: bool = False
) -> Iterator[Listener]:
    listener = listen(address, credentials=credentials, insecure=insecure)
    try:
        yield listener
    finally:
        listener.close()


def accept(listener: Listener) -> SocketStream:
    return until(listener.accept)


def n_open() -> int:
    """Return how many descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def open_streams(kind: str, folder: Path, credentials: Credentials) -> Streams:
    """Return (dialled, accepted) streams, both established."""
    if kind in ("memory", "sliced"):
        left, right = memory_pair()
        return (sliced(left), sliced(right)) if kind == "sliced" else (left, right)
    is_unix = kind == "unix"
    address: Address = TcpAddress("127.0.0.1", 0)
    if is_unix:
        address = UnixAddress(str(folder / "s"))
    plain = kind == "tcp"
    with (
        listening(address, credentials, plain) as listener,
        ThreadPoolExecutor(1) as pool,
    ):
        dialling = pool.submit(
            dial, listener.address, soon(), credentials=credentials, insecure=plain
        )
        accepted = accept(listener)
        establish(accepted, soon())
        dialled = dialling.result(timeout=10)
    return (
        records(dialled, accepted, credentials)
        if kind == AES_GCM
        else (dialled, accepted)
    )


def records(dialled: Stream, accepted: Stream, credentials: Credentials) -> Streams:
    """Return what data links go on with over two TLS streams."""

    def end(stream: Stream, *, is_client: bool) -> Stream:
        return ready(
            *(stream, Role.DATA, credentials.key),
            encryption=AES_GCM,
            is_client=is_client,
            deadline=soon(),
        )

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(end, accepted, is_client=False)
        return end(dialled, is_client=True), other.result(timeout=10)


@pytest.fixture(scope="session")
def credentials() -> Credentials:
    """Return one cluster's credentials; with the only certificate of the session."""
    return Credentials.new()


@pytest.fixture(scope="session")
def plain(credentials: Credentials) -> Credentials:
    """Return the same credentials without the certificate."""
    return Credentials(credentials.cluster_id, credentials.key)


@pytest.fixture(params=KINDS)
def streams(
    request: pytest.FixtureRequest, tmp_path: Path, credentials: Credentials
) -> Iterator[Streams]:
    pair = open_streams(request.param, tmp_path, credentials)
    yield pair
    for stream in pair:
        stream.close()


@pytest.fixture
def unix_streams(tmp_path: Path, credentials: Credentials) -> Iterator[Streams]:
    pair = open_streams("unix", tmp_path, credentials)
    yield pair
    for stream in pair:
        stream.close()


def open_links(pair: Streams, credentials: Credentials) -> tuple[Link, Link]:
    """Return the links over two connected streams: the worker's and the ps's."""
    with ThreadPoolExecutor(1) as pool:
        welcoming = pool.submit(welcome, pair[1], PS, credentials)
        hello = Hello(Role.CONTROL, WORKER, 3, b"r" * 16)
        handshake = ClientHandshake(
            hello,
            key=credentials.key,
            cluster_id=credentials.cluster_id,
            nonce=b"n" * 32,
        )
        perform(handshake, pair[0], soon())
        client = Link(
            pair[0],
            local=WORKER,
            peer=handshake.peer,
            role=hello.role,
            bounds=link_bounds(credentials),
        )
        return client, welcoming.result(timeout=10)


@pytest.fixture
def links(streams: Streams, credentials: Credentials) -> Iterator[tuple[Link, Link]]:
    pair = open_links(streams, credentials)
    yield pair
    for link in pair:
        link.close()


@pytest.fixture
def unix_links(
    unix_streams: Streams, credentials: Credentials
) -> Iterator[tuple[Link, Link]]:
    pair = open_links(unix_streams, credentials)
    yield pair
    for link in pair:
        link.close()


@pytest.fixture
def control() -> Iterator[HalfLink]:
    """Give a link for questions whose other end is bytes."""
    with closing(HalfLink()) as half:
        yield half
