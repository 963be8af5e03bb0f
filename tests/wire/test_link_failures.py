"""What ends a link: damaged, missing and oversized frames, silence, interrupts."""

from __future__ import annotations

import struct
import threading
import time
import tracemalloc
from contextlib import closing

import pytest

from kit.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    ProtocolError,
)
from kit.wire import FrameKind, Header, Link, Role
from kit.wire.frame import pack
from kit.wire.stream import write_all
from tests.wire.half_link import BOUNDS, HalfLink, frame

Links = tuple[Link, Link]


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
    write_all(client.stream, [b"garbage".ljust(65)], time.monotonic() + 5)
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


def test_a_busy_direction_is_waited_for_until_the_deadline(control: HalfLink) -> None:
    with (
        control.link._sending,
        pytest.raises(DeadlineExceededError, match="another thread was sending"),
    ):
        control.link.send(b"x", deadline_s=0.0)


@pytest.mark.parametrize("sequence", [0, 2, 2**40])
def test_a_frame_sent_again_or_left_out_ends_the_link(
    control: HalfLink, sequence: int
) -> None:
    control.put(frame(0), frame(sequence), frame(1))
    control.link.recv(deadline_s=5)

    with pytest.raises(ProtocolError, match=f"frame {sequence} came where 1 was due"):
        control.link.recv(deadline_s=5)
    with pytest.raises(LinkLost, match="was due"):
        control.link.recv(deadline_s=5)


def test_a_damaged_payload_is_never_handed_out(control: HalfLink) -> None:
    damaged = bytearray(frame(0, b"gradient"))
    damaged[-1] ^= 1
    control.put(bytes(damaged))

    with pytest.raises(ProtocolError, match=r"worker:1.*frame 0 is damaged"):
        control.link.recv(deadline_s=5)


def test_a_frame_cut_short_names_the_peer() -> None:
    for n_bytes in range(1, 72):
        with closing(HalfLink()) as half:
            half.put(frame(0, b"gradient")[:n_bytes])
            half.near.close()

            with pytest.raises(LinkLost, match=r"worker:1.*of \d+ bytes"):
                half.link.recv(deadline_s=5)


def test_an_oversized_frame_takes_no_memory(control: HalfLink) -> None:
    bomb = bytearray(frame(0))
    struct.pack_into("<I", bomb, 48, 2**32 - 1)
    control.put(bytes(bomb))

    tracemalloc.start()
    with pytest.raises(ProtocolError, match="'length' is 4294967295"):
        control.link.recv(deadline_s=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 256 * 1024


def test_too_large_a_payload_is_refused_before_it_is_sent(control: HalfLink) -> None:
    most = BOUNDS.max_length

    with pytest.raises(InvalidArgumentError, match=f"{most} bytes, not {most + 1}"):
        control.link.send(bytes(most + 1), deadline_s=5)
    control.link.send(bytes(most), deadline_s=5)
    assert control.near.read_into(memoryview(bytearray(2 * most))) == most + 64


def test_another_kind_of_frame_is_no_message(control: HalfLink) -> None:
    control.put(pack(Header(FrameKind.ABORT, cluster=7)))

    with pytest.raises(ProtocolError, match="kind ABORT"):
        control.link.recv_message(deadline_s=5)


@pytest.mark.slow
def test_an_interrupt_in_the_middle_ends_the_link() -> None:
    ticks = iter([0.0, 0.0, 0.0])

    def clock() -> float:
        for tick in ticks:
            return tick
        raise KeyboardInterrupt

    with closing(HalfLink(Role.DATA, clock=clock)) as half:
        half.put(frame(0)[:10])
        with pytest.raises(KeyboardInterrupt):
            half.link.recv(deadline_s=5)
        assert repr(half.link).endswith("lost>")


def test_a_link_tells_when_it_last_heard(control: HalfLink) -> None:
    before = control.link.heard_at
    control.put(frame(0))

    control.link.recv(deadline_s=5)

    assert before < control.link.heard_at <= time.monotonic()
