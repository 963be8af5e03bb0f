"""What files of training data hold: lines, records of a length, TFRecords.

A TFRecord is its length, 8 bytes, their checksum, the record and its checksum, 4 bytes
each. Of the two checksums that of the length is compared, so that a wrong length is no
order to read the whole disk; nor is a right one of more than the file can hold.
"""

from __future__ import annotations

import glob
import gzip
import os
import stat
import struct
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from kit.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnknownError,
)
from kit.session.worker.queues import CanWait, FifoQueue

# --------------------------------------------------------------------------------------
# A reader on its task: takes names of files from a queue and gives their records.


class Reader:
    """Gives the records of one file after the other, in whatever runs they are asked.

    `records` opens a file and yields its records.
    """

    def __init__(self, name: str, records: Callable[[bytes], Iterator[Record]]) -> None:
        self.name, self._open = name, records
        self._current: Iterator[Record] | None = None
        self.n_records = self.n_files = 0
        self._line = deque[object]()
        self._changed = threading.Condition()

    def read(self, call: CanWait, queue: FifoQueue, n: int) -> list[Record]:
        """Return the next record, or up to `n` of one file; waits for a file.

        Raises `OutOfRangeError` when the queue is closed and no file is left, and what
        opening a file raises; the next read goes on with the next file.
        """
        with self._alone(call):
            records = list[Record]()
            while not records:
                if self._current is None:
                    ((path,),) = queue.dequeue(call, 1)
                    self._current = self._open(path.item())
                records = self._take(n)
            return records

    def _take(self, n: int) -> list[Record]:
        assert self._current is not None, "a file is open"
        records = list[Record]()
        try:
            while len(records) < n:
                records.append(next(self._current))
        except StopIteration:
            self._current = None
            self.n_files += 1
        except Exception:
            self._current = None
            raise
        self.n_records += len(records)
        return records

    def reset(self) -> None:
        """Begin anew, with the next file of the queue."""
        with self._changed:
            self._current = None
            self.n_records = self.n_files = 0

    @contextmanager
    def _alone(self, call: CanWait) -> Iterator[None]:
        """Wait for the reads that came before; a run that ends leaves the line."""
        me = object()
        with self._changed:
            self._line.append(me)
        try:
            with self._changed:
                call.wait(lambda: self._line[0] is me, self._changed, self._what)
            yield
        finally:
            with self._changed:
                self._line.remove(me)
                self._changed.notify_all()

    def _what(self) -> str:
        return f"other reads of reader `{self.name}`"


# --------------------------------------------------------------------------------------
# The files.

_BLOCK: Final = 1 << 16
_DEFLATED: Final = 1032  # the most that a byte of a compressed file may be
Record = tuple[bytes, bytes]  # a key, which tells the place in the file, and the value


def read_whole(path: bytes) -> bytes:
    """Return a file's bytes.

    Raises `NotFoundError`, `PermissionDeniedError` and, for anything else that the
    system says, `UnknownError`.
    """
    with opened(path) as file:
        return file.read()


def opened(path: bytes, compression: str = "") -> BinaryIO:
    """Return a file to read from, made plain if it is compressed: GZIP or ZLIB."""
    name = path.decode()
    try:
        if compression == "GZIP":
            return cast(BinaryIO, gzip.open(name, "rb"))
        if compression == "ZLIB":
            return BufferedReader(_Inflated(name))
        if not compression:
            return Path(name).open("rb")
    except FileNotFoundError as exc:
        raise NotFoundError(f"{name}; No such file or directory") from exc
    except PermissionError as exc:
        raise PermissionDeniedError(f"{name}; Permission denied") from exc
    except OSError as exc:
        raise UnknownError(f"{name} cannot be read: {exc}") from exc
    raise InvalidArgumentError(
        f"there is no compression {compression!r}; give 'GZIP', 'ZLIB' or ''."
    )


