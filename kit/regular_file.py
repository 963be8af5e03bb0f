"""Open an untrusted file only if it is a regular one of limited size.

Opening a FIFO waits for a writer for ever, /dev/zero has no end, a symbolic link leads
wherever its author likes, and a sparse file of gigabytes takes no room on the disk. All
of these are refused before a byte is read. Folders in the path may be links, as a
user's often are; only the file itself may not.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from kit.errors import InvalidArgumentError, KitError

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(
    path: str | os.PathLike[str],
    error: type[KitError] = InvalidArgumentError,
    most_bytes: int | None = None,
) -> BinaryIO:
    """Return an unbuffered file to read from.

    Raises `error` if it is not a regular file or has more than `most_bytes`, and the
    file system's `OSError`.
    """
    stat_regular(path, error, most_bytes)  # some devices act when they are opened
    fd = os.open(path, _FLAGS)
    try:
        # Again, because another file may have taken its place in between.
        check_regular(path, os.fstat(fd), error, most_bytes)
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb", buffering=0)


def read_regular(
    path: str | os.PathLike[str],
    most_bytes: int,
    error: type[KitError] = InvalidArgumentError,
) -> bytes:
    """Return all bytes of a file; raises as `open_regular` does."""
    with open_regular(path, error, most_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def stat_regular(
    path: str | os.PathLike[str],
    error: type[KitError] = InvalidArgumentError,
    most_bytes: int | None = None,
) -> os.stat_result:
    """Return the status of a file without opening it; raises as `open_regular` does."""
    status = Path(path).lstat()
    check_regular(path, status, error, most_bytes)
    return status


def check_regular(
    path: str | os.PathLike[str],
    status: os.stat_result,
    error: type[KitError] = InvalidArgumentError,
    most_bytes: int | None = None,
) -> None:
    """Raise `error` unless `status` is that of a regular file of `most_bytes`."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise error(f"{path} is {kind}, which is not read. Give a regular file.")
    if most_bytes is not None and status.st_size > most_bytes:
        raise error(
            f"{path} has {status.st_size} bytes, and what belongs there has "
            f"{most_bytes} at most. It is another file, or it is damaged."
        )
