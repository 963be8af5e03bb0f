"""What ends a link: damaged, missing and oversized frames, silence, interrupts."""

from __future__ import annotations

import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from kit.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    ProtocolError,
)
from kit.task import Task
from kit.testing.streams import memory_pair
from kit.wire import Bounds, FrameKind, Header, Link, Role, Stream
from kit.wire.frame import CHECKSUM, pack
from kit.wire.stream import write_all

Links = tuple[Link, Link]
WORKER, PS = Task("worker", 1), Task("ps", 0)
BOUNDS = Bounds(cluster=7, max_length=1000)


def good(sequence: int, payload: bytes = b"") -> bytes:
    header = Header(
        FrameKind.CONTROL,
        flags=CHECKSUM,
        cluster=7,
        sequence=sequence,
        length=len(payload),
    )
    return pack(header, payload) + payload


@pytest.fixture
def raw() -> Iterator[tuple[Stream, Link]]:
    """Give the bare end of a stream, and the link at the other end."""
    near, far = memory_pair(("worker", "ps"))
    link = Link(far, local=PS, peer=WORKER, role=Role.CONTROL, bounds=BOUNDS)
    yield near, link
    link.close()
    near.close()


def put(stream: Stream, *data: bytes) -> None:
    write_all(stream, data, time.monotonic() + 5)


def test_a_failing_reader_fails_the_writers_too(unix_links: Links) -> None:
    """One direction breaks while a thread is stuck in the other one."""
    client, server = unix_links
    stuck: list[KitError] = []
    started = threading.Event()

    def write() -> None:
        started.set()
        try:
            while True:
                server.send(bytes(100_000), deadline_s=20)
        except KitError as exc:
            stuck.append(exc)

    thread = threading.Thread(target=write)
    thread.start()
    started.wait()
    put(
        client.stream,
        b"garbage, as long as one header has to be for it to be read.....",
    )
    put(client.stream, b"..")
    with pytest.raises(ProtocolError, match="magic"):
        server.recv(deadline_s=5)
    thread.join(5)

    assert len(stuck) == 1
    assert isinstance(stuck[0], LinkLost)


def test_a_peer_that_does_not_read_loses_the_link(unix_links: Links) -> None:
    client, _server = unix_links

    with pytest.raises(DeadlineExceededError, match="ps:0"):
        client.send(bytes(8 * 2**20), deadline_s=0.05)
    with pytest.raises(LinkLost, match="did not read in time"):
        client.send(b"more", deadline_s=5)


def test_a_busy_direction_is_waited_for_until_the_deadline(raw_link: Link) -> None:
    with (
        raw_link._sending,
        pytest.raises(DeadlineExceededError, match="another thread was sending"),
    ):
        raw_link.send(b"x", deadline_s=0.0)


@pytest.fixture
def raw_link(raw: tuple[Stream, Link]) -> Link:
    return raw[1]


@pytest.mark.parametrize("sequence", [0, 2, 2**40])
def test_a_frame_sent_again_or_left_out_ends_the_link(
    raw: tuple[Stream, Link], sequence: int
) -> None:
    stream, link = raw
    put(stream, good(0), good(sequence), good(1))
    link.recv(deadline_s=5)

    with pytest.raises(ProtocolError, match=f"frame {sequence} came where 1 was due"):
        link.recv(deadline_s=5)
    with pytest.raises(LinkLost, match="was due"):
        link.recv(deadline_s=5)


def test_a_damaged_payload_is_never_handed_out(raw: tuple[Stream, Link]) -> None:
    stream, link = raw
    frame = bytearray(good(0, b"gradient"))
    frame[-1] ^= 1
    put(stream, bytes(frame))

    with pytest.raises(ProtocolError, match=r"worker:1.*frame 0 is damaged"):
        link.recv(deadline_s=5)


@pytest.mark.parametrize("n_bytes", range(1, 72))
def test_a_frame_cut_short_names_the_peer(
    raw: tuple[Stream, Link], n_bytes: int
) -> None:
    stream, link = raw
    put(stream, good(0, b"gradient")[:n_bytes])
    stream.close()

    with pytest.raises(LinkLost, match=r"worker:1.*of \d+ bytes"):
        link.recv(deadline_s=5)


def test_a_peer_that_stops_within_a_frame_loses_the_link(
    raw: tuple[Stream, Link],
) -> None:
    stream, link = raw
    put(stream, good(0, b"gradient")[:70])

    with pytest.raises(DeadlineExceededError, match="receiving failed"):
        link.recv(deadline_s=0.02)
    with pytest.raises(LinkLost):
        link.recv(deadline_s=5)


def test_an_oversized_frame_takes_no_memory(raw: tuple[Stream, Link]) -> None:
    stream, link = raw
    bomb = bytearray(good(0))
    struct.pack_into("<I", bomb, 48, 2**32 - 1)
    put(stream, bytes(bomb))

    tracemalloc.start()
    with pytest.raises(ProtocolError, match="'length' is 4294967295"):
        link.recv(deadline_s=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 256 * 1024


def test_too_large_a_payload_is_refused_before_it_is_sent(
    raw: tuple[Stream, Link],
) -> None:
    stream, link = raw

    with pytest.raises(InvalidArgumentError, match="1000 bytes, not 1001"):
        link.send(bytes(1001), deadline_s=5)
    link.send(bytes(1000), deadline_s=5)
    assert stream.read_into(memoryview(bytearray(2000))) == 1064


def test_another_kind_of_frame_is_no_message(raw: tuple[Stream, Link]) -> None:
    stream, link = raw
    put(stream, pack(Header(FrameKind.ABORT, cluster=7)))

    with pytest.raises(ProtocolError, match="kind ABORT"):
        link.recv_message(deadline_s=5)


@pytest.mark.slow
def test_an_interrupt_in_the_middle_ends_the_link() -> None:
    near, far = memory_pair()
    ticks = iter([0.0, 0.0, 0.0])

    def clock() -> float:
        for tick in ticks:
            return tick
        raise KeyboardInterrupt

    link = Link(far, local=PS, peer=WORKER, role=Role.DATA, bounds=BOUNDS, clock=clock)
    put(near, good(0)[:10])
    with pytest.raises(KeyboardInterrupt):
        link.recv(deadline_s=5)
    assert repr(link).endswith("lost>")
    link.close()
    near.close()


def test_a_link_tells_when_it_last_heard(raw: tuple[Stream, Link]) -> None:
    stream, link = raw
    before = link.heard_at
    put(stream, good(0))

    link.recv(deadline_s=5)

    assert before < link.heard_at <= time.monotonic()
