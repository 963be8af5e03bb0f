"""`PROTOCOL.md` against the code: its vectors in both directions, and its tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from kit.errors import AuthenticationFailed
from kit.task import Task
from kit.testing.streams import memory_pair
from kit.wire import frame
from kit.wire.frame import CHECKSUM, SIZE, Bounds, Header, cluster_number, pack, unpack
from kit.wire.handshake import messages
from kit.wire.handshake.handshake import ClientHandshake, ServerHandshake
from kit.wire.handshake.keys import direction_keys, pack_exchange
from kit.wire.handshake.messages import Hello, Refusal, Role
from kit.wire.message import pack_message, unpack_message
from kit.wire.records import Direction, RecordStream
from kit.wire.stream import AES_GCM

TEXT = (Path(frame.__file__).parent / "PROTOCOL.md").read_text()
KEY, CLUSTER = bytes(range(32)), bytes(range(16, 32))
HELLO = Hello(Role.DATA, Task("worker", 2), 5, bytes(range(32, 48)))


def read_vectors() -> list[tuple[dict[str, Any], bytes]]:
    result = []
    for block in re.findall(r"```vector\n(.*?)```", TEXT, re.DOTALL):
        head, _, digits = block.partition("\n")
        result.append((json.loads(head), bytes.fromhex(digits)))
    return result


VECTORS = read_vectors()
BY_NAME = {what["what"]: data for what, data in VECTORS if what["what"] != "frame"}
FRAMES = [(what, data) for what, data in VECTORS if what["what"] == "frame"]


def client() -> ClientHandshake:
    return ClientHandshake(HELLO, key=KEY, cluster_id=CLUSTER, nonce=b"\x11" * 32)


def server(cluster_id: bytes = CLUSTER) -> ServerHandshake:
    return ServerHandshake(
        Task("ps", 0), key=KEY, cluster_id=cluster_id, nonce=b"\x22" * 32
    )


def test_the_document_has_all_vectors() -> None:
    handshake = {"hello", "reply", "proof", "verdict", "refusal"}
    assert set(BY_NAME) == handshake | {"exchange", "to server", "to client"}
    assert len(FRAMES) == 3


def test_a_client_says_and_accepts_what_the_document_says() -> None:
    ours = client()

    assert ours.outgoing() == BY_NAME["hello"]
    ours.feed(BY_NAME["reply"])
    assert ours.outgoing() == BY_NAME["proof"]
    ours.feed(BY_NAME["verdict"])
    assert ours.done
    assert ours.peer == Task("ps", 0)


def test_a_server_says_and_accepts_what_the_document_says() -> None:
    theirs = server()

    theirs.feed(BY_NAME["hello"])
    assert theirs.outgoing() == BY_NAME["reply"]
    theirs.feed(BY_NAME["proof"])
    assert theirs.outgoing() == BY_NAME["verdict"]
    assert theirs.done
    assert theirs.hello == HELLO


def test_the_refusal_is_that_of_the_document() -> None:
    theirs, ours = server(b"x" * 16), client()

    with pytest.raises(AuthenticationFailed):
        theirs.feed(BY_NAME["hello"])
    assert theirs.outgoing() == BY_NAME["refusal"]
    with pytest.raises(AuthenticationFailed, match="different clusters"):
        ours.feed(BY_NAME["refusal"])


def test_records_are_those_of_the_document() -> None:
    """Sealed with `cryptography` alone, as the document says, and opened by ours."""
    client, server = b"\x33" * 32, b"\x44" * 32

    def hkdf(who: bytes) -> bytes:
        info = b"psring records 1: " + who
        return HKDF(SHA256(), 32, KEY, info).derive(client + server)

    def record(key: bytes, number: int, kind: int, data: bytes = b"") -> bytes:
        head = len(data).to_bytes(3, "little") + bytes([kind])
        nonce = number.to_bytes(12, "little")
        return head + AESGCM(key).encrypt(nonce, data, head)

    first = hkdf(b"client")
    then = HKDFExpand(SHA256(), 32, b"psring records 1: next key").derive(first)
    line = record(first, 0, 1, b"hello") + record(first, 1, 2)
    line += record(then, 0, 1, b"again") + record(then, 1, 3)
    assert pack_exchange(AES_GCM, client) == BY_NAME["exchange"]
    assert line == BY_NAME["to server"]
    assert record(hkdf(b"server"), 0, 1, b"hello") == BY_NAME["to client"]

    ours = [Direction(key) for key in direction_keys(KEY, client, server)]
    assert opened(BY_NAME["to server"], sends=ours[1], takes=ours[0]) == b"helloagain"
    assert sealed(Direction(hkdf(b"server"))) == BY_NAME["to client"]


def opened(line: bytes, **directions: Direction) -> bytes:
    near, far = memory_pair()
    near.write([line])
    taker, result, room = (
        RecordStream(far, **directions),
        b"",
        memoryview(bytearray(64)),
    )
    while n_bytes := taker.read_into(room):
        result += room[:n_bytes]
    taker.close()
    near.close()
    return result


def sealed(direction: Direction) -> bytes:
    near, far = memory_pair()
    sender = RecordStream(near, sends=direction, takes=direction)
    room = memoryview(bytearray(64))
    assert sender.write([b"hel", b"lo"]) == 5
    result = bytes(room[: far.read_into(room) or 0])
    sender.close()
    far.close()
    return result


@pytest.mark.parametrize(("what", "data"), FRAMES)
def test_frames_are_those_of_the_document(what: dict[str, Any], data: bytes) -> None:
    header, body = Header(**what["fields"]), b""
    if "message" in what:
        blob = bytes.fromhex(what["blob"])
        body = b"".join(pack_message(what["message"], blob))
        assert unpack_message(bytearray(body)) == (what["message"], bytearray(blob))
    bounds = Bounds(cluster_number(CLUSTER), max_length=2**20)

    assert pack(header, body) + body == data
    came = unpack(data, bounds=bounds)
    assert came._replace(checksum=None) == header
    assert (came.checksum is not None) == bool(header.flags & CHECKSUM)
    frame.verify(data[:SIZE], came, data[SIZE:])


@pytest.mark.parametrize(
    ("title", "size"),
    [
        (r"\*\*Hello\*\*", messages.HELLO.size),
        (r"\*\*Reply\*\*", messages.REPLY.size),
        (r"\*\*Proof\*\*", messages.PROOF.size),
        (r"## 3\. Frames", SIZE),
        (r"## 4\. Records", 40),
    ],
)
def test_each_table_covers_every_byte_once(title: str, size: int) -> None:
    part = re.split(title, TEXT)[1]
    table = re.search(r"\| offset .*?\n\n", part, re.DOTALL)
    assert table is not None
    at = 0
    for offset, n_bytes in re.findall(r"^\| (\d+) \| (\d+) \|", table[0], re.MULTILINE):
        assert int(offset) == at
        at += int(n_bytes)

    assert at == size


def test_the_document_lists_every_refusal() -> None:
    part = re.split(r"(?m)^\| refusal \| \|", TEXT)[1].split("\n\n")[0]

    assert [int(code) for code in re.findall(r"^\| (\d) \|", part, re.MULTILINE)] == [
        *map(int, Refusal)
    ]
