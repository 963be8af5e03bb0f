"""Read and write files in folders that others may write to, such as a class's.

An untrusted file is opened only if it is a regular one of limited size.

Opening a FIFO waits for a writer for ever, /dev/zero has no end, a symbolic link leads
wherever its author likes, and a sparse file of gigabytes takes no room on the disk. All
of these are refused before a byte is read. Folders in the path may be links, as a
user's often are; only the file itself may not.

What is written goes to a file that is new (`create_regular`), and then takes the name
that was asked for (`replace_regular`): a link or a FIFO that somebody has put in the
way is refused or replaced, and nothing is ever written to where it leads.

Sparse is a large file that is nearly all holes: what is read of it may be a hundred
times what it holds, no more. File systems that compress leave holes for zeros, so some
are allowed; one that does not know of holes says that there are none.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    PermissionDeniedError,
    UnknownError,
)

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MORE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
_SMALL, _MOST_TIMES = 1 << 24, 100
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def user_path(value: object, what: str) -> Path:
    """Return a path that a user gave, with a leading `~` expanded.

    Raises `InvalidArgumentError` for what is no path, or an empty one; `what` says what
    belongs there.

    >>> user_path("runs/first", "the folder of a recording").name
    'first'
    """
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise InvalidArgumentError(f"{value!r} is not {what}; give its name as a text.")
    return Path(value).expanduser()


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
        status = os.fstat(fd)
        check_regular(path, status, error, most_bytes)
        if status.st_size > _SMALL and not _is_held(fd, status.st_size):
            raise error(
                f"{path} says that it has {status.st_size} bytes, and nearly all of "
                f"them are holes, of which no file is made here. It is another file, "
                f"or it is damaged."
            )
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb", buffering=0)


def _is_held(fd: int, size: int) -> bool:
    """Whether enough of a file is not holes; looks no further than that."""
    held = at = 0
    try:
        while held * _MOST_TIMES < size:
            begin = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, begin, os.SEEK_HOLE)
            held += at - begin
    except OSError as exc:
        # No data follow; any other error is of a file system without holes.
        return exc.errno != errno.ENXIO
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return True


def read_regular(
    path: str | os.PathLike[str],
    most_bytes: int,
    error: type[KitError] = InvalidArgumentError,
) -> bytes:
    """Return all bytes of a file; raises as `open_regular` does."""
    with open_regular(path, error, most_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def create_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Return a new file to write to; anything that has the name is an error.

    Raises `FileExistsError` then, for a link too, and other `OSError`.
    """
    return os.fdopen(os.open(path, _NEW, 0o666), "wb")


def append_regular(
    path: str | os.PathLike[str], error: type[KitError] = InvalidArgumentError
) -> BinaryIO:
    """Return an unbuffered file to append to, which is made if it is missing.

    Raises `error` if it is not a regular file, or one of another user, and `OSError`.
    """
    with suppress(FileNotFoundError):
        stat_regular(path, error)
    fd = os.open(path, _MORE | os.O_CLOEXEC, 0o666)
    try:
        status = os.fstat(fd)
        check_regular(path, status, error)
        if status.st_uid != os.geteuid():
            raise error(
                f"{path} belongs to user {status.st_uid}, and nothing of user "
                f"{os.geteuid()} is added to it. Remove it, or give another folder."
            )
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "ab", buffering=0)


def replace_regular(path: str | os.PathLike[str], pieces: Iterable[bytes]) -> None:
    """Write a file so that `path` holds either all of it or what it held before.

    The bytes go to a neighbouring file first, of a name that nobody can know before,
    which is removed if the pieces raise. A link called `path` is replaced. Raises
    `OSError` as the file system gives it.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.draft")
    file = create_regular(draft)
    try:
        with file:
            file.writelines(pieces)
            # On the disk before it gets the name: else a crash could leave the new name
            # with an empty file.
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_error(error: OSError, path: str | os.PathLike[str]) -> KitError:
    """Return what the system says about a file or folder as an error of `kit`."""
    text = f"{str(path)!r} cannot be written: {error.strerror}. Choose another folder."
    if isinstance(error, PermissionError):
        return PermissionDeniedError(text)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return FailedPreconditionError(text)
    return UnknownError(text)


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
