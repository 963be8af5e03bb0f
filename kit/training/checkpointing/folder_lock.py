"""Whose folder this is: the mark of the training that saves into it, and how far it is.

The mark is a file that its owner has locked. The system lets go of the lock when the
owner's process ends, however it does; so a dead owner's mark is simply taken over. Its
first eight bytes are the owner's step, written as an assignment to mapped memory: what
a killed training had reached can be read when it goes on.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from kit.errors import CheckpointFailed, FailedPreconditionError, KitError
from kit.regular_file import check_regular

NAME: Final = ".owner"
_SIZE: Final = 4096
_STEP: Final = 8
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Claim:
    """The locked mark in a folder. `reached` may be set as often as one likes."""

    def __init__(self, folder: Path, run: str, task: str) -> None:
        """Lock the folder for a run; it must exist.

        Raises `FailedPreconditionError`, naming the owner, while another training has
        it, and `CheckpointFailed` if the mark cannot be written.
        """
        path = folder / NAME
        try:
            self._file = os.open(path, _FLAGS, 0o600)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            check_regular(path, os.fstat(self._file), CheckpointFailed)
            self._lock(folder)
            before = os.pread(self._file, _SIZE, 0)
            self.left_at = int.from_bytes(before[:_STEP], "little")
            os.ftruncate(self._file, _SIZE)
            owner = {"run": run, "task": task, "pid": os.getpid()}
            owner["host"] = os.uname().nodename
            text = json.dumps(owner).encode()[: _SIZE - _STEP]
            os.pwrite(self._file, text.ljust(_SIZE - _STEP, b"\0"), _STEP)
            self._memory = mmap.mmap(self._file, _SIZE)
        except OSError as error:
            os.close(self._file)
            raise _unusable(path, error) from error
        except KitError:
            os.close(self._file)
            raise
        self._step = memoryview(self._memory)[:_STEP].cast("Q")

    def reached(self, step: int) -> None:
        """Note how many steps are done; costs as much as an assignment."""
        self._step[0] = step

    def close(self) -> None:
        """Let go of the folder."""
        if self._file >= 0:
            self._step.release()
            self._memory.close()
            # A process that was forked meanwhile has the lock as well, and may stay.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def _lock(self, folder: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FailedPreconditionError(
                f"{folder} belongs to another training, {self._owner()}, which saves "
                f"its own checkpoints there. Wait for its end, or give another folder."
            ) from None

    def _owner(self) -> str:
        text = os.pread(self._file, _SIZE, _STEP).rstrip(b"\0")
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            owner = json.loads(text)
            return (
                f"run {owner['run'][:8]} of {owner['task']} "
                f"(process {owner['pid']} on {owner['host']})"
            )
        return "whose mark cannot be read"


def _unusable(path: Path, error: OSError) -> CheckpointFailed:
    return CheckpointFailed(
        f"{path} cannot be written and locked: {error.strerror or error}. Give another "
        f"folder for the checkpoints."
    )
