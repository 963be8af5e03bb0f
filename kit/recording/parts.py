"""The files of a recording: parts, one after the other, each under its own checksum.

All numbers are little-endian.

    offset  size  the file begins with
         0     8  "psring" 0x00 "R"
         8     2  version of the format, 1
        10     2  what the file is: 0 the log, 1 messages
        12     4  zero

    offset  size  and then each part has
         0     4  its kind, capital letters
         4     4  bytes of its text
         8     4  bytes of its rows
        12     4  CRC-32 of these twelve bytes
        16     4  CRC-32 of text and rows
        20        the text: a JSON object in UTF-8
                  the rows: a packed numpy table; the kind implies its dtype

A file is only ever appended to. One that was cut off, because its program was killed
or the disk was full, is read up to its last complete part. A wrong checksum means
damage: then nothing of the file is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from kit.checkpoint import FILES, Files
from kit.checkpoint.files import write_all
from kit.crc import crc32
from kit.errors import DataLossError, InvalidArgumentError, VersionMismatch
from kit.regular_file import read_regular

FORMAT: Final = 1
LOG: Final = 0
MESSAGES: Final = 1
MOST_BYTES: Final = 1 << 31
_MAGIC: Final = b"psring\x00R"
_BEGIN: Final = Struct("<8sHHI")
_HEAD: Final = Struct("<4sII")
_SUMS: Final = Struct("<II")


class FilePart(NamedTuple):
    """One part of a file: its kind, its text as plain data, its rows as bytes."""

    kind: str
    plain: Mapping[str, Any]
    rows: bytes


class PartFile:
    """A new file to which parts are appended. One thread at a time may use it."""

    def __init__(self, path: Path, what: int, files: Files = FILES) -> None:
        """Create the file; raises `OSError` as the file system gives it."""
        self.path, self.n_bytes = path, 0
        self._files = files
        self._descriptor = files.create(path)
        self._write(_BEGIN.pack(_MAGIC, FORMAT, what, 0))

    def append(self, kind: str, plain: Mapping[str, Any], rows: bytes = b"") -> None:
        """Append one part; raises `OSError` as the file system gives it."""
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
        head = _HEAD.pack(kind.encode(), len(text), len(rows))
        sums = _SUMS.pack(crc32(head), crc32(rows, crc32(text)))
        self._write(b"".join((head, sums, text, rows)))

    def close(self) -> None:
        """Wait until all is on the disk, and close."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)

    def _write(self, data: bytes) -> None:
        write_all(self._files, self._descriptor, memoryview(data))
        self.n_bytes += len(data)


@dataclass(frozen=True)
class FileParts:
    """The parts of a file.

    Attributes:
        is_torn: whether its last part is incomplete.
        sha256: of all bytes before the last complete part.
    """

    parts: tuple[FilePart, ...]
    is_torn: bool
    sha256: str


def read_parts(path: Path, what: int) -> FileParts:
    """Read a file of parts.

    Raises `InvalidArgumentError` for another file, one that is not regular or has
    more than 2 GiB, `VersionMismatch` for one of another version, `DataLossError` for
    damage, and `OSError` as the file system gives it.
    """
    data = memoryview(read_regular(path, MOST_BYTES))
    check_begin(path, data, what)
    parts: list[FilePart] = []
    at = last = _BEGIN.size
    for size, part in _parts(path, data):
        at, last = at + size, at
        parts.append(part)
    sha256 = hashlib.sha256(data[:last]).hexdigest()
    return FileParts(tuple(parts), at < len(data), sha256)


def check_begin(path: Path, data: memoryview, what: int) -> None:
    """Raise as `read_parts` does, for the first bytes of a file."""
    if len(data) < _BEGIN.size and _MAGIC.startswith(bytes(data[: len(_MAGIC)])):
        raise DataLossError(f"{path} is empty: its recording had not begun.")
    if len(data) < _BEGIN.size or bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise InvalidArgumentError(
            f"{path} is not a file of a recording; give the folder that kit.train(..., "
            f"record=folder) has written."
        )
    _, version, name_read, zero = _BEGIN.unpack_from(data)
    if version != FORMAT:
        raise VersionMismatch(
            f"{path} has version {version} of the format of recordings, and this "
            f"version of psring reads {FORMAT}; load it with the one that wrote it."
        )
    if (name_read, zero) != (what, 0):
        raise DataLossError(f"{path} is damaged: its first bytes contradict its name.")


def _parts(path: Path, data: memoryview) -> Iterator[tuple[int, FilePart]]:
    at, begin = _BEGIN.size, _HEAD.size + _SUMS.size
    while len(data) - at >= begin:
        kind, n_text, n_rows = _HEAD.unpack_from(data, at)
        of_head, of_body = _SUMS.unpack_from(data, at + _HEAD.size)
        if crc32(data[at : at + _HEAD.size]) != of_head:
            raise _damaged(path, at, "the checksum of a part's head is another one")
        size = begin + n_text + n_rows
        # Its head is right and its end is missing: cut off, not damaged.
        if size > len(data) - at:
            return
        text = data[at + begin : at + begin + n_text]
        rows = data[at + begin + n_text : at + size]
        if crc32(rows, crc32(text)) != of_body:
            raise _damaged(path, at, "the checksum of a part is another one")
        try:
            plain = json.loads(bytes(text))
            if not isinstance(plain, dict):
                raise ValueError("the text is not an object")
            yield size, FilePart(kind.decode("ascii"), plain, bytes(rows))
        except (ValueError, RecursionError) as exc:
            raise _damaged(path, at, str(exc)) from exc
        at += size


def _damaged(path: Path, at: int, what: str) -> DataLossError:
    return DataLossError(
        f"{path} is damaged at byte {at}: {what}. Nothing of it is used; take another "
        f"copy of the recording."
    )
