"""Shards of writers whose host does not see the checkpoint's folder.

Theory of operation
-------------------

The folder is where the coordinator is. A writer that finds the draft's name on its own
host writes there: both are on one host, or share the folder. The name is random, so it
is found nowhere by chance. Any other writer sends what it would write, block by block,
and the coordinator's task writes the file in its place:

    writer        write_shard -> SentFile ==run.collect: offset, block==> CollectedFile
    coordinator                                                           draft/job-i

Each block is answered before the next one is sent, so no more than one is on its way,
and the writer's disk is the coordinator's, errors included. An empty block at the end
asks for all to be on the disk. A block that comes twice, because its answer was lost,
begins before the end of the file and is only answered. The manifest has the digest
of what the writer meant to write; what came is read against it, as from any disk.

The blocks travel beside the training: they cost its links nothing but bandwidth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.checkpoint import FILES, SUFFIX, Files
from kit.checkpoint.files import refused, write_all
from kit.errors import CheckpointFailed, InvalidArgumentError
from kit.task import Task


def shard_file(task: Task) -> str:
    """Return the name of a task's shard.

    >>> shard_file(Task("ps", 0))
    'ps-0.safetensors'
    """
    return f"{task.job}-{task.index}{SUFFIX}"


class SentFile(Files):
    """A file of the coordinator's host, as `write_shard` writes it: from the beginning.

    `send` hands over a block and where it belongs; it returns when that is written.
    """

    def __init__(self, send: Callable[[int, Any], None]) -> None:
        self._send, self._size = send, 0

    def create(self, path: Path) -> int:
        """See `Files`; the coordinator chooses the name."""
        return -1

    def write(self, descriptor: int, data: Any) -> int:
        """See `Files`; the block is written whole."""
        block = memoryview(data)
        self._send(self._size, block)
        self._size += block.nbytes
        return block.nbytes

    def sync(self, descriptor: int) -> None:
        """See `Files`."""
        self._send(self._size, b"")

    def close(self, descriptor: int) -> None:
        """See `Files`; the coordinator closes it with the save."""


class CollectedFile:
    """The same file at the coordinator. Every method may be called from any thread."""

    def __init__(self, path: Path, files: Files = FILES) -> None:
        """Create it; raises what the system refuses, as a `KitError`."""
        self._path, self._files, self._size = path, files, 0
        self._guard, self._is_closed = threading.Lock(), False
        try:
            self._descriptor = files.create(path)
        except OSError as error:
            raise refused(path, error) from error

    def take(self, offset: int, block: Any) -> None:
        """Write a block that belongs there; an empty one waits for the disk.

        Raises `InvalidArgumentError` for one that leaves a gap, and what the system
        refuses.
        """
        with self._guard:
            if self._is_closed:
                raise CheckpointFailed(f"{self._path.parent} was given up.")
            data = memoryview(block)
            if offset < self._size:
                return  # heard twice
            if offset != self._size:
                raise InvalidArgumentError(
                    f"a block for {self._path} begins at {offset}, and "
                    f"{self._size} bytes are there; blocks come in order."
                )
            try:
                write_all(self._files, self._descriptor, data)
                if not data.nbytes:
                    self._files.sync(self._descriptor)
            except OSError as error:
                raise refused(self._path, error) from error
            self._size += data.nbytes

    def close(self) -> None:
        """Let go of the file; what comes later is refused."""
        with self._guard:
            if not self._is_closed:
                self._is_closed = True
                self._files.close(self._descriptor)
