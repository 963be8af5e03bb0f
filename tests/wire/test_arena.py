from __future__ import annotations

import fcntl
import gc
import mmap
import os
import tempfile

import numpy as np
import pytest

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotEnoughMemory,
    ProtocolError,
)
from kit.wire import Arena
from tests.wire.conftest import n_open


def test_a_neighbour_sees_what_the_owner_writes_and_may_be_allowed_to_write() -> None:
    owner = Arena.create("test", 10_000)
    reader = Arena.attach(os.dup(owner.fd), 10_000)
    writer = Arena.attach(os.dup(owner.fd), 10_000, writable=True)
    owner.view(100, 5)[:] = b"hello"
    writer.view(0, 2)[:] = b"ok"

    assert (bytes(reader.view(100, 5)), bytes(owner.view(0, 2))) == (b"hello", b"ok")
    assert reader.view().readonly
    assert not owner.view().readonly
    for arena in (owner, reader, writer):
        arena.close()


@pytest.mark.slow
def test_an_array_outlives_the_arena_it_lies_in() -> None:
    gc.collect()  # or what others have left is counted
    before = n_open()
    arena = Arena.create("test", 80)
    array = np.frombuffer(arena.view(), dtype=np.float64)

    arena.close()
    arena.close()
    array[:] = 3.0

    assert array.sum() == 30.0
    del array, arena
    gc.collect()
    assert n_open() == before


def test_a_closed_arena_hands_nothing_out() -> None:
    arena = Arena.create("test", 10)
    arena.close()

    assert arena.fd == -1
    with pytest.raises(FailedPreconditionError, match="closed"):
        arena.view()


@pytest.mark.parametrize(("offset", "size"), [(0, 11), (11, 0), (-1, 1), (5, -1)])
def test_a_view_beyond_the_arena_is_refused(offset: int, size: int) -> None:
    arena = Arena.create("test", 10)

    with pytest.raises(InvalidArgumentError, match="arena of 10"):
        arena.view(offset, size)
    arena.close()


def test_the_size_can_never_change() -> None:
    arena = Arena.create("test", 8192)

    for size in (0, 4096, 16_384):
        with pytest.raises(PermissionError):
            os.ftruncate(arena.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(arena.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert fcntl.fcntl(arena.fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    arena.close()


def unsealed(size: int) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    return fd


def ordinary_file(size: int) -> int:
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return os.dup(file.fileno())


def sealed(size: int) -> int:
    arena = Arena.create("test", size)
    fd = os.dup(arena.fd)
    arena.close()
    return fd


@pytest.mark.parametrize(
    ("fd_of", "size", "problem"),
    [
        (unsealed, 4096, "not fixed"),
        (ordinary_file, 4096, "file or device"),
        (sealed, 4095, "it has 4095"),
        (sealed, 4097, "it has 4097"),
        (lambda _: os.open("/dev/zero", os.O_RDWR), 4096, "it has 0"),
    ],
)
def test_what_is_no_arena_of_that_size_is_refused_and_closed(
    fd_of: object, size: int, problem: str
) -> None:
    assert callable(fd_of)
    before = n_open()

    with pytest.raises(ProtocolError, match=problem):
        Arena.attach(fd_of(size), 4096)

    assert n_open() == before


@pytest.mark.parametrize("size", [2**62, 2**70])
def test_memory_that_is_not_there_is_a_clear_error(size: int) -> None:
    before = n_open()

    with pytest.raises(NotEnoughMemory, match="'big'"):
        Arena.create("big", size)

    assert n_open() == before


@pytest.mark.parametrize("size", [0, -1])
def test_an_arena_has_at_least_a_byte(size: int) -> None:
    with pytest.raises(InvalidArgumentError):
        Arena.create("test", size)


def test_nothing_appears_in_a_file_system() -> None:
    arena = Arena.create("test-name", mmap.PAGESIZE)

    assert "test-name" not in " ".join(os.listdir("/dev/shm"))  # noqa: PTH208
    assert "memfd:kit-test-name" in os.readlink(  # noqa: PTH115
        f"/proc/self/fd/{arena.fd}"
    )
    arena.close()
