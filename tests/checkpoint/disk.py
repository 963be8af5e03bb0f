"""Disks that fail, and disks that remember, for code that writes through `Files`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

from kit.checkpoint.files import Buffer, Files

# What a full disk refuses; it still lets files be removed.
NEEDS_ROOM: Final = frozenset({"make_folder", "create", "write", "sync", "sync_folder"})
EVERY_CALL: Final = NEEDS_ROOM | {"rename", "remove", "remove_folder"}


class FileCall(NamedTuple):
    """One call to the file system.

    Parameters
    ----------
    kind : str
        One of `EVERY_CALL`, such as "write".
    path : Path
        Of the file or folder.
    data : bytes
        What is written.
    target : Path, optional
        The new name, of a rename.
    """

    kind: str
    path: Path
    data: bytes = b""
    target: Path | None = None


class WatchedFiles(Files):
    """Files that report each call before it is made.

    Parameters
    ----------
    report : callable
        Takes a `FileCall`. It may raise `OSError`; then the call is not made.
    """

    def __init__(self, report: Callable[[FileCall], None]) -> None:
        self._report, self._paths = report, dict[int, Path]()

    def make_folder(self, path: Path, *, is_private: bool = False) -> None:
        """Tell, and make a folder."""
        self._report(FileCall("make_folder", path))
        super().make_folder(path, is_private=is_private)

    def create(self, path: Path) -> int:
        """Tell, and create a file."""
        self._report(FileCall("create", path))
        descriptor = super().create(path)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: Buffer) -> int:
        """Tell, and write."""
        self._report(FileCall("write", self._paths[descriptor], bytes(data)))
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Tell, and sync a file."""
        self._report(FileCall("sync", self._paths[descriptor]))
        super().sync(descriptor)

    def sync_folder(self, path: Path) -> None:
        """Tell, and sync a folder."""
        self._report(FileCall("sync_folder", path))
        super().sync_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        """Tell, and rename."""
        self._report(FileCall("rename", source, target=target))
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        """Tell, and remove a file."""
        self._report(FileCall("remove", path))
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        """Tell, and remove a folder."""
        self._report(FileCall("remove_folder", path))
        super().remove_folder(path)


class DiskFailure:
    """Makes one call of a `WatchedFiles` fail, or that one and all later ones.

    Parameters
    ----------
    at : int
        The number of the call, from 0, among those of these kinds.
    code : int, default errno.ENOSPC
        Of the `OSError`.
    kinds : collection of str
        Which calls count; by default all.
    for_good : bool, default False
        Let all later calls fail, too.

    Attributes
    ----------
    n_calls : int
        How many calls of these kinds there were.
    struck : list of FileCall
        The calls that failed.

    Examples
    --------
    Save to a disk that is full at the fourth call::

        failure = DiskFailure(at=3)
        folder = Folder(path, files=WatchedFiles(failure))
    """

    def __init__(
        self,
        at: int,
        code: int = errno.ENOSPC,
        kinds: Collection[str] = EVERY_CALL,
        *,
        for_good: bool = False,
    ) -> None:
        self._at, self._code, self._kinds = at, code, kinds
        self._for_good = for_good
        self.n_calls, self.struck = 0, list[FileCall]()

    def __call__(self, call: FileCall) -> None:
        """Count a call; raises `OSError` if it is to fail."""
        if call.kind not in self._kinds:
            return
        number, self.n_calls = self.n_calls, self.n_calls + 1
        if number == self._at or (self._for_good and number > self._at):
            self.struck.append(call)
            raise OSError(self._code, os.strerror(self._code))


class SlowFiles(Files):
    """Files that take a few bytes at a time, as a system may."""

    def write(self, descriptor: int, data: Buffer) -> int:
        """Write at most seven bytes."""
        return super().write(descriptor, memoryview(data)[:7])


def counted(
    save: Callable[[Files], object], kinds: Collection[str] = EVERY_CALL
) -> int:
    """Return how many calls of some kinds a function makes.

    Parameters
    ----------
    save : callable
        Takes the files to use.
    kinds : collection of str
        Which calls count; by default all.
    """
    counter = DiskFailure(-1, kinds=kinds)
    save(WatchedFiles(counter))
    return counter.n_calls
