"""`tf.gfile`: files and folders of this host, with the errors of `tf.errors`.

Only what the operating system has mounted: a path with a scheme other than `file://`
is refused with the way to reach it.
"""

from __future__ import annotations

import errno
import glob as _glob
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from kit.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
    PermissionDeniedError,
    UnimplementedError,
    UnknownError,
)

# --------------------------------------------------------------------------------------
# Names, and errors of the operating system as those of the original.


_KINDS: Final[dict[int, type[KitError]]] = {
    errno.ENOENT: NotFoundError,
    errno.EEXIST: AlreadyExistsError,
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    errno.ENOTEMPTY: FailedPreconditionError,
    errno.EISDIR: FailedPreconditionError,
    errno.ENOTDIR: FailedPreconditionError,
}


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Raise errors of the operating system in the block as those of the original."""
    try:
        yield
    except OSError as error:
        kind = _KINDS.get(error.errno or 0, UnknownError)
        raise kind(f"{name}; {error.strerror or error}") from error


def local_path(name: Any) -> str:
    """Return a name as a path of this host; raises for what lies elsewhere."""
    text = os.fsdecode(name)
    scheme, mark, rest = text.partition("://")
    if not mark or "/" in scheme:
        return text
    if scheme == "file":
        return rest
    raise UnimplementedError(
        f"File system scheme {scheme!r} not implemented (file: {text!r}). Mount it on "
        f"this host and give the path of the mount, or copy the files here."
    )


class FileStatistics(NamedTuple):
    """What `Stat` tells: the size in bytes, and when the file was changed."""

    length: int
    mtime_nsec: int
    is_directory: bool


# --------------------------------------------------------------------------------------
# Whole files and folders.


def Exists(filename: Any) -> bool:
    """Return whether there is such a file or folder."""
    return Path(local_path(filename)).exists()


def IsDirectory(dirname: Any) -> bool:
    """Return whether there is such a folder."""
    return Path(local_path(dirname)).is_dir()


def Stat(filename: Any) -> FileStatistics:
    """Return the size and the time of a file; raises `NotFoundError`."""
    path = local_path(filename)
    with _named_errors(path):
        status = os.stat(path)  # noqa: PTH116 - the path as it is written
    return FileStatistics(status.st_size, status.st_mtime_ns, Path(path).is_dir())


def MkDir(dirname: Any) -> None:
    """Make a folder; raises `AlreadyExistsError`, `NotFoundError` without a parent."""
    path = local_path(dirname)
    with _named_errors(path):
        Path(path).mkdir()


def MakeDirs(dirname: Any) -> None:
    """Make a folder and those above it; nothing happens if it is there."""
    path = local_path(dirname)
    with _named_errors(path):
        Path(path).mkdir(parents=True, exist_ok=True)


def Remove(filename: Any) -> None:
    """Remove a file; raises `NotFoundError`, `FailedPreconditionError` for a folder."""
    path = local_path(filename)
    with _named_errors(path):
        Path(path).unlink()


def DeleteRecursively(dirname: Any) -> None:
    """Remove a folder with all that is in it, or a file; raises `NotFoundError`."""
    path = local_path(dirname)
    with _named_errors(path):
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path)
        else:
            Path(path).unlink()


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Rename a file or folder.

    Raises `AlreadyExistsError` if the new name is taken and not `overwrite`.
    """
    old, new = local_path(oldname), local_path(newname)
    _check_free(new, overwrite)
    with _named_errors(old):
        Path(old).replace(new)


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file.

    Raises `AlreadyExistsError` if the new path is taken and not `overwrite`.
    """
    old, new = local_path(oldpath), local_path(newpath)
    _check_free(new, overwrite)
    with _named_errors(old):
        shutil.copyfile(old, new)


def _check_free(path: str, overwrite: bool) -> None:
    if Path(path).exists() and not overwrite:
        raise AlreadyExistsError(f"file already exists: {path}; give overwrite=True.")


# --------------------------------------------------------------------------------------
# What there is.


def Glob(filename: Any) -> list[str]:
    """Return the paths that match a pattern, or one of several, sorted."""
    is_one = isinstance(filename, str | bytes | os.PathLike)
    patterns: Iterable[Any] = [filename] if is_one else filename
    matches = [
        path
        for pattern in patterns
        for path in _glob.glob(local_path(pattern), include_hidden=True)  # noqa: PTH207
    ]
    return sorted(matches)


def ListDirectory(dirname: Any) -> list[str]:
    """Return the names in a folder, sorted; raises `NotFoundError` for no folder."""
    path = local_path(dirname)
    if not Path(path).is_dir():
        raise NotFoundError(f"Could not find directory {path}")
    with _named_errors(path):
        return sorted(os.listdir(path))  # noqa: PTH208 - names, not paths


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder with the names of its folders and files.

    Before what is in it, or after it if not `in_order`. Nothing for no folder.
    """
    for folder, folders, files in os.walk(local_path(top), topdown=in_order):
        folders.sort()
        yield folder, list(folders), sorted(files)


