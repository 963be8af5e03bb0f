from __future__ import annotations

import hmac
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import (
    AuthenticationFailed,
    InvalidArgumentError,
    KitError,
    ProtocolError,
    UnavailableError,
    VersionMismatch,
)
from kit.task import Task
from kit.wire.handshake.handshake import ClientHandshake, Handshake, ServerHandshake
from kit.wire.handshake.messages import HELLO as HELLO_TABLE
from kit.wire.handshake.messages import (
    REPLY,
    Hello,
    Refusal,
    Role,
    Versions,
    unpack_reply,
)
from tests.cases import for_each

KEY, CLUSTER = b"k" * 32, b"c" * 16
HELLO = Hello(Role.DATA, Task("worker", 2), incarnation=5, run_id=b"r" * 16)


def client(
    key: bytes = KEY,
    cluster_id: bytes = CLUSTER,
    versions: Versions = Versions(1, 1),  # noqa: B008  # immutable
    nonce: bytes = b"1" * 32,
) -> ClientHandshake:
    return ClientHandshake(
        HELLO, key=key, cluster_id=cluster_id, nonce=nonce, versions=versions
    )


def server(
    busy: bool = False,
    versions: Versions = Versions(1, 1),  # noqa: B008  # immutable
    nonce: bytes = b"2" * 32,
) -> ServerHandshake:
    return ServerHandshake(
        Task("ps", 0),
        key=KEY,
        cluster_id=CLUSTER,
        nonce=nonce,
        busy=busy,
        versions=versions,
    )


def feed_up(handshake: Handshake, data: bytes) -> None:
    """Feed `data`, and then zeros, until the handshake ends one way or the other."""
    while not handshake.done:
        handshake.feed(data[: handshake.wanted].ljust(handshake.wanted, b"\0"))


def meet(
    left: Handshake,
    right: Handshake,
    damage: Callable[[int, bytes], bytes] = lambda _number, message: message,
    piece: int = 1000,
) -> list[KitError]:
    """Carry messages to and fro until both are silent; return what was raised."""
    errors: list[KitError] = []
    for number in range(6):
        sender, receiver = (left, right) if number % 2 == 0 else (right, left)
        message = damage(number, sender.outgoing())
        try:
            while message:
                receiver.feed(message[:piece])
                message = message[piece:]
        except KitError as exc:
            errors.append(exc)
    return errors


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_both_sides_learn_who_the_other_is(piece: int) -> None:
    ours, theirs = client(), server()

    errors = meet(ours, theirs, piece=piece)

    assert (errors, ours.done, theirs.done) == ([], True, True)
    assert (ours.peer, theirs.hello) == (Task("ps", 0), HELLO)
    assert ours.wanted == theirs.wanted == 0


def test_the_key_itself_never_travels() -> None:
    sent = bytearray()

    def record(_number: int, message: bytes) -> bytes:
        sent.extend(message)
        return message

    meet(client(), server(), record)

    assert len(sent) == 128 + 128 + 40 + 40
    assert KEY not in sent
    assert KEY[:8] not in sent


@for_each(
    ("ours", "theirs", "error", "words", "behind"),
    [
        ({"key": b"x" * 32}, {}, AuthenticationFailed, ["key"], ""),
        ({"cluster_id": b"d" * 16}, {}, AuthenticationFailed, ["different"], ""),
        ({}, {"busy": True}, UnavailableError, ["try again"], ""),
        (
            *({"versions": Versions(2, 2)}, {}, VersionMismatch),
            *(["2 to 2", "1 to 1"], "psring' on the other side"),
        ),
        (
            *({}, {"versions": Versions(4, 3)}, VersionMismatch),
            *(["1 to 1", "3 to 4"], "psring' on this side"),
        ),
    ],
)
def test_a_refusal_is_told_to_both_sides(
    ours: dict[str, Any],
    theirs: dict[str, Any],
    error: type[KitError],
    words: list[str],
    behind: str,
) -> None:
    left, right = client(**ours), server(**theirs)

    errors = meet(left, right)

    assert [type(each) for each in errors] == [error] * 2
    assert all(word in str(each) for each in errors for word in words)
    assert behind in str(errors[1])
    assert not left.done
    assert not right.done


def test_a_later_version_need_share_no_more_than_where_it_says_its_number() -> None:
    """Of its hello and of its refusal, nothing behind the versions is looked at."""
    ours, theirs, later = client(), server(), struct.pack("<HH", 9, 9)
    ours.outgoing()

    for side, table, rest in (
        (theirs, HELLO_TABLE, b""),
        (ours, REPLY, struct.pack("<H", Refusal.VERSION)),
    ):
        with pytest.raises(VersionMismatch, match=r"1 to 1.*9 to 9"):
            side.feed((table.magic + later + rest).ljust(table.size, b"\0"))

    reply = unpack_reply(theirs.outgoing())
    assert (reply.refusal, reply.versions) == (Refusal.VERSION, Versions(1, 1))


