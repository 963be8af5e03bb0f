"""Records of training data that are damaged."""

from __future__ import annotations

import pytest

from kit.errors import InvalidArgumentError
from kit.graph.examples import decode, encode
from tests.cases import for_each

WHOLE = encode({"n": (3, [1, -1]), "x": (2, [0.5]), "s": (1, [b"a"])})


@for_each("record", [b"\xff\xff moon", b"\x0b", WHOLE[:-1], WHOLE[:9], b"\x80" * 12])
def test_what_is_no_example_is_refused(record: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=f"these {len(record)} bytes"):
        decode(record)


def test_fields_that_nobody_knows_are_left_out() -> None:
    unknown = b"\x10\x07" + b"\x1a\x01a" + b"\x25" + bytes(4) + b"\x29" + bytes(8)

    result = decode(unknown + WHOLE + unknown)

    assert {name: array.tolist() for name, array in result.items()} == {
        "n": [1, -1],
        "x": [0.5],
        "s": [b"a"],
    }
