"""`PROTOCOL.md` against the code: its vectors in both directions, and its tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kit.errors import AuthenticationFailed
from kit.task import Task
from kit.wire import frame
from kit.wire.frame import CHECKSUM, SIZE, Bounds, Header, cluster_number, pack, unpack
from kit.wire.handshake import messages
from kit.wire.handshake.handshake import ClientHandshake, ServerHandshake
from kit.wire.handshake.messages import Hello, Refusal, Role
from kit.wire.message import pack_message, unpack_message

TEXT = (Path(frame.__file__).parent / "PROTOCOL.md").read_text()
KEY, CLUSTER = bytes(range(32)), bytes(range(16, 32))
HELLO = Hello(Role.DATA, Task("worker", 2), 5, bytes(range(32, 48)))


def read_vectors() -> list[tuple[dict[str, Any], bytes]]:
    found = []
    for block in re.findall(r"```vector\n(.*?)```", TEXT, re.DOTALL):
        head, _, digits = block.partition("\n")
        found.append((json.loads(head), bytes.fromhex(digits)))
    return found


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
    assert set(BY_NAME) == {"hello", "reply", "proof", "verdict", "refusal"}
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