class _Inflated(RawIOBase):
    """The contents of a ZLIB file, as far as they are read: they may be a thousandfold.

    Reading raises `UnknownError` for what is no such file, or a part of one.
    """

    def __init__(self, name: str) -> None:
        self._file = Path(name).open("rb")  # noqa: SIM115  # until `close`
        self._inflate = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        """Fill a buffer as far as that is possible at once; 0 at the end."""
        part, inflate = b"", self._inflate
        while len(room) and not part and not inflate.eof:
            packed = inflate.unconsumed_tail or self._file.read(_BLOCK)
            try:
                part = inflate.decompress(packed, len(room))
                if not packed:
                    raise zlib.error("incomplete or truncated stream")
            except zlib.error as exc:
                name = self._file.name
                raise UnknownError(f"{name} cannot be read: {exc}") from exc
        room[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def matching(pattern: bytes) -> list[bytes]:
    """Return the paths that match a pattern such as `/data/*.txt`."""
    return [os.fsencode(path) for path in glob.glob(os.fsdecode(pattern))]  # noqa: PTH207


def _whole(path: bytes) -> Iterator[Record]:
    yield path, read_whole(path)


def _itself(path: bytes) -> Iterator[Record]:
    yield path, path


def _lines(
    path: bytes, skip_header_lines: int = 0, compression: str = ""
) -> Iterator[Record]:
    with opened(path, compression) as file:
        for number, line in enumerate(file, 1):
            if number > skip_header_lines:
                value = line.removesuffix(b"\n").replace(b"\r", b"")
                yield path + b":%d" % number, value


def _pieces(
    path: bytes,
    record_bytes: int,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    hop_bytes: int = 0,
) -> Iterator[Record]:
    content = read_whole(path)
    last = len(content) - footer_bytes - record_bytes
    begins = range(header_bytes, last + 1, hop_bytes or record_bytes)
    for number, begin in enumerate(begins):
        yield path + b":%d" % number, content[begin : begin + record_bytes]


def _whole_pieces(
    path: bytes,
    record_bytes: int,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    compression: str = "",
) -> Iterator[Record]:
    with opened(path, compression) as file:
        content = file.read()
    size = len(content) - header_bytes - footer_bytes
    if size % record_bytes:
        raise InvalidArgumentError(
            f"Excluding the header ({header_bytes} bytes) and footer ({footer_bytes} "
            f"bytes), input file {path.decode()!r} has body length {size} bytes, which "
            f"is not an exact multiple of the record length ({record_bytes} bytes)."
        )
    for begin in range(header_bytes, header_bytes + size, record_bytes):
        yield path, content[begin : begin + record_bytes]


def records(path: bytes, compression: str = "") -> Iterator[Record]:
    """Yield the records of a file; raises `DataLossError` where it is damaged."""
    at = 0
    with opened(path, compression) as file:
        status = Path(os.fsdecode(path)).stat()
        most = status.st_size * (_DEFLATED if compression else 1)
        most = most if stat.S_ISREG(status.st_mode) else sys.maxsize - 4
        # A head that is cut is the end, as in the original.
        while len(head := file.read(12)) == 12:
            if masked(head[:8]) != head[8:]:
                raise DataLossError(f"corrupted record at {at} of {path.decode()}")
            (size,) = struct.unpack("<Q", head[:8])
            if size > most:
                raise DataLossError(
                    f"truncated record at {at} of {path.decode()}: it has {size} bytes "
                    f"by its head, more than such a file can hold"
                )
            body = file.read(size + 4)
            if len(body) < size + 4:
                raise DataLossError(f"truncated record at {at} of {path.decode()}")
            yield path + b":%d" % at, body[:size]
            at += 12 + len(body)


# The kinds of readers, by the type of their op; the last one is a dataset's alone.
READERS: Final[Mapping[str, Callable[..., Iterator[Record]]]] = {
    "WholeFileReaderV2": _whole,
    "IdentityReaderV2": _itself,
    "TextLineReaderV2": _lines,
    "FixedLengthRecordReaderV2": _pieces,
    "TFRecordReaderV2": records,
    "FixedLengthRecordDatasetV2": _whole_pieces,
}


@cache
def _table() -> tuple[int, ...]:
    """Return what each byte adds to a CRC-32C, the checksum of Castagnoli."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F6_3B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def masked(data: Any) -> bytes:
    """Return the checksum that a TFRecord has of some bytes.

    >>> masked(bytes(32)).hex()  # 8a9136aa in RFC 3720, B.4
    'faffd70f'
    """
    table, value = _table(), 0xFFFF_FFFF
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFF_FFFF
    turned = (value >> 15 | value << 17) + 0xA282_EAD8
    return struct.pack("<I", turned & 0xFFFF_FFFF)