# --------------------------------------------------------------------------------------
# The content of one file.


_READS: Final = frozenset({"r", "r+", "a+", "w+"})
_WRITES: Final = frozenset({"w", "a", "r+", "a+", "w+"})


class GFile:
    """A file that is opened when it is first read or written.

    Without 'b' in the mode it gives texts, as UTF-8; line ends stay as they are.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        """Raise `InvalidArgumentError` for a mode that cannot be."""
        self.name, self.mode = name, mode
        self._kind, self._is_binary = mode.replace("b", ""), "b" in mode
        if self._kind not in _READS | _WRITES:
            raise InvalidArgumentError(
                f"mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+': {mode!r}"
            )
        self._path = local_path(name)
        self._file: Any = None

    def _opened(self, kinds: frozenset[str], what: str) -> Any:
        if self._kind not in kinds:
            raise PermissionDeniedError(
                f"File isn't open for {what}: {self._path}, mode {self.mode!r}"
            )
        if self._file is None:
            with _named_errors(self._path):
                self._file = Path(self._path).open(f"{self._kind}b")  # noqa: SIM115
        return self._file

    def _as_asked(self, data: bytes) -> Any:
        return data if self._is_binary else data.decode()

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return Stat(self._path).length

    def read(self, n: int = -1) -> Any:
        """Return `n` bytes, as a text without 'b' in the mode; by default the rest."""
        file = self._opened(_READS, "reading")
        with _named_errors(self._path):
            return self._as_asked(file.read(n))

    def readline(self) -> Any:
        """Return the next line with its end; empty at the end of the file."""
        file = self._opened(_READS, "reading")
        with _named_errors(self._path):
            return self._as_asked(file.readline())

    def readlines(self) -> list[Any]:
        """Return all lines that are left."""
        return list(self)

    def write(self, file_content: Any) -> None:
        """Append to the file what is given, a text or bytes."""
        file = self._opened(_WRITES, "writing")
        is_text = isinstance(file_content, str)
        with _named_errors(self._path):
            file.write(file_content.encode() if is_text else file_content)

    def seek(
        self, offset: int = 0, whence: int = 0, position: int | None = None
    ) -> None:
        """Go to a byte of the file, counted from `whence` as for Python's files.

        `position` is the old name of `offset`.
        """
        file = self._opened(_READS, "reading")
        file.seek(offset if position is None else position, whence)

    def tell(self) -> int:
        """Return the number of the next byte."""
        return int(self._opened(_READS, "reading").tell())

    def flush(self) -> None:
        """Write what is still in memory."""
        if self._file is not None:
            with _named_errors(self._path):
                self._file.flush()

    def close(self) -> None:
        """Write what is still in memory, and close the file."""
        file, self._file = self._file, None
        if file is not None:
            with _named_errors(self._path):
                file.close()

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def next(self) -> Any:
        """Return the next line, as an iterator of Python 2 does."""
        return next(self)


# The names of the first versions for the same.
Open = FastGFile = GFile