@pytest.mark.parametrize(("ours", "theirs"), [((3, 1), (1, 1)), ((1, 1), (9, 1))])
def test_versions_that_overlap_agree(
    ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    left = client(versions=Versions(*ours))

    assert meet(left, server(versions=Versions(*theirs))) == []
    assert left.done


@pytest.mark.parametrize(
    "text",
    [b"GET / HTTP/1.1\r\n", b"POST", b"\x16\x03\x01\x02\x00", b"SSH-2.0-x", b"\0"],
)
def test_another_protocol_is_refused_at_its_first_byte(text: bytes) -> None:
    theirs = server()

    with pytest.raises(ProtocolError, match="speaks"):
        theirs.feed(text[:4])
    assert theirs.outgoing() == b""


@for_each("bit", range(0, 8 * 336, 5))
def test_no_flipped_bit_lets_both_sides_finish(bit: int) -> None:
    """One bit of the whole conversation, wherever it is."""
    seen = 0

    def flip(_number: int, message: bytes) -> bytes:
        nonlocal seen
        at, seen = bit // 8 - seen, seen + len(message)
        if not 0 <= at < len(message):
            return message
        changed = bytearray(message)
        changed[at] ^= 1 << bit % 8
        return bytes(changed)

    ours, theirs = client(), server()
    errors = meet(ours, theirs, flip)

    assert errors
    assert not (ours.done and theirs.done)


def test_a_recorded_proof_is_worth_nothing_later() -> None:
    recorded: list[bytes] = []
    meet(client(), server(), lambda _n, message: recorded.append(message) or message)  # type: ignore[func-returns-value]

    later = server(nonce=b"3" * 32)
    later.feed(recorded[0])
    later.outgoing()
    with pytest.raises(AuthenticationFailed):
        later.feed(recorded[2])


def test_a_server_cannot_be_made_to_prove_for_another() -> None:
    """A reply reflected as a proof, or a proof as a verdict, does not fit."""
    ours, theirs = client(), server()
    theirs.feed(ours.outgoing())
    reply = theirs.outgoing()

    with pytest.raises(AuthenticationFailed):
        theirs.feed(b"PSRP" + bytes(4) + reply[-32:])


def test_the_macs_are_those_of_the_document() -> None:
    """Written out again from PROTOCOL.md, with nothing taken from the code."""
    ours, theirs = client(), server()
    hello = ours.outgoing()
    theirs.feed(hello)
    reply = theirs.outgoing()
    ours.feed(reply)
    proof = ours.outgoing()
    theirs.feed(proof)
    verdict = theirs.outgoing()

    def mac(label: bytes, *seen: bytes) -> bytes:
        text = b"psring handshake 1: " + label + b"\0" + b"".join(seen)
        return hmac.new(KEY, text, "sha256").digest()

    assert reply[96:] == mac(b"server", hello, reply[:96])
    assert proof[8:] == mac(b"client", hello, reply)
    assert verdict[8:] == mac(b"admitted", hello, reply, proof)


@given(st.binary(max_size=128))
def test_no_bytes_make_a_server_raise_anything_undeclared(data: bytes) -> None:
    theirs = server()

    for start in (b"", b"PSRH", b"PSRH\1\0\1\0\1\0\0\0" + CLUSTER):
        theirs = server()
        with pytest.raises(KitError):
            feed_up(theirs, start + data)
    assert not theirs.done


def test_more_bytes_than_wanted_are_refused() -> None:
    theirs = server()

    with pytest.raises(ProtocolError, match="room for 128"):
        theirs.feed(b"P" * 129)


def test_names_and_keys_of_wrong_size_are_refused_at_home() -> None:
    with pytest.raises(InvalidArgumentError, match="31"):
        client(key=b"x" * 31)
    long = Hello(Role.DATA, Task("j" * 33, 0))
    with pytest.raises(InvalidArgumentError, match="33 bytes"):
        ClientHandshake(long, key=KEY, cluster_id=CLUSTER, nonce=bytes(32))
    huge = Hello(Role.DATA, Task("worker", 2**32))
    with pytest.raises(InvalidArgumentError, match="32 bits"):
        ClientHandshake(huge, key=KEY, cluster_id=CLUSTER, nonce=bytes(32))


def test_a_hello_with_the_right_frame_and_a_bad_name_is_refused() -> None:
    hello = bytearray(client().outgoing())
    hello[60:92] = b"no/such*name".ljust(32, b"\0")

    with pytest.raises(ProtocolError, match="not a valid name for a job"):
        server().feed(bytes(hello))
