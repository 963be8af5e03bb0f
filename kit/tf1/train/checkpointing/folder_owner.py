"""One process at a time saves into a folder: two chiefs would spoil each other's files.

The lock is one on the folder itself. It leaves no file behind, and ends with its
process however that ends. In one process several sessions may share it, one after the
other or nested.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

from kit.errors import FailedPreconditionError

_LOCKS = Path("/proc/locks")
_guard = threading.Lock()
_held: dict[tuple[int, int], list[int]] = {}  # by device and inode: [fd, holders]


def hold(folder: Path) -> Callable[[], None]:
    """Keep other processes from saving into a folder; returns what ends that.

    Raises `FailedPreconditionError`, with the process, if another one has it. Where the
    file system knows no locks nothing is kept.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    found = os.fstat(fd)
    key = (found.st_dev, found.st_ino)
    with _guard:
        if key in _held:
            os.close(fd)
            _held[key][1] += 1
        else:
            _lock(fd, folder, found.st_ino)
            _held[key] = [fd, 1]
    return lambda: _release(key)


def _lock(fd: int, folder: Path, inode: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(fd)
        raise FailedPreconditionError(
            f"{_owner(inode)} saves checkpoints into {str(folder)!r} already: there "
            f"are two chiefs. Give is_chief=True to one worker alone, or each training "
            f"a checkpoint_dir of its own."
        ) from exc
    except OSError:
        return  # a file system without locks: it cannot be known


def _release(key: tuple[int, int]) -> None:
    with _guard:
        if key in _held:
            _held[key][1] -= 1
            if not _held[key][1]:
                os.close(_held.pop(key)[0])


def _owner(inode: int) -> str:
    """Return which process holds the lock of a file, as far as the system tells."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return "another process"
    for line in lines:
        words = line.split()
        if "FLOCK" in words and any(one.endswith(f":{inode}") for one in words):
            return f"process {words[words.index('FLOCK') + 3]}"
    return "another process"
