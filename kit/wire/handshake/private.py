"""Files and folders that nobody but this user may read.

Permissions are checked, and never changed.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from kit.errors import PermissionDeniedError
from kit.regular_file import check_regular
from kit.system import FOLDER

# On Linux a folder on the way need not be readable. O_NONBLOCK: opening a FIFO would
# wait for somebody to write. O_NOCTTY: a terminal must not become this process's own.
_FOLDER: Final = FOLDER | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_LINKS: Final = 40  # as Linux, path_resolution(7)


def check_private(path: Path, status: os.stat_result) -> None:
    """Refuse a file or folder that belongs to others or is open to them.

    `status` is that of the very object in use (`fstat`, or `stat` without following
    links). Raises `PermissionDeniedError` with mode, owner and the way out.
    """
    is_right_kind = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    is_open = status.st_mode & 0o077
    if is_right_kind and not is_open and status.st_uid == os.geteuid():
        return
    raise PermissionDeniedError(
        f"{path} has mode {stat.filemode(status.st_mode)} and owner {status.st_uid}; "
        f"secrets are kept only where nobody but user {os.geteuid()} may look. Take "
        f"another folder or run 'chmod go= {path}'."
    )


def make_private_folder(folder: Path) -> None:
    """Make `folder` (0700) if it is missing, and check it if it is not."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder, folder.lstat())


def is_guarded(folder: Path) -> bool:
    """Whether nobody but root and this user can replace what this user makes in it.

    /tmp is such a folder, because it is sticky. One of another user is not, though root
    may write there: `su` and `sudo -E` keep the variables that name it.
    """
    try:
        status = folder.stat()
    except OSError:
        return False
    is_open = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    return status.st_uid in (0, os.geteuid()) and not is_open


def open_private_folder(folder: Path) -> int:
    """Return a descriptor of a folder that is this user's alone.

    What is then opened below it is what was checked, whatever its path leads to by
    then. Raises `PermissionDeniedError` for a folder that belongs to others or is open
    to them, and `OSError` for a link and whatever else is no folder.
    """
    fd = os.open(folder, _FOLDER)
    try:
        check_private(folder, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_private(path: Path) -> BinaryIO:
    """Return a secret's file to read from, unbuffered: one of ours, or one of root's.

    *Ours* is a regular file of this user that nobody else may touch (0600 or less).
    Nobody else can put such a file there, so the folders do not matter.

    A symbolic link, or a file of root's, is how a secret comes into a container.
    Everything on the way to it, links resolved, must be under the control of root and
    this user alone: each folder and link is owned by one of them, and nobody else may
    write to a folder, unless it is sticky (as /tmp is: users change only what is
    theirs). The file at the end is ours as above, or root's and for root alone, except
    that a group of this process may read it (0440).

    Raises `PermissionDeniedError` with path, mode, owner and the way out,
    `InvalidArgumentError` for what is not a regular file, and `OSError` as the file
    system gives it.
    """
    status = path.lstat()
    is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    fd = os.open(path, _FILE) if is_ours else _open_guarded(path)
    try:
        status = os.fstat(fd)
        check_regular(path, status)
        _check_secret(path, status)
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb", buffering=0)


def _open_guarded(path: Path) -> int:
    """Open what a path leads to, checking each folder and link before it is used.

    By descriptors, part by part: what was checked is what is used, even if somebody
    renames it or puts a link in its place meanwhile.
    """
    left, n_links = _parts(str(Path.cwd() / path)), 0
    folder = os.open("/", _FOLDER)
    try:
        while True:
            _check_step(path, "the folder", os.fstat(folder))
            name = left.pop() if left else "."
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                _check_step(path, f"the link {name}", status)
                n_links += 1
                if n_links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                # The parts of the target are walked and checked like all others: from
                # the root for an absolute one, else from the folder of the link.
                target = os.readlink(name, dir_fd=folder)
                left += _parts(target)
                name = "/" if target.startswith("/") else "."
            elif not left:
                check_regular(path, status)  # some devices act when they are opened
                return os.open(name, _FILE, dir_fd=folder)
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def _parts(path: str) -> list[str]:
    """Return the names in a path in reverse, so that `pop` gives the next one."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _check_step(path: Path, what: str, status: os.stat_result) -> None:
    """Refuse a folder or a link on the way that somebody else can change.

    A link's own mode means nothing; who may replace it is decided by its folder.
    """
    is_link = stat.S_ISLNK(status.st_mode)
    is_open = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    if status.st_uid in (0, os.geteuid()) and (is_link or not is_open):
        return
    raise PermissionDeniedError(
        f"{path} leads through {what} with mode {stat.filemode(status.st_mode)} and "
        f"owner {status.st_uid}; only root and user {os.geteuid()} may be able to "
        f"change the way to a secret. Keep it elsewhere, or run 'chmod go-w' there."
    )


def _check_secret(path: Path, status: os.stat_result) -> None:
    if status.st_uid != 0 or os.geteuid() == 0:
        check_private(path, status)
        return
    groups = {os.getegid(), *os.getgroups()}
    readable = 0o040 if status.st_gid in groups else 0
    if not status.st_mode & (0o077 & ~readable):
        return
    raise PermissionDeniedError(
        f"{path} has mode {stat.filemode(status.st_mode)}, owner root and group "
        f"{status.st_gid}; a secret of root's may be read by nobody else, but for a "
        f"group of user {os.geteuid()}. For a Kubernetes secret set 'defaultMode: "
        f"0400' and 'fsGroup: {os.getegid()}'."
    )
