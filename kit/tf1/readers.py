"""Readers, `tf.TFRecordReader` and its like: records of the files that a queue names.

A reader reads on the task on which it is placed, from the disk of that task.
"""

from __future__ import annotations

from typing import Any

from kit.tf1.queues import QueueBase
from kit.tf1.tensor.convert import convert_to_tensor, create, create_op, op_scope
from kit.tf1.tensor.dtypes import int64, string


class ReaderBase:
    """What all readers have in common."""

    def __init__(self, op_type: str, name: str | None, **settings: Any) -> None:
        """Users make a `tf.TextLineReader` or one of the others."""
        self.reader_ref = create(op_type, name=name or op_type[:-2], **settings)

    def read(self, queue: Any, name: str | None = None) -> tuple[Any, Any]:
        """Return the next record: its key, which tells where it was, and its value.

        Takes the name of the next file from `queue` where one ends, and waits for it.
        Raises in a run: `OutOfRangeError` when the queue is closed and empty, and
        `NotFoundError` for a file that is not there.
        """
        with op_scope(name, "ReaderReadV2", [self.reader_ref]) as scope:
            key, value = create("ReaderReadV2", *self._on(queue), name=scope)
        return key, value

    def read_up_to(
        self, queue: Any, num_records: Any, name: str | None = None
    ) -> tuple[Any, Any]:
        """Return up to so many records of one file, as vectors; see `read`."""
        with op_scope(name, "ReaderReadUpToV2", [self.reader_ref]) as scope:
            count = convert_to_tensor(num_records, int64, name="num_records")
            pair = create("ReaderReadUpToV2", *self._on(queue), count, name=scope)
        return tuple(pair)

    def _on(self, queue: Any) -> tuple[Any, Any]:
        queue_ref = queue.queue_ref if isinstance(queue, QueueBase) else queue
        return self.reader_ref, queue_ref

    def num_records_produced(self, name: str | None = None) -> Any:
        """Return how many records it has given."""
        return create("ReaderNumRecordsProducedV2", self.reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Any:
        """Return how many files it has read to the end."""
        return create("ReaderNumWorkUnitsCompletedV2", self.reader_ref, name=name)

    def reset(self, name: str | None = None) -> Any:
        """Return an operation that leaves the file it is in."""
        return create_op("ReaderResetV2", self.reader_ref, name=name)


class WholeFileReader(ReaderBase):
    """Gives the name of a file and all its bytes."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__("WholeFileReaderV2", name)


class IdentityReader(ReaderBase):
    """Gives what is in the queue, as key and value."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__("IdentityReaderV2", name)


class TextLineReader(ReaderBase):
    """Gives line after line, without its end; the key is `file:number`, from 1."""

    def __init__(
        self, skip_header_lines: int | None = None, name: str | None = None
    ) -> None:
        skipped = skip_header_lines or 0
        super().__init__("TextLineReaderV2", name, skip_header_lines=skipped)


class FixedLengthRecordReader(ReaderBase):
    """Gives pieces of `record_bytes`; the key is `file:number`, from 0."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """Take the bytes to skip at both ends, and how far the next piece begins.

        Raises `ValueError` for an encoding, which are not read here, and for sizes
        that cannot be.
        """
        if encoding:
            raise ValueError(f"FixedLengthRecordReader reads no {encoding!r} here.")
        sizes = {
            "record_bytes": int(record_bytes),
            "header_bytes": int(header_bytes or 0),
            "footer_bytes": int(footer_bytes or 0),
            "hop_bytes": int(hop_bytes or 0),
        }
        if sizes["record_bytes"] < 1 or min(sizes.values()) < 0:
            raise ValueError(f"a record has bytes, 1 or more, not {sizes}.")
        super().__init__("FixedLengthRecordReaderV2", name, **sizes)


class TFRecordReader(ReaderBase):
    """Gives the records that a `tf.python_io.TFRecordWriter` has written."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        """Take the options that they were written with."""
        kind = getattr(options, "compression", "")
        super().__init__("TFRecordReaderV2", name, compression=kind)


def read_file(filename: Any, name: str | None = None) -> Any:
    """Return the bytes of a file, on the task where this is placed.

    Raises `NotFoundError` in a run.
    """
    with op_scope(name, "ReadFile", [filename]) as scope:
        path = convert_to_tensor(filename, string, name="filename")
        return create("ReadFile", path, name=scope)


def matching_files(pattern: Any, name: str | None = None) -> Any:
    """Return the names of the files that match patterns such as `/data/*.txt`."""
    with op_scope(name, "MatchingFiles", [pattern]) as scope:
        patterns = convert_to_tensor(pattern, string, name="pattern")
        return create("MatchingFiles", patterns, name=scope)
