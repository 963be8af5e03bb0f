"""Attacks on how a link is opened: on TLS, and where records take over from it.

A relay that has no key changes what passes; a task that has the key sends more under
TLS than it may. Whoever is attacked is never given a byte that was not sent to it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.errors import KitError, LinkLost, ProtocolError
from kit.wire import Credentials, Role, Stream
from kit.wire.handshake.keys import pack_exchange, ready
from kit.wire.stream import AES_GCM, read_some, write_all
from tests.wire.conftest import open_streams, soon
from tests.wire.relay import (
    SEALED,
    TLS_HEAD,
    TO_CLIENT,
    TO_SERVER,
    WAYS,
    Change,
    Meeting,
    Once,
    Relay,
    received,
    relaying,
    unchanged,
    write,
)

N_OPENINGS = 20  # with each attack
DATA = b"gradient" * 40
both_ways = pytest.mark.parametrize("way", WAYS, ids=["to server", "to client"])


@pytest.fixture
def relay(credentials: Credentials) -> Iterator[Relay]:
    with relaying(credentials) as item:
        yield item


# -- a relay without a key -------------------------------------------------------------

#: What becomes of a TLS record; `foreign` is a record of an earlier link.
TlsAttack = Callable[[random.Random, bytes, bytes], bytes]


def flip(chance: random.Random, record: bytes, foreign: bytes) -> bytes:
    """Change one bit, but of a plain record's head, which TLS 1.3 does not look at."""
    changed = bytearray(record)
    first = 0 if record[0] == SEALED else TLS_HEAD
    changed[chance.randrange(first, len(record))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def leave_out(chance: random.Random, record: bytes, foreign: bytes) -> bytes:
    return b""


def repeat(chance: random.Random, record: bytes, foreign: bytes) -> bytes:
    return record + record


def put_before(chance: random.Random, record: bytes, foreign: bytes) -> bytes:
    """Bring a record of AES-GCM while TLS is still spoken."""
    return foreign + record


def put_behind(chance: random.Random, record: bytes, foreign: bytes) -> bytes:
    return record + foreign


def shorten(chance: random.Random, record: bytes, foreign: bytes) -> bytes:
    return record[: chance.randrange(len(record))]


ATTACKS: list[TlsAttack] = [
    *(flip, leave_out, repeat, put_before, put_behind, shorten),
]


def taken_after(meeting: Meeting, way: int) -> tuple[bytes, KitError | None]:
    """Let a side say something, if it can; what the other one takes, and its error."""
    other = meeting.error(1 - way)
    if other is not None:
        return b"", other
    line = b""
    if meeting.error(way) is None:
        line = meeting.hold(way, lambda link: write(link, DATA, 100))
    meeting.let_go(way, line)
    return received(meeting.link(1 - way).stream)


def foreign_record(relay: Relay, way: int) -> bytes:
    """Return the first record that went the same way over an earlier link."""
    with relay.meeting() as meeting:
        line = meeting.hold(way, lambda link: write(link, b"old", 3))
    return line[:23]


def is_refused(relay: Relay, attack: TlsAttack, seed: int, foreign: bytes) -> bool:
    """Attack a TLS record of an opening; whether nothing was taken of what followed."""
    chance, way = random.Random(seed), seed % 2
    number = chance.randrange(relay.n_records[way])
    change = Once(way, number, lambda record: attack(chance, record, foreign))
    with relay.meeting(change, leaves=True) as meeting:
        assert change.was_made
        result, error = taken_after(meeting, way)
        if meeting.error(1 - way) is not None:  # the other side learns of it as well
            back, back_error = taken_after(meeting, 1 - way)
            return (result, back) == (b"", b"") and back_error is not None
    return result == b"" and error is not None


@pytest.mark.slow
def test_of_hundreds_of_attacked_openings_none_leads_to_a_byte_taken(
    relay: Relay,
) -> None:
    foreign = [foreign_record(relay, way) for way in WAYS]
    tried, taken = Counter[str](), []
    for seed in range(N_OPENINGS * len(ATTACKS)):
        attack = ATTACKS[seed // 2 % len(ATTACKS)]  # both ways
        tried[attack.__name__] += 1
        if not is_refused(relay, attack, seed, foreign[seed % 2]):
            taken.append((seed, attack.__name__))

    assert taken == []
    assert tried == {attack.__name__: N_OPENINGS for attack in ATTACKS}


@both_ways
def test_a_connection_cut_before_the_secrets_says_so(relay: Relay, way: int) -> None:
    last = relay.n_records[way] - 1
    change = Once(way, last, lambda record: b"")
    with relay.meeting(change, leaves=True) as meeting:
        error = meeting.error(1 - way)

    assert change.was_made
    assert isinstance(error, LinkLost)
    assert "before it said how it encrypts" in str(error)


@both_ways
def test_the_secrets_sent_twice_are_no_record(relay: Relay, way: int) -> None:
    """The second time they come where TLS is spoken no more."""
    change = Once(way, relay.n_records[way] - 1, lambda record: record + record)
    with relay.meeting(change) as meeting:
        assert change.was_made
        assert meeting.link(1 - way).transport == AES_GCM
        result, error = taken_after(meeting, way)

    assert result == b""
    assert "which is not due" in str(error)


@both_ways
def test_records_that_come_together_with_the_secrets_are_not_lost(
    relay: Relay, way: int
) -> None:
    """TLS must take from the socket what is its own, and leave the rest there."""
    with relay.meeting(held_back(relay, way), until=[way]) as meeting:
        line = meeting.hold(way, lambda link: write(link, DATA, 100))
        assert not meeting.ends[1 - way].done()
        meeting.let_go(way, kept_back(relay, meeting, way) + line)

        assert received(meeting.link(1 - way).stream) == (DATA, None)


@both_ways
def test_a_hand_over_that_comes_byte_by_byte_loses_nothing(
    relay: Relay, way: int
) -> None:
    with relay.meeting(held_back(relay, way), until=[way]) as meeting:
        line = meeting.hold(way, lambda link: write(link, DATA, 100))
        for byte in kept_back(relay, meeting, way) + line:
            meeting.sockets[1 - way].send(bytes([byte]))
        meeting.let_go(way, b"")

        assert received(meeting.link(1 - way).stream) == (DATA, None)


def kept_back(relay: Relay, meeting: Meeting, way: int) -> bytes:
    """Return what was held back; nothing, if the relay had not read it by then."""
    return b"".join(meeting.carried[way][relay.n_records[way] - 1 :])


def held_back(relay: Relay, way: int) -> Change:
    """Keep the last TLS record of a way, which has the sender's secret."""

    def change(direction: int, number: int, record: bytes) -> bytes:
        is_last = direction == way and number == relay.n_records[way] - 1
        return b"" if is_last else unchanged(direction, number, record)

    return change


# -- a task that has the key -----------------------------------------------------------


@contextmanager
def met(
    folder: Path, credentials: Credentials, way: int, parts: list[bytes]
) -> Iterator[Stream]:
    """Give what an end goes on with whose peer sends `parts` under TLS."""
    pair = open_streams("tls", folder, credentials)
    theirs, ours = pair if way == TO_SERVER else pair[::-1]

    def say() -> None:
        for part in parts:
            write_all(theirs, [part], soon())
        # Closed with something unread, it would take back what it has sent.
        read_some(theirs, memoryview(bytearray(100)), soon())
        theirs.shutdown()

    with ThreadPoolExecutor(1) as pool:
        saying = pool.submit(say)
        try:
            ours = ready(
                *(ours, Role.DATA, credentials.key),
                encryption=AES_GCM,
                is_client=way == TO_CLIENT,
                deadline=soon(),
            )
            yield ours
        finally:
            saying.result(timeout=20)
            for stream in (ours, theirs):
                stream.close()


@both_ways
def test_more_than_the_secret_in_one_tls_record_is_refused(
    way: int, tmp_path: Path, credentials: Credentials
) -> None:
    said = pack_exchange(AES_GCM, b"s" * 32)

    with (
        pytest.raises(ProtocolError, match="5 bytes more under TLS"),
        met(tmp_path, credentials, way, [said + b"extra"]),
    ):
        pass


# The heads of such TLS records read as those of records of kind 0, 1, 2 and 3.
@pytest.mark.parametrize(("size", "many"), [(9, 1), (300, 640), (600, 1), (900, 1)])
@both_ways
def test_what_goes_on_under_tls_behind_the_secrets_is_no_record(
    way: int, size: int, many: int, tmp_path: Path, credentials: Credentials
) -> None:
    parts = [pack_exchange(AES_GCM, b"s" * 32), *[b"x" * size] * many]

    with met(tmp_path, credentials, way, parts) as stream:
        result, error = received(stream, 2**20)

    assert result == b""
    assert ("does not open" if many > 1 else "not due") in str(error)
