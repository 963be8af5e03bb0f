"""Keep the logs of tasks within a size, whatever a task writes.

A log is the standard output of a process, which writes to it without asking anybody. So
who starts the processes looks at the sizes from time to time, and cuts what has grown
too long: its beginning and its end stay, with a line between them that says how many
bytes are left out. The file stays the same one, and its writers append to it as before.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 8 << 20  # a log that is longer is cut
_HEAD, _TAIL = 256 << 10, 1 << 20  # and then has these bytes of its beginning and end
CHECK_S: Final = 0.2
_SOON_S = 0.02  # after a cut, since a task that floods its log goes on with it


class LogBound:
    """The logs in a folder; see the module's docstring."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # By path: how many bytes are left out, and how long the line on them is.
        self._left_out: dict[str, tuple[int, int]] = {}

    def check(self) -> float:
        """Cut the logs that are too long; return when to check again, in seconds.

        A log that cannot be read or cut, on a full disk for example, stays as it is.
        """
        again_s = CHECK_S
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                is_file = entry.is_file(follow_symlinks=False)
                if is_file and entry.stat().st_size > MOST_BYTES:
                    with contextlib.suppress(OSError):
                        self._cut(entry.path)
                    again_s = _SOON_S
        return again_s

    def _cut(self, path: str) -> None:
        before, line_bytes = self._left_out.get(path, (0, 0))
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            newest = os.pread(file, _TAIL, os.fstat(file).st_size - _TAIL)
            # What is written from here to the next line is lost, and not counted.
            size = os.fstat(file).st_size
            os.ftruncate(file, _HEAD)
            left_out = before + size - _HEAD - line_bytes - len(newest)
            line = _line(left_out)
            os.write(file, line + newest)
        finally:
            os.close(file)
        self._left_out[path] = left_out, len(line)


def _line(left_out: int) -> bytes:
    text = (
        f"\n[psring: at least {left_out:,} bytes of this log are left out here: of a "
        f"log of more than {MOST_BYTES >> 20} MiB, both ends are kept.]\n"
    )
    return text.encode()
