from __future__ import annotations

import array
import fcntl
import os
import socket
import time

import pytest

from kit.errors import DeadlineExceededError, InvalidArgumentError, ProtocolError
from kit.testing.streams import memory_pair
from kit.wire import Stream, recv_fds, send_fds
from kit.wire.sockets import SocketStream
from tests.wire.conftest import n_open, soon

Streams = tuple[Stream, Stream]


@pytest.fixture
def files() -> list[int]:
    return [os.memfd_create(f"f{number}") for number in range(3)]


def test_a_descriptor_arrives_as_the_same_file(
    unix_streams: Streams, files: list[int]
) -> None:
    left, right = unix_streams

    send_fds(left, files, soon())
    came = recv_fds(right, 3, soon())

    for mine, theirs in zip(files, came, strict=True):
        assert os.path.samestat(os.fstat(mine), os.fstat(theirs))
        assert fcntl.fcntl(theirs, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        os.close(mine)
        os.close(theirs)


@pytest.mark.parametrize("expected", [1, 2, 4])
def test_another_number_of_descriptors_leaves_none_open(
    unix_streams: Streams, files: list[int], expected: int
) -> None:
    left, right = unix_streams
    send_fds(left, files, soon())
    before = n_open()

    with pytest.raises(ProtocolError, match=f"where {expected} were expected"):
        recv_fds(right, expected, soon())

    assert n_open() == before
    for fd in files:
        os.close(fd)


def test_a_byte_without_descriptors_is_refused(unix_streams: Streams) -> None:
    left, right = unix_streams
    left.write([b"\x01"])

    with pytest.raises(ProtocolError, match="sent 0 descriptors"):
        recv_fds(right, 1, soon())


def test_a_lie_about_the_number_is_refused_and_closed() -> None:
    near, far = socket.socketpair()
    stream = SocketStream(far, "unix", "liar")
    before = n_open()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))
    near.sendmsg([b"\x03"], [rights])

    with pytest.raises(ProtocolError, match="liar sent 2"):
        recv_fds(stream, 2, soon())

    assert n_open() == before
    near.close()
    stream.close()


def test_waiting_for_descriptors_has_a_deadline(unix_streams: Streams) -> None:
    with pytest.raises(DeadlineExceededError):
        recv_fds(unix_streams[0], 1, time.monotonic())


def test_only_unix_carries_descriptors_and_only_some() -> None:
    left, right = memory_pair()

    with pytest.raises(InvalidArgumentError, match="over a unix stream"):
        send_fds(left, [0], soon())
    for stream in (left, right):
        stream.close()


@pytest.mark.parametrize("n_fds", [0, 65])
def test_no_and_too_many_descriptors_are_refused(
    unix_streams: Streams, n_fds: int
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{n_fds} descriptors"):
        send_fds(unix_streams[0], [0] * n_fds, soon())
