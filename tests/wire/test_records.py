"""Records of AES-GCM: what an attacker on the line can do to them, and key changes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kit.errors import FailedPreconditionError, KitError, LinkLost, ProtocolError
from kit.testing.streams import memory_pair, sliced
from kit.wire import Credentials, Role, Stream
from kit.wire.handshake.keys import ready, unpack_exchange
from kit.wire.records import MAX_DATA, Direction, RecordKind, RecordStream
from tests.wire import relay
from tests.wire.attacks import ATTACKS
from tests.wire.conftest import open_streams, soon
from tests.wire.mutations import N_MUTATIONS, mutate
from tests.wire.relay import split


def on_the_line(data: bytes, key: bytes, most: int, piece: int) -> list[bytes]:
    """Return the records in which `data` leaves, CLOSE as the last one."""
    near, far = memory_pair()
    sender = RecordStream(
        near, sends=Direction(key, most=most), takes=Direction(b"0" * 32)
    )
    at = 0
    while at < len(data):
        at += sender.write([data[at : at + piece]]) or 0
    sender.close()
    return split(everything(far))


def everything(stream: Stream) -> bytes:
    result, error = relay.received(stream)
    stream.close()
    assert error is None
    return result


def received(
    line: list[bytes], key: bytes, most: int, room: int
) -> tuple[bytes, KitError | None]:
    """Return what a receiver takes of a line, and what it said at the end."""
    near, far = memory_pair()
    near.write([b"".join(line)])
    near.close()
    sends, takes = Direction(b"0" * 32), Direction(key, most=most)
    with closing(RecordStream(far, sends=sends, takes=takes)) as taker:
        return relay.received(taker, room)


@pytest.mark.slow
def test_of_a_thousand_attacked_lines_none_is_taken() -> None:
    taken = []
    for seed in range(1000):
        chance = random.Random(seed)
        data, key = chance.randbytes(chance.randrange(40, 1500)), chance.randbytes(32)
        most, piece = chance.choice([2, 4, 1000]), chance.randrange(10, 300)
        line = on_the_line(data, key, most, piece)
        other = on_the_line(data[:9], key[::-1], most, piece)[0]
        attack = ATTACKS[seed % len(ATTACKS)]
        room = chance.choice([7, 100, 5000])
        assert received(line, key, most, room) == (data, None)

        result, error = received(attack(chance, line, other), key, most, room)

        if error is None or not data.startswith(result):
            taken.append((seed, attack.__name__))

    assert taken == []


@pytest.mark.slow
def test_mutated_lines_bring_what_was_sent_before_and_the_declared_error() -> None:
    dice, key = random.Random(17), b"k" * 32
    data = dice.randbytes(600)
    line = b"".join(on_the_line(data, key, 3, 150))
    taken = []
    for number in range(N_MUTATIONS // 20):
        changed = bytes(mutate(line, dice))
        result, error = received([changed], key, 3, 500)
        # What comes behind CLOSE is not read.
        is_whole = error is None and changed.startswith(line)
        if not data.startswith(result) or (error is None and not is_whole):
            taken.append(number)

    assert taken == []


def test_large_data_crosses_whole_and_keys_change_under_way() -> None:
    data = random.Random(1).randbytes(3 * MAX_DATA + 5)
    line = on_the_line(data, b"k" * 32, 2, len(data))

    kinds = [row[3] for row in line]
    assert received(line, b"k" * 32, 2, 2**20) == (data, None)
    assert max(map(len, line)) <= MAX_DATA + 20
    assert kinds[:3] == [1, 2, 1]
    assert kinds[-1] == 3


def test_stream_that_brought_a_changed_record_never_waits_again() -> None:
    near, far = memory_pair()
    taker = RecordStream(far, sends=Direction(b"0" * 32), takes=Direction(b"k" * 32))
    (record, _) = on_the_line(b"hello", b"k" * 32, 1000, 10)
    near.write([record[:-1] + bytes([record[-1] ^ 1])])  # and it stays open

    for _ in range(3):
        with pytest.raises(LinkLost, match="does not open"):
            taker.read_into(memoryview(bytearray(10)))
    near.close()
    taker.close()


def test_a_key_is_not_used_longer_than_it_may() -> None:
    line = on_the_line(b"x" * 100, b"k" * 32, 1000, 10)

    result, error = received(line, b"k" * 32, 5, 100)

    assert result == b"x" * 40
    assert "not due" in str(error)


def test_keys_are_not_changed_twice_with_nothing_between() -> None:
    """Else a holder of the key could keep a read busy for ever."""
    sender, room = Direction(b"k" * 32), memoryview(bytearray(64))
    line = []
    for _ in range(2):
        line.append(bytes(room[: sender.seal(RecordKind.REKEY, b"", room)]))
        sender.rekey()

    result, error = received(line, b"k" * 32, 1000, 100)

    assert result == b""
    assert "not due" in str(error)


def test_a_payload_behind_a_head_has_a_record_of_its_own() -> None:
    near, far = memory_pair()
    first = RecordStream(near, sends=Direction(b"a" * 32), takes=Direction(b"b" * 32))

    assert first.write([b"h" * 64, b"p" * MAX_DATA]) == 64 + MAX_DATA
    first.close()

    assert [len(each) - 20 for each in split(everything(far))] == [64, MAX_DATA, 0]


def test_short_buffers_leave_in_one_record_and_a_cut_stream_gives_all() -> None:
    near, far = memory_pair()
    first = RecordStream(near, sends=Direction(b"a" * 32), takes=Direction(b"b" * 32))
    two = RecordStream(
        sliced(far), sends=Direction(b"b" * 32), takes=Direction(b"a" * 32)
    )

    assert first.write([b"ab", b"", bytearray(b"cde"), memoryview(b"fg")]) == 7
    first.close()

    assert everything(two) == b"abcdefg"


def test_ends_with_different_settings_both_say_so(
    tmp_path: Path, credentials: Credentials
) -> None:
    pair = open_streams("tls", tmp_path, credentials)

    def say(number: int) -> str:
        with pytest.raises(FailedPreconditionError) as caught:
            ready(
                *(pair[number], Role.DATA, credentials.key),
                encryption=("tls", "aes-gcm")[number],
                is_client=number == 0,
                deadline=soon(),
            )
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(say, range(2)))
    for stream in pair:
        stream.close()

    assert all("encryption='tls'" in text for text in said)
    assert all("encryption='aes-gcm'" in text for text in said)


@pytest.mark.parametrize("message", [bytes(40), b"PSRK\x09\0\0\0" + bytes(32)])
def test_another_message_than_the_secret_is_refused(message: bytes) -> None:
    with pytest.raises(ProtocolError, match="how it encrypts"):
        unpack_exchange(message)
