"""One conformance suite for every stream: memory, sliced, unix, TCP, TLS, records."""

from __future__ import annotations

import random
import select
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from kit.errors import DeadlineExceededError, LinkLost
from kit.wire import Stream
from kit.wire.frame import Buffer
from kit.wire.stream import front, read_some, wait_ready, write_all
from tests.cases import for_each
from tests.wire.conftest import soon

Streams = tuple[Stream, Stream]


def received(stream: Stream, n_bytes: int) -> bytes:
    result = bytearray()
    room = memoryview(bytearray(n_bytes))
    while len(result) < n_bytes:
        came = read_some(stream, room[len(result) :], soon())
        assert came, f"the stream ended after {len(result)} bytes"
        result += room[len(result) : len(result) + came]
    return bytes(result)


def write_for_ever(stream: Stream, data: bytes) -> None:
    while True:
        write_all(stream, [data], soon())


def size_for(stream: Stream, many: int) -> int:
    """A sliced stream takes a call for each byte."""
    return 2_000 if type(stream).__name__ == "_Sliced" else many


def test_several_hundred_buffers_of_all_kinds_arrive_in_order(streams: Streams) -> None:
    left, right = streams
    parts: list[Buffer] = [b"one ", bytearray(b"two "), b"", memoryview(b"three")]

    write_all(left, parts * 100, soon())

    assert received(right, 1300) == b"one two three" * 100


def test_nothing_to_write_takes_no_write(streams: Streams) -> None:
    write_all(streams[0], [b"", b""], deadline=0.0)

    with pytest.raises(DeadlineExceededError):
        read_some(streams[1], memoryview(bytearray(1)), deadline=0.0)


def test_an_empty_stream_asks_to_wait(streams: Streams) -> None:
    assert streams[0].read_into(memoryview(bytearray(8))) is None


def test_large_payloads_cross_both_ways_at_once(streams: Streams) -> None:
    n_bytes = size_for(streams[0], 3_000_017)
    payloads = [random.Random(seed).randbytes(n_bytes) for seed in (1, 2)]

    with ThreadPoolExecutor(4) as pool:
        for stream, payload in zip(streams, payloads, strict=True):
            pool.submit(write_all, stream, [payload[:9], payload[9:]], soon())
        came = [pool.submit(received, stream, n_bytes) for stream in streams]

    assert [future.result() for future in came] == payloads[::-1]


def test_the_end_comes_after_the_last_byte(streams: Streams) -> None:
    left, right = streams
    write_all(left, [b"last"], soon())
    left.close()

    assert received(right, 4) == b"last"
    assert read_some(right, memoryview(bytearray(1)), soon()) == 0
    assert read_some(right, memoryview(bytearray(1)), soon()) == 0


def test_a_silent_peer_is_waited_for_until_the_deadline(streams: Streams) -> None:
    ticks = iter([0.0, 0.004, 1.0])

    with pytest.raises(DeadlineExceededError, match="did not send in time"):
        read_some(
            streams[0], memoryview(bytearray(1)), deadline=0.005, clock=ticks.__next__
        )


def test_writing_to_a_closed_peer_ends_in_link_lost(streams: Streams) -> None:
    left, right = streams
    right.close()

    with pytest.raises(LinkLost):
        write_for_ever(left, b"x" * size_for(left, 100_000))


@pytest.mark.parametrize("streams", ["unix", "tcp", "tls", "aes-gcm"], indirect=True)
def test_a_peer_that_does_not_read_stops_the_writer(streams: Streams) -> None:
    left, _right = streams

    with pytest.raises(DeadlineExceededError, match="did not read in time"):
        write_all(left, [bytes(64 * 2**20)], monotonic() + 0.05)


def test_a_write_takes_only_part_of_what_is_too_much(streams: Streams) -> None:
    taken = streams[0].write([bytes(64 * 2**20)])

    assert taken is not None
    assert 0 < taken < 64 * 2**20


def test_shutdown_wakes_a_waiting_reader_at_both_ends(streams: Streams) -> None:
    ends: list[int] = []
    started = threading.Barrier(3)

    def wait(stream: Stream) -> None:
        started.wait()
        ends.append(read_some(stream, memoryview(bytearray(1)), soon()))

    threads = [threading.Thread(target=wait, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    started.wait()
    streams[0].shutdown()
    for thread in threads:
        thread.join(5)

    assert ends == [0, 0]


def test_what_is_closed_has_no_descriptor_and_says_so(streams: Streams) -> None:
    for stream in streams:
        stream.close()
        stream.close()
        stream.shutdown()

    assert [stream.fileno() for stream in streams] == [-1, -1]
    with pytest.raises(LinkLost):
        streams[0].read_into(memoryview(bytearray(1)))
    with pytest.raises(LinkLost):
        streams[0].write([b"x"])


def test_a_stream_with_bytes_is_ready_at_once(streams: Streams) -> None:
    write_all(streams[0], [b"x"], soon())

    wait_ready(streams[1], select.POLLIN, soon())

    assert received(streams[1], 1) == b"x"


def test_a_stream_names_its_kind_and_its_peer(streams: Streams) -> None:
    for stream in streams:
        assert stream.kind in {"memory", "unix", "tcp", "tls", "aes-gcm"}
        assert stream.peer


@for_each("n_bytes", range(9))
def test_the_front_of_buffers_is_that_of_their_sum(n_bytes: int) -> None:
    parts: list[Buffer] = [b"ab", b"", bytearray(b"cde"), memoryview(b"fg")]

    assert front(parts, n_bytes) == b"abcdefg"[:n_bytes]
