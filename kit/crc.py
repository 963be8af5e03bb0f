"""The checksum of frames and checkpoints: zlib's CRC-32, by a quicker library.

Pure. The values are those of `zlib.crc32`, 64 bytes in a third of its time and 64 KiB
and more in a sixteenth: zlib takes 0.4 ms a MiB, longer than sending it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isal.isal_zlib import crc32 as crc32

__all__ = ["crc32", "digest"]


def digest(pieces: Iterable[Any]) -> int:
    """Return the CRC-32 of buffers, one after the other.

    >>> digest([b"12345", b"6789"]) == 0xCBF43926
    True
    """
    value = 0
    for piece in pieces:
        value = crc32(piece, value)
    return value
