"""Reading ahead: how many reads, how far, and what a cut in any place does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from kit.errors import DeadlineExceededError, LinkLost
from kit.wire import Link, Role, Stream, frame_reader
from kit.wire.frame import SIZE
from kit.wire.stream import PATIENCE_S, PatientStream, read_some, write_all
from tests.wire.half_link import HalfLink, frame

Links = tuple[Link, Link]


@pytest.fixture
def data() -> Iterator[HalfLink]:
    with closing(HalfLink(Role.DATA)) as end:
        yield end


def test_frames_that_came_together_take_one_read(control: HalfLink) -> None:
    control.put(b"".join(frame(n, bytes([n]) * n) for n in range(20)))

    came = [control.link.recv(deadline_s=5)[1] for _ in range(20)]

    assert came == [bytes([n]) * n for n in range(20)]
    assert len(control.stream.calls) == 1


def test_data_link_takes_no_byte_of_what_follows_its_frame(data: HalfLink) -> None:
    data.put(frame(0, b"begin") + b"raw bytes")

    assert data.link.recv(deadline_s=5)[1] == b"begin"
    room = bytearray(20)
    n_bytes = read_some(data.link.stream, memoryview(room), time.monotonic() + 5)
    assert room[:n_bytes] == b"raw bytes"


@pytest.mark.parametrize("cut", [1, SIZE - 1, SIZE, SIZE + 2, SIZE + 3, 2 * SIZE + 5])
def test_frames_cut_anywhere_are_put_together(control: HalfLink, cut: int) -> None:
    whole = frame(0, b"abc") + frame(1, b"defg") + frame(2)

    control.put(whole[:cut])
    came = []
    if cut >= SIZE + 3:
        came.append(control.link.recv(deadline_s=5)[1])
    control.put(whole[cut:])
    while len(came) < 3:
        came.append(control.link.recv(deadline_s=5)[1])

    assert came == [b"abc", b"defg", b""]


def test_payload_larger_than_what_is_read_ahead_arrives(control: HalfLink) -> None:
    large = bytes(range(256)) * 390
    control.put(frame(0, b"small") + frame(1, large) + frame(2, b"last"))

    came = [control.link.recv(deadline_s=5)[1] for _ in range(3)]

    assert came == [b"small", large, b"last"]


def test_received_payload_is_not_overwritten_by_the_next(control: HalfLink) -> None:
    control.put(frame(0, b"first"))
    first = control.link.recv(deadline_s=5)[1]
    control.put(frame(1, b"other"))
    control.link.recv(deadline_s=5)

    assert first == b"first"


def test_frame_that_was_read_ahead_needs_no_stream(control: HalfLink) -> None:
    control.put(frame(0) + frame(1, b"left over"))
    control.link.recv(deadline_s=5)
    control.near.close()

    assert control.link.recv(deadline_s=0)[1] == b"left over"
    with pytest.raises(LinkLost, match="closed its link"):
        control.link.recv(deadline_s=5)


def test_rest_of_a_frame_that_never_comes_loses_the_link(control: HalfLink) -> None:
    control.put(frame(0) + frame(1)[:10])
    control.link.recv(deadline_s=5)

    with pytest.raises(DeadlineExceededError, match="receiving failed"):
        control.link.recv(deadline_s=0.01)
    with pytest.raises(LinkLost):
        control.link.recv(deadline_s=5)


@pytest.fixture
def _ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a microsecond pass each time that a reader looks at its watch."""
    ticks = itertools.count(0, 1000)
    monkeypatch.setattr(frame_reader, "perf_counter_ns", ticks.__next__)


@pytest.mark.usefixtures("_ticking")
def test_reader_sleeps_at_first_and_looks_after_a_short_wait(control: HalfLink) -> None:
    for number in range(2):
        control.put(frame(number))
        control.link.recv(deadline_s=5)

    assert control.stream.calls == ["wait", "look"]


def test_reader_whose_deadline_is_near_does_not_sleep_in_the_kernel(
    control: HalfLink,
) -> None:
    """The kernel has a limit of its own; a nearer deadline would be passed over."""
    control.put(frame(0))

    control.link.recv(deadline_s=PATIENCE_S / 2)

    assert control.stream.calls == ["look"]


@pytest.mark.usefixtures("_ticking")
def test_looking_in_vain_ends_in_sleep(control: HalfLink) -> None:
    control.put(frame(0))
    control.link.recv(deadline_s=5)
    control.stream.calls.clear()

    with pytest.raises(DeadlineExceededError):
        control.link.recv(deadline_s=2 * PATIENCE_S)

    looks = control.stream.calls.index("wait")
    assert looks == 50
    assert control.stream.calls[looks:] == ["wait", "look"]


@pytest.mark.parametrize("streams", ["unix", "tcp"], indirect=True)
def test_only_large_frames_over_a_unix_socket_have_no_checksum(links: Links) -> None:
    client, server = links
    result = []

    for n_bytes in (4096, 4097):
        client.send(bytes(n_bytes), deadline_s=5)
        result.append(server.recv(deadline_s=5)[0].checksum is not None)

    assert result == [True, client.transport == "tcp"]


@pytest.mark.parametrize("streams", ["unix", "tcp", "tls"], indirect=True)
def test_stream_of_a_socket_can_wait(streams: tuple[Stream, Stream]) -> None:
    left, right = streams
    assert isinstance(right, PatientStream)
    write_all(left, [b"x"], time.monotonic() + 5)
    room = memoryview(bytearray(4))

    n_bytes = right.read_waiting(room)
    if n_bytes is None:  # under TLS it does not
        n_bytes = read_some(right, room, time.monotonic() + 5)

    assert bytes(room[:n_bytes]) == b"x"
