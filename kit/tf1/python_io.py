"""`tf.python_io`: files of TFRecords, written and read by the program itself."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kit.errors import NotFoundError
from kit.regular_file import write_error
from kit.session.worker.record_files import masked, records
from kit.tf1.not_offered import refusing


class TFRecordCompressionType:
    """How a file is compressed."""

    NONE, ZLIB, GZIP = range(3)


_NAMES: Final[dict[Any, str]] = {
    None: "",
    "": "",
    "NONE": "",
    "ZLIB": "ZLIB",
    "GZIP": "GZIP",
    TFRecordCompressionType.NONE: "",
    TFRecordCompressionType.ZLIB: "ZLIB",
    TFRecordCompressionType.GZIP: "GZIP",
}


class TFRecordOptions:
    """How a file is written and read."""

    def __init__(self, compression_type: Any = None) -> None:
        """Take a compression; raises `ValueError` for an unknown one."""
        if compression_type not in _NAMES:
            raise ValueError(f"Not a valid compression_type: {compression_type!r}")
        self.compression_type = compression_type

    @property
    def compression(self) -> str:
        """Its name: GZIP, ZLIB or ''."""
        return _NAMES[self.compression_type]


class TFRecordWriter:
    """Writes records, which are bytes, to a new file."""

    def __init__(self, path: Any, options: Any = None) -> None:
        """Make the file, or empty the one that is there.

        Raises `NotFoundError` where its folder is not there.
        """
        how = (
            options
            if isinstance(options, TFRecordOptions)
            else TFRecordOptions(options)
        )
        self._path = os.fspath(path)
        try:
            self._file: Any = Path(self._path).open("wb")  # noqa: SIM115
        except FileNotFoundError as exc:
            raise NotFoundError(f"{self._path}; No such file or directory") from exc
        except OSError as exc:
            raise write_error(exc, self._path) from exc
        self._zip = zlib.compressobj() if how.compression == "ZLIB" else None
        self._plain = self._file
        if how.compression == "GZIP":
            self._file = gzip.GzipFile(fileobj=self._plain, mode="wb")

    def write(self, record: bytes) -> None:
        """Append a record; raises `TypeError` for anything but bytes."""
        if not isinstance(record, bytes):
            raise TypeError(f"a record is bytes, not {type(record).__name__}.")
        head = struct.pack("<Q", len(record))
        whole = head + masked(head) + record + masked(record)
        self._file.write(whole if self._zip is None else self._zip.compress(whole))

    def flush(self) -> None:
        """Give the system what was written."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        if self._plain.closed:
            return
        if self._zip is not None:
            self._file.write(self._zip.flush())
        self._file.close()
        self._plain.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Yield the records of a file; raises `DataLossError` where it is damaged."""
    kind = "" if options is None else options.compression
    for _, record in records(os.fspath(path).encode(), kind):
        yield record


__getattr__ = refusing("python_io")
