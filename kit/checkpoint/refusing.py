"""What an error of the system becomes when a folder cannot be used for checkpoints."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kit.errors import (
    CheckpointFailed,
    FailedPreconditionError,
    KitError,
    PermissionDeniedError,
    ResourceExhaustedError,
)

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
