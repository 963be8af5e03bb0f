"""One conformance suite for links over every stream, and what ends a link."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.errors import DeadlineExceededError, KitError, LinkLost
from kit.wire import FrameKind, Link, Role
from kit.wire.frame import HALT
from tests.wire.half_link import PS, WORKER

Links = tuple[Link, Link]


def test_both_ends_know_each_other(links: Links) -> None:
    client, server = links

    assert (client.local, client.peer) == (WORKER, PS)
    assert (server.local, server.peer) == (PS, WORKER)
    assert (server.role, server.incarnation) == (Role.CONTROL, 3)
    assert server.run_id == b"r" * 16


def test_frames_arrive_whole_with_their_fields(links: Links) -> None:
    client, server = links
    fields = {"epoch": 2, "step": 3, "tensor": 4, "chunk": 5}

    client.send(b"a", b"bc", deadline_s=5, kind=FrameKind.DATA, flags=HALT, **fields)
    header, body = server.recv(deadline_s=5)

    assert (header.kind, header.length, bytes(body)) == (FrameKind.DATA, 3, b"abc")
    assert header.flags & HALT
    assert {name: getattr(header, name) for name in fields} == fields
    assert (header.sender, header.sequence) == (1, 0)


def test_messages_cross_both_ways_at_once(links: Links) -> None:
    blob = random.Random(3).randbytes(2_000 if slow(links) else 1_500_000)

    def both(link: Link) -> tuple[dict[str, object], bytearray]:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(
                link.send_message, {"from": str(link.local)}, blob, deadline_s=10
            )
            return link.recv_message(deadline_s=10)

    with ThreadPoolExecutor(2) as pool:
        came = list(pool.map(both, links))

    assert [message["from"] for message, _ in came] == [str(PS), str(WORKER)]
    assert [bytes(body) for _, body in came] == [blob, blob]


def slow(links: Links) -> bool:
    return type(links[0].stream).__name__ == "_Sliced"


def test_frames_of_many_threads_stay_whole(links: Links) -> None:
    client, server = links

    def send(number: int) -> None:
        client.send_message({"n": number}, bytes([number]) * 500, deadline_s=10)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(12)))
        came = [server.recv_message(deadline_s=10) for _ in range(12)]

    assert sorted(message["n"] for message, _ in came) == list(range(12))
    assert all(blob == bytes([message["n"]]) * 500 for message, blob in came)


def test_signs_of_life_are_not_messages(links: Links) -> None:
    client, server = links
    client.send(deadline_s=5, kind=FrameKind.PING)
    client.send_message({"do": "stop"}, deadline_s=5)

    assert server.recv_message(deadline_s=5)[0] == {"do": "stop"}


def test_a_peer_that_closes_is_named(links: Links) -> None:
    client, server = links
    client.close()

    with pytest.raises(LinkLost, match="worker:1") as caught:
        server.recv(deadline_s=5)
    assert caught.value.task == str(WORKER)
    assert caught.value.may_have_happened


def test_silence_is_a_deadline_and_no_harm(links: Links) -> None:
    client, server = links

    with pytest.raises(DeadlineExceededError, match="worker:1 sent nothing"):
        server.recv(deadline_s=0.0)
    client.send_message({"still": "here"}, deadline_s=5)
    assert server.recv_message(deadline_s=5)[0] == {"still": "here"}


def test_close_wakes_every_thread_that_waits(links: Links) -> None:
    client, _server = links
    errors: list[KitError] = []
    started = threading.Barrier(3)

    def wait() -> None:
        started.wait()
        with pytest.raises(LinkLost) as caught:
            client.recv(deadline_s=20)
        errors.append(caught.value)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    client.close()
    client.close()
    for thread in threads:
        thread.join(5)

    assert len(errors) == 2
    assert client.fileno() == -1
    with pytest.raises(LinkLost, match="closed on this side"):
        client.send(b"x", deadline_s=1)
