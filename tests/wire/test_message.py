from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError, ProtocolError
from kit.wire.message import pack_message, unpack_message
from tests.cases import for_each

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


def body_of(text: bytes, blob: bytes = b"") -> bytearray:
    return bytearray(len(text).to_bytes(4, "little") + text + blob)


@pytest.mark.slow
@given(st.dictionaries(st.text(), PLAIN), st.binary())
def test_message_and_blob_come_back(message: dict[str, Any], blob: bytes) -> None:
    body = bytearray(b"".join(pack_message(message, blob)))

    assert unpack_message(body) == (message, bytearray(blob))


def test_the_blob_is_not_copied_for_sending() -> None:
    blob = memoryview(bytearray(100))

    assert pack_message({}, blob)[-1] is blob


@for_each(
    "body",
    [
        b"",
        b"\x00\x00\x00",
        (5).to_bytes(4, "little") + b"{}",
        b"\xff\xff\xff\xff{}",
        body_of(b""),
        body_of(b"{"),
        body_of(b"[]"),
        body_of(b"7"),
        body_of(b"null"),
        body_of(b'{"a":\xff}'),
        body_of(b"[" * 100_000),
        body_of(b'{"n":' + b"9" * 10_000 + b"}"),
        body_of(json.dumps({"a": 1}).encode("utf-16")),
    ],
    ids=range(13),
)
def test_anything_else_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="message"):
        unpack_message(bytearray(body))


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, 1j])
def test_what_is_not_plain_is_not_sent(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="plain data"):
        pack_message({"value": value})
