"""The fast CRC-32 against zlib's own."""

from __future__ import annotations

import array
import mmap
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.crc import crc32
from kit.wire.frame import Buffer
from tests.cases import for_each

FORMS: dict[str, Callable[[bytes], Buffer]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memory that can be written": lambda data: memoryview(bytearray(data)),
    "a view not at the start": lambda data: memoryview(b"front" + data)[5:],
    "an array of numpy": lambda data: np.frombuffer(data, np.uint8).data,
    "an array of numbers": lambda data: memoryview(array.array("b", data)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.binary(max_size=5000), before=st.integers(0, 2**32 - 1))
def test_every_kind_of_buffer_has_the_value_of_zlib(
    form: Callable[[bytes], Buffer], data: bytes, before: int
) -> None:
    assert crc32(form(data), before) == zlib.crc32(data, before)


@for_each("form", FORMS.values(), ids=FORMS)
def test_no_bytes_change_nothing(form: Callable[[bytes], Buffer]) -> None:
    assert crc32(form(b"")) == 0
    assert crc32(form(b""), 0xFFFFFFFF) == 0xFFFFFFFF


@for_each("n_bytes", [300, 2**16 - 1, 2**16 + 1, 2**20 + 3])
def test_long_data_has_the_value_of_zlib_whole_and_in_pieces(n_bytes: int) -> None:
    data = np.random.default_rng(n_bytes).bytes(n_bytes)

    assert crc32(data) == zlib.crc32(data)
    for cut in (0, 1, 100, n_bytes):
        assert crc32(data[cut:], crc32(data[:cut])) == zlib.crc32(data)


def test_items_wider_than_a_byte_are_counted_as_bytes() -> None:
    numbers = np.arange(1000, dtype=np.float32)

    assert crc32(numbers.data) == zlib.crc32(numbers.tobytes())


def test_mapped_memory_can_be_counted() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:4] = b"psr1"

        assert crc32(mapped) == zlib.crc32(b"psr1" + bytes(4092))


def test_memory_with_gaps_is_refused_as_by_zlib() -> None:
    with pytest.raises(BufferError):
        zlib.crc32(memoryview(b"abcdef")[::2])
    with pytest.raises(BufferError):
        crc32(memoryview(b"abcdef")[::2])
