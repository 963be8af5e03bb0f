"""The one door to the disk for checkpoints: create, write, sync, rename, remove.

A write is not on the disk when it returns, and neither is a rename; so code that needs
the order calls `sync`. Wherever a `Files` is taken another one may be given: that is
how tests record the calls, let one of them fail, or end the process at it.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from kit.errors import (
    CheckpointFailed,
    FailedPreconditionError,
    KitError,
    PermissionDeniedError,
    ResourceExhaustedError,
)

Buffer: TypeAlias = Any  # bytes, a memoryview, or an array: what os.write takes


class Files:
    """The disk of this machine. Every method raises `OSError` as the system does."""

    def make_folder(self, path: Path, *, is_private: bool = False) -> None:
        """Make a folder; a private one can be entered only by this user."""
        path.mkdir(mode=0o700 if is_private else 0o777)

    def create(self, path: Path) -> int:
        """Return a descriptor of a new file; one that exists is an error."""
        # O_EXCL also refuses a link: nobody can make us write elsewhere.
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: Buffer) -> int:
        """Write the beginning of some bytes; return how many of them."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Wait until what was written is on the disk."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        os.close(descriptor)

    def sync_folder(self, path: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder another name, in one indivisible step."""
        source.rename(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        path.rmdir()


FILES = Files()


def write_all(files: Files, descriptor: int, data: memoryview) -> None:
    """Write all bytes, in as many calls as the system needs."""
    while data.nbytes:
        data = data[files.write(descriptor, data) :]


def write_file(files: Files, path: Path, data: bytes) -> None:
    """Write a new file that is on the disk when this returns (its name is not)."""
    descriptor = files.create(path)
    try:
        write_all(files, descriptor, memoryview(data))
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that appears whole, in place of an older one."""
    draft = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        write_file(FILES, draft, data)
        FILES.rename(draft, path)
    except BaseException:
        with suppress(OSError):
            FILES.remove(draft)
        raise
    FILES.sync_folder(path.parent)


def remove_tree(files: Files, folder: Path) -> None:
    """Remove a folder of files and folders; what is gone already is not an error.

    Of a link only the link, never what it points to, which may be somebody else's.
    """
    if folder.is_symlink():
        files.remove(folder)
        return
    try:
        inside = list(folder.iterdir())
    except FileNotFoundError:
        return
    for path in inside:
        if path.is_dir():
            remove_tree(files, path)
        else:
            files.remove(path)
    files.remove_folder(folder)


_CLASSES: Final[Mapping[int, type[KitError]]] = {
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    errno.ENOTDIR: FailedPreconditionError,
    errno.EEXIST: FailedPreconditionError,
    errno.ENOSPC: ResourceExhaustedError,
    errno.EDQUOT: ResourceExhaustedError,
    errno.EFBIG: ResourceExhaustedError,
}


def refused(path: Path, exc: OSError) -> KitError:
    """Return the error to raise for a path that the system does not let us use.

    `PermissionDeniedError`, `FailedPreconditionError` for a file in the way,
    `ResourceExhaustedError` for a full disk, else `CheckpointFailed`.
    """
    kind = _CLASSES.get(exc.errno or 0, CheckpointFailed)
    return kind(
        f"{path} cannot be used for checkpoints: {exc.strerror or exc}. Choose another "
        f"place, or see that this one can be written and its disk has room. "
        f"Checkpoints that are there are untouched."
    )
