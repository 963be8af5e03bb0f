"""How a step function and its data get to the tasks of this host: once, in memory.

They are pickled once into a file in memory that the notebook holds, and each task maps
it: an array that no task writes to is there once for all. What is written to becomes
that task's own. The tasks open it while `shipped` lasts; it has no name to be left.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cloudpickle

_ALIGNED = 64


@dataclass(frozen=True)
class Parcel:
    """Where an object lies: the file, the length of its pickle, and its arrays."""

    path: str
    n_bytes: int
    arrays: tuple[tuple[int, int], ...]

    def open(self) -> Any:
        """Return a copy of the object, which has the memory in common."""
        with Path(self.path).open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        arrays = [whole[begin:end] for begin, end in self.arrays]
        return cloudpickle.loads(whole[: self.n_bytes], buffers=arrays)


@contextmanager
def shipped(value: Any) -> Iterator[Parcel]:
    """Pickle an object into memory for the processes of this host and user."""
    arrays: list[Any] = []
    text = cast(
        bytes, cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    )
    places: list[tuple[int, int]] = []
    with os.fdopen(os.memfd_create("kit-work", os.MFD_CLOEXEC), "wb") as file:
        file.write(text)
        for array in arrays:
            raw = array.raw()
            begin = -(-file.tell() // _ALIGNED) * _ALIGNED
            file.seek(begin)
            file.write(raw)
            places.append((begin, begin + raw.nbytes))
        file.truncate()
        file.flush()
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        yield Parcel(path, len(text), tuple(places))
