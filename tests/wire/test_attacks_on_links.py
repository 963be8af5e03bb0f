"""Attacks on what a link between two hosts carries, by a relay, over real sockets.

The two sides meet under mutual TLS, prove the key, and go on with records (or stay
under TLS). `test_records.py` attacks lines in memory in the same ways, more often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest

from kit.errors import KitError, LinkLost
from kit.wire import Credentials, FrameKind, Link
from kit.wire.records import HEAD_BYTES, MAX_DATA, TAG_BYTES, RecordKind
from tests.wire.attacks import ATTACKS, Attack
from tests.wire.relay import (
    TO_CLIENT,
    TO_SERVER,
    WAYS,
    Meeting,
    Relay,
    came,
    intact,
    n_data,
    put,
    received,
    relaying,
    split,
    tls_size,
    write,
)

N_LIVE = 40  # of each attack


@pytest.fixture
def relay(credentials: Credentials) -> Iterator[Relay]:
    with relaying(credentials) as item:
        yield item


def change_keys_often(meeting: Meeting, most: int) -> None:
    for number in WAYS:
        stream = meeting.link(number).stream
        for send in (stream._sends, stream._takes):  # type: ignore[attr-defined]
            send._most = most


def record_of(meeting: Meeting, way: int) -> bytes:
    """Let an end send a record, which the relay keeps."""
    write(meeting.link(way), b"kept", 4)
    size, result = HEAD_BYTES + 4 + TAG_BYTES, b""
    while len(result) < size:
        result += meeting.sockets[way].recv(size - len(result))
    return result


def is_refused(relay: Relay, attack: Attack, seed: int) -> bool:
    """Attack a new link; whether exactly what came before the attack was taken."""
    chance, way = random.Random(seed), seed % 2
    data, piece = (
        chance.randbytes(chance.randrange(40, 3000)),
        chance.randrange(10, 900),
    )
    with relay.meeting() as meeting:
        change_keys_often(meeting, chance.choice([2, 4, 1000]))
        back = record_of(meeting, 1 - way)
        line = split(meeting.hold(way, lambda link: write(link, data, piece)))
        assert n_data(line) == len(data)

        changed = attack(chance, line, back)
        before = intact(line, changed)
        assert b"".join(changed) != b"".join(line)
        assert before != line
        meeting.let_go(way, b"".join(changed))

        stream = meeting.link(1 - way).stream
        result, error = received(stream, chance.choice([7, 100, 5000]))
    return result == data[: n_data(before)] and isinstance(error, LinkLost)


def test_without_an_attack_both_sides_take_all_and_nobody_on_the_way_reads_it(
    relay: Relay,
) -> None:
    data = b"abcde" * 50
    for way, encryption in product(WAYS, ("aes-gcm", "tls")):
        with relay.meeting(encryption=encryption) as meeting:
            if encryption == "aes-gcm":
                change_keys_often(meeting, 3)
            line = meeting.hold(way, lambda link: write(link, data, 30))
            meeting.let_go(way, line)

            assert meeting.link(way).transport == encryption
            assert len(line) > len(data)
            assert data[:5] not in line
            if encryption == "aes-gcm":
                assert {row[3] for row in split(line)} == {1, 2, 3}
            result, error = received(meeting.link(1 - way).stream)
            assert result == data
            assert error is None or encryption == "tls"  # which says no farewell


@pytest.mark.slow
def test_of_hundreds_of_attacked_links_none_takes_anything_false(relay: Relay) -> None:
    tried, taken = Counter[str](), []
    for seed in range(N_LIVE * len(ATTACKS)):
        attack = ATTACKS[seed // 2 % len(ATTACKS)]  # both ways
        tried[attack.__name__] += 1
        if not is_refused(relay, attack, seed):
            taken.append((seed, attack.__name__))

    assert taken == []
    assert tried == {attack.__name__: N_LIVE for attack in ATTACKS}


@pytest.mark.parametrize("way", WAYS, ids=["to server", "to client"])
def test_a_link_that_is_cut_between_two_records_has_no_real_end(
    relay: Relay, way: int
) -> None:
    """Its last record is there, whole; only the word that it was the last is not."""
    with relay.meeting() as meeting:
        line = split(meeting.hold(way, lambda link: write(link, b"x" * 90, 30)))
        assert [row[3] for row in line] == [1, 1, 1, 3]
        meeting.let_go(way, b"".join(line[:3]))
        result, error = received(meeting.link(1 - way).stream)

    assert result == b"x" * 90
    assert "without a sign that this was meant" in str(error)


@pytest.mark.parametrize("way", WAYS, ids=["to server", "to client"])
def test_a_change_of_keys_cannot_be_made_to_look_like_the_end(
    relay: Relay, way: int
) -> None:
    """One bit makes the one the other: both have no data, and a right tag."""
    with relay.meeting() as meeting:
        change_keys_often(meeting, 3)
        line = split(meeting.hold(way, lambda link: write(link, b"x" * 90, 30)))
        assert [row[3] for row in line] == [1, 1, RecordKind.REKEY, 1, 3]
        line[2] = line[2][:3] + bytes([RecordKind.CLOSE]) + line[2][4:]
        meeting.let_go(way, b"".join(line[:3]))
        result, error = received(meeting.link(1 - way).stream)

    assert result == b"x" * 60
    assert "does not open" in str(error)


def test_what_is_put_behind_the_real_end_is_not_read(relay: Relay) -> None:
    with relay.meeting() as meeting:
        line = meeting.hold(TO_SERVER, lambda link: write(link, b"x" * 90, 30))
        meeting.let_go(TO_SERVER, line + line)

        assert received(meeting.link(TO_CLIENT).stream) == (b"x" * 90, None)


def test_large_records_are_taken_up_to_the_bit_that_was_changed(relay: Relay) -> None:
    data = random.Random(1).randbytes(3 * MAX_DATA + 5)
    with relay.meeting() as meeting:
        line = split(meeting.hold(TO_CLIENT, lambda link: write(link, data, len(data))))
        changed = bytearray(b"".join(line))
        changed[len(line[0]) + len(line[1]) + 1000] ^= 1
        meeting.let_go(TO_CLIENT, bytes(changed))
        result, error = received(meeting.link(TO_SERVER).stream, 2**20)

    assert result == data[: 2 * MAX_DATA]
    assert "does not open" in str(error)


def test_records_of_an_earlier_link_are_not_those_of_a_later_one(relay: Relay) -> None:
    with relay.meeting() as meeting:
        line = meeting.hold(TO_SERVER, lambda link: write(link, b"x" * 90, 30))
    with relay.meeting() as meeting:
        meeting.let_go(TO_SERVER, line)
        result, error = received(meeting.link(TO_CLIENT).stream)

    assert result == b""
    assert "does not open" in str(error)


def test_a_recorded_connection_that_is_played_again_becomes_no_link(
    relay: Relay,
) -> None:
    with relay.meeting() as meeting:
        line = meeting.hold(TO_SERVER, lambda link: write(link, b"x" * 90, 30))
        recorded = b"".join(meeting.carried[TO_SERVER]) + line
    with relay.dial() as sock:
        put(sock, recorded)
        result = relay.take()
        answered = came(sock)

    assert isinstance(result, KitError)
    assert answered != b""  # so TLS had begun


# -- links that stay under TLS ---------------------------------------------------------


def send_frames(payloads: list[bytes], link: Link) -> None:
    for payload in payloads:
        link.send(payload, kind=FrameKind.DATA, deadline_s=10)


def frames(link: Link) -> tuple[list[bytes], KitError]:
    result: list[bytes] = []
    try:
        while True:
            result.append(bytes(link.recv(deadline_s=10)[1]))
    except KitError as error:
        return result, error


@pytest.mark.slow
def test_attacked_links_under_tls_bring_the_frames_before_and_an_error(
    relay: Relay,
) -> None:
    """TLS says no farewell here: it is a frame or the link that misses its end."""
    tried = Counter[str]()
    attacks = [item for item in ATTACKS if item.__name__ != "from_another_link"]
    for seed in range(10 * len(attacks)):
        chance, attack, way = random.Random(seed), attacks[seed // 2 % 6], seed % 2
        payloads = [
            chance.randbytes(chance.randrange(900))
            for _ in range(chance.randrange(2, 9))
        ]
        with relay.meeting(encryption="tls") as meeting:
            back = meeting.carried[1 - way][-1]
            sent = meeting.hold(way, partial(send_frames, payloads))
            line = split(sent, tls_size)
            assert len(line) == len(payloads)
            changed = attack(chance, line, back)
            assert b"".join(changed) != sent
            meeting.let_go(way, b"".join(changed))
            result, error = frames(meeting.link(1 - way))

        assert result == payloads[: len(intact(line, changed))], (seed, attack)
        assert isinstance(error, LinkLost), (seed, error)
        tried[attack.__name__] += 1

    assert tried == {attack.__name__: 10 for attack in attacks}
