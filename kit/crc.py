"""The checksum of frames and checkpoints: zlib's CRC-32, from a faster library.

Pure. The values are those of `zlib.crc32`, which takes three times as long for 64 bytes
and sixteen times for 64 KiB and more: its 0.4 ms for a MiB are longer than sending it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isal.isal_zlib import crc32 as crc32

__all__ = ["crc32", "digest"]


def digest(pieces: Iterable[Any]) -> int:
    """Return the CRC-32 of buffers as if they were one.

    >>> digest([b"12345", b"6789"]) == 0xCBF43926
    True
    """
    value = 0
    for piece in pieces:
        value = crc32(piece, value)
    return value
