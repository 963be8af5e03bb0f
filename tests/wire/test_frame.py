from __future__ import annotations

import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError, ProtocolError
from kit.wire.frame import (
    CHECKSUM,
    HALT,
    SIZE,
    Bounds,
    Buffer,
    FrameKind,
    Header,
    checksum,
    cluster_number,
    pack,
    unpack,
    verify,
)
from tests.cases import for_each

BOUNDS = Bounds(
    cluster=0x0123456789ABCDEF,
    max_length=1000,
    max_sender=3,
    max_epoch=40,
    max_tensor=5,
    max_chunk=6,
    max_hold_us=700,
)
GOOD = Header(FrameKind.DATA, cluster=BOUNDS.cluster)

# name, offset and struct format of each field, written down a second time on purpose
FIELDS = {
    "magic": (0, "4s"),
    "version": (4, "B"),
    "kind": (5, "B"),
    "flags": (6, "H"),
    "cluster": (8, "Q"),
    "epoch": (16, "I"),
    "sender": (20, "I"),
    "step": (24, "Q"),
    "sequence": (32, "Q"),
    "tensor": (40, "I"),
    "chunk": (44, "I"),
    "length": (48, "I"),
    "hold_us": (52, "I"),
    "checksum": (56, "I"),
    "reserved": (60, "I"),
}


def headers() -> st.SearchStrategy[Header]:
    def upto(high: int) -> st.SearchStrategy[int]:
        return st.integers(0, high)

    return st.builds(
        Header,
        kind=st.sampled_from(FrameKind),
        flags=st.sampled_from([0, HALT]),
        cluster=st.just(BOUNDS.cluster),
        epoch=upto(40),
        sender=upto(3),
        step=upto(2**63 - 1),
        sequence=upto(2**63 - 1),
        tensor=upto(5),
        chunk=upto(6),
        length=upto(1000),
        hold_us=upto(700),
        checksum=st.none(),
    )


@given(headers())
def test_what_is_packed_is_what_is_unpacked(header: Header) -> None:
    head = pack(header)

    assert len(head) == SIZE == 64
    assert unpack(head, bounds=BOUNDS) == header


@given(headers())
def test_each_field_lies_where_the_table_says(header: Header) -> None:
    head = pack(header)

    for name in set(FIELDS) - {"magic", "version", "checksum", "reserved"}:
        offset, form = FIELDS[name]
        assert struct.unpack_from(f"<{form}", head, offset)[0] == getattr(header, name)


@for_each(
    ("name", "value"),
    [
        ("magic", b"PSR2"),
        ("version", 0),
        ("version", 2),
        ("kind", 0),
        ("kind", 5),
        ("flags", 4),
        ("flags", 0x8000),
        ("cluster", BOUNDS.cluster + 1),
        ("epoch", 41),
        ("sender", 4),
        ("step", 2**63),
        ("sequence", 2**64 - 1),
        ("tensor", 6),
        ("chunk", 7),
        ("length", 1001),
        ("length", 2**32 - 1),
        ("hold_us", 701),
        ("checksum", 1),
        ("reserved", 1),
    ],
)
def test_a_field_out_of_bounds_is_named_with_its_value(
    name: str, value: int | bytes
) -> None:
    head = bytearray(pack(GOOD))
    offset, form = FIELDS[name]
    struct.pack_into(f"<{form}", head, offset, value)

    with pytest.raises(ProtocolError, match=f"'{name}' is {value!r}"):
        unpack(head, bounds=BOUNDS)


@for_each("n_bytes", range(SIZE))
def test_a_header_cut_short_is_refused(n_bytes: int) -> None:
    with pytest.raises(ProtocolError, match=f"{n_bytes} are here"):
        unpack(pack(GOOD)[:n_bytes], bounds=BOUNDS)


@pytest.mark.parametrize(
    ("field", "value"),
    [("epoch", 2**32), ("step", -1), ("kind", 256), ("length", 2**32)],
)
def test_a_value_that_does_not_fit_is_not_sent(field: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError, match="does not fit"):
        pack(GOOD._replace(**{field: value}))


def test_the_checksum_is_the_crc_of_header_and_payload() -> None:
    payload: list[Buffer] = [b"some", bytearray(b" bytes"), memoryview(b" here")]
    header = GOOD._replace(flags=CHECKSUM, length=15)

    head = pack(header, *payload)

    blank = head[:56] + bytes(8)
    expected = zlib.crc32(blank + b"some bytes here")
    assert struct.unpack_from("<I", head, 56)[0] == expected == checksum(head, *payload)
    verify(head, unpack(head, bounds=BOUNDS), b"some bytes here")


def test_the_cluster_number_is_the_front_of_the_id() -> None:
    cluster_id = random.Random(1).randbytes(16)

    head = pack(Header(FrameKind.PING, cluster=cluster_number(cluster_id)))

    assert head[8:16] == cluster_id[:8]
