"""How a step function and its data get to the tasks: once to each host, in memory.

They are pickled once. One process of each host holds the pickle in a file in memory,
and each task there maps it: all share one copy of an array until a task writes to it,
which gives that task its own copy of the page. On the notebook's host the notebook
holds it; on any other host it is the first task there, which alone gets the pickle over
the network.

The file has no name, so none can be left behind. Tasks open it through the process that
holds it, so they must belong to the same user and see that process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.cluster.cells.remote import opened
from kit.errors import FailedPreconditionError
from kit.pickling import Reducer, dumps

_ALIGNED = 64  # bytes of a cache line, and of the widest vector registers


@dataclass(frozen=True)
class MappedPickle:
    """Where an object is: the file, the length of its pickle, and its arrays."""

    path: str
    n_bytes: int
    arrays: tuple[tuple[int, int], ...]

    def open(self) -> Any:
        """Return a copy of the object, which shares the mapped memory.

        Raises `FailedPreconditionError` if the process that holds it cannot be seen.
        """
        try:
            with Path(self.path).open("rb") as file:
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        except OSError as error:
            raise FailedPreconditionError(
                f"the step function and the data cannot be mapped from {self.path}: "
                f"{error.strerror}. The process that holds them has ended, or this "
                f"task, which has the same address, cannot see it: both must be of "
                f"one user, and not in separate containers."
            ) from error
        arrays = [whole[begin:end] for begin, end in self.arrays]
        return opened(whole[: self.n_bytes], arrays)


@dataclass(frozen=True)
class Pickled:
    """An object as `cloudpickle` splits it: its pickle, and the arrays beside it."""

    text: bytes
    arrays: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any, what: str, reduced: Reducer | None = None) -> Pickled:
        """Pickle an object, `what` in messages; the arrays are not copied.

        `reduced` is as for `kit.pickling.dumps`. Raises `InvalidArgumentError`, naming
        what cannot be pickled.
        """
        arrays: list[Any] = []
        text = dumps(value, what, lambda buffer: arrays.append(buffer.raw()), reduced)
        return cls(text, tuple(arrays))

    def __reduce__(self) -> Any:
        # Views of memory cannot be pickled.
        return Pickled, (self.text, tuple(map(bytes, self.arrays)))

    @contextmanager
    def held(self) -> Iterator[MappedPickle]:
        """Hold it in memory, for processes of this host and user, during a block."""
        descriptor, mapped = self.hold()
        try:
            yield mapped
        finally:
            os.close(descriptor)

    def hold(self) -> tuple[int, MappedPickle]:
        """Return the descriptor that holds it, until it is closed, and what to map."""
        places: list[tuple[int, int]] = []
        descriptor = os.memfd_create("kit-work", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(self.text)
            for array in self.arrays:
                begin = -(-file.tell() // _ALIGNED) * _ALIGNED
                file.seek(begin)
                file.write(array)
                places.append((begin, begin + memoryview(array).nbytes))
            # The last array may be empty: then `seek` alone has not made the file long
            # enough to be mapped.
            file.truncate()
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        return descriptor, MappedPickle(path, len(self.text), tuple(places))
