"""Memory that a task shares with its neighbours on the same host.

The owner creates an arena and sends its descriptor over a unix stream; a neighbour
attaches and reads in place what the owner writes, or writes what the owner should have.
Nothing has a name in a file system, and nothing is left behind: the memory goes with
its last holder.

An arena is bytes. Who may read which part and when is agreed elsewhere, by frames.
"""

from __future__ import annotations

import mmap
import os

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotEnoughMemory,
    ProtocolError,
)
from kit.system import new_memory, why_unsafe


class Arena:
    """One stretch of shared memory, mapped into this process.

    It owns its descriptor. Views may outlive `close`: the mapping stays until the last
    one is gone.
    """

    def __init__(self, fd: int, size: int, *, writable: bool) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.size = size
        self._fd = fd
        self._map: mmap.mmap | None = mmap.mmap(fd, size, mmap.MAP_SHARED, protection)

    @classmethod
    def create(cls, name: str, size: int) -> Arena:
        """Return a new arena of `size` bytes, all zero; `name` shows in /proc only.

        Memory is taken as it is first touched. Raises `InvalidArgumentError` for a size
        below 1 and `NotEnoughMemory` when the system refuses.
        """
        if size < 1:
            raise InvalidArgumentError(f"an arena of {size} bytes cannot be made.")
        try:
            fd = new_memory(name, size)
            try:
                return cls(fd, size, writable=True)
            except BaseException:
                os.close(fd)
                raise
        except (OSError, OverflowError) as exc:
            raise NotEnoughMemory(
                f"no {size} bytes of shared memory for {name!r}: {exc}. Train a "
                f"smaller model or with fewer tasks on this machine."
            ) from exc

    @classmethod
    def attach(cls, fd: int, expected_size: int, *, writable: bool = False) -> Arena:
        """Map an arena whose descriptor a neighbour sent.

        The descriptor belongs to the arena from here on, even if it is refused.
        Raises `ProtocolError` unless it is memory of exactly `expected_size` bytes that
        can neither shrink nor grow, as far as the system can fix a size.
        """
        try:
            problem = _unfit(fd, expected_size)
            if problem:
                raise ProtocolError(
                    f"descriptor {fd} is not an arena of {expected_size} bytes: "
                    f"{problem}. Drop the connection that it came from."
                )
            return cls(fd, expected_size, writable=writable)
        except BaseException:
            os.close(fd)
            raise

    @property
    def fd(self) -> int:
        """The descriptor, to be sent to neighbours; -1 once closed."""
        return self._fd

    def view(self, offset: int = 0, size: int | None = None) -> memoryview:
        """Return a part of the arena, to its end when no size is given; no copy.

        Read-only where the arena was attached so. Raises `InvalidArgumentError` for a
        part beyond the arena and `FailedPreconditionError` once it is closed.
        """
        if self._map is None:
            raise FailedPreconditionError(
                f"this arena of {self.size} bytes is closed; ask the task for its "
                f"arena again."
            )
        end = self.size if size is None else offset + size
        if not 0 <= offset <= end <= self.size:
            raise InvalidArgumentError(
                f"bytes {offset} to {end} are not within an arena of {self.size}."
            )
        return memoryview(self._map)[offset:end]

    def close(self) -> None:
        """Close the descriptor now, and the mapping with its last view."""
        if self._map is None:
            return
        os.close(self._fd)
        self._fd = -1
        try:
            self._map.close()
        except BufferError:
            pass  # arrays still refer to it: the last one to go frees it
        finally:
            self._map = None


def _unfit(fd: int, expected_size: int) -> str:
    """Return why `fd` must not be mapped, "" if it may be."""
    size = os.fstat(fd).st_size
    if size != expected_size or size < 1:
        return f"it has {size}"
    return why_unsafe(fd)
