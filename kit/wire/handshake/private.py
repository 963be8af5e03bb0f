"""Files and folders that nobody but this user may look into.

It only judges what is there: it changes no mode and makes nothing.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kit.errors import PermissionDeniedError


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
