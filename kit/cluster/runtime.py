"""The cluster's private folder, and the environment in which its processes start.

Everything that the cluster writes is in this folder: connection files, logs, sockets.
Its path is short (that of a unix socket has at most 107 bytes), only the user can read
it, and it goes away with the cluster.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import site
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from kit import arithmetic, machine
from kit.cluster.processes import reaper
from kit.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    StartFailed,
    shortened,
)
from kit.settings import current
from kit.task import Task
from kit.wire.handshake.private import is_guarded, make_private_folder
from kit.wire.listening.address import MAX_UNIX_PATH

_LINE_BYTES, _TAIL_BYTES = 2_000, 4 << 20  # of one line, and of all that is read
SHORT_FOLDER = "/tmp"  # its path leaves room for the names of sockets

_PREFIX = "psring-"
_SOCKET = "12345678.sock"  # as long as that of a training
_ROOM_BYTES = 1 << 20
_MADE = ("ipython/profile/log", "ipython/profile/security", "logs")


def bases(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return where the folder of a cluster may be, the best first.

    That of the setting `runtime_dir` alone; else $XDG_RUNTIME_DIR, the temporary
    folder, and /tmp, as batch systems and test runners set the one before to a path
    that is too long for a socket.
    """
    if chosen := current().runtime_dir:
        return [str(Path(chosen).absolute())]
    own = environment.get("XDG_RUNTIME_DIR", "")
    is_usable = own and is_guarded(Path(own)) and os.access(own, os.W_OK | os.X_OK)
    return [*([own] if is_usable else []), tempfile.gettempdir(), SHORT_FOLDER]


def make_folder(
    environment: Mapping[str, str] = os.environ,
    tasks: Iterable[Task] = (),
    socket: str = "",
) -> Path:
    """Make `psring-XXXX`, 0700, in the first of `bases` that is short enough.

    It must be so for the sockets of the tasks, and for one of this name. Raises
    `PermissionDeniedError` where other users could replace it, and `StartFailed` where
    there is no room.
    """
    folders = bases(environment)
    if current().runtime_dir:
        make_private_folder(Path(folders[0]))
    sockets = [_SOCKET, socket, *(f"{task.job}-{task.index}.sock" for task in tasks)]
    most = MAX_UNIX_PATH - len(f"/{_PREFIX}12345678/{max(sockets, key=len)}")
    # If none is: the address of the first socket says what to do.
    base = next(
        (folder for folder in folders if len(os.fsencode(folder)) <= most), folders[0]
    )
    if not is_guarded(Path(base)):
        raise PermissionDeniedError(
            f"other users can replace what is made in {base}, and a cluster runs what "
            f"is in its folder. Name a temporary folder of your own: "
            f"export TMPDIR=$(mktemp -d --tmpdir=$HOME)"
        )
    free = shutil.disk_usage(base).free
    if free < _ROOM_BYTES:
        raise StartFailed(
            f"no room in {base}: {free:,} bytes are free, and a cluster writes logs "
            f"and sockets there. Remove something, or set KIT_RUNTIME_DIR to a folder "
            f"with room."
        )
    return prepared(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base)))


def launch_folder(launched_in: Path) -> Path:
    """Use the folder that was made for this launch, if it is ours; else a new one."""
    is_ours = launched_in.name.startswith("psring-") and _take(launched_in)
    return prepared(launched_in.resolve()) if is_ours else make_folder()


def _take(folder: Path) -> bool:
    """Close a folder of this user to all others; False if others had a hand in it.

    A name in /tmp can be guessed: another user may have put a link or a folder there,
    and root may change the mode of both.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            return False
        os.fchmod(fd, 0o700)
        # It may have been open to a group until now: from here on nothing is added.
        with os.scandir(fd) as entries:
            inside = [entry.stat(follow_symlinks=False) for entry in entries]
        return all(
            status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
            for status in inside
        )
    finally:
        os.close(fd)


def prepared(folder: Path) -> Path:
    """Make the folders in it that a cluster writes to; return it."""
    for name in _MADE:
        (folder / name).mkdir(parents=True, mode=0o700, exist_ok=True)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder with its contents; it may be gone already."""
    shutil.rmtree(folder, ignore_errors=True)
    # Without descriptors that removes nothing. This needs none, and is enough for the
    # folder of a cluster that could not start for lack of them.
    for made in (*_MADE, "ipython/profile", "ipython", ""):
        with contextlib.suppress(OSError):
            (folder / made).rmdir()


def threads_per_engine(n_engines: int, cores: int) -> int:
    """Share the cores among the engines, at least one each.

    >>> threads_per_engine(4, 16), threads_per_engine(4, 2)
    (4, 1)
    """
    return max(1, cores // n_engines)


def choose_threads(asked: int | None, n_engines: int) -> int:
    """Return the BLAS threads of an engine: as asked, else a fair share."""
    if asked is None:
        return threads_per_engine(n_engines, machine.cores())
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
        raise InvalidArgumentError(
            f"threads={asked!r} is not a number of threads; give 1 or more, or leave "
            f"it out to share the cores among the engines."
        )
    return asked


def engine_environment(folder: Path, threads: int) -> dict[str, str]:
    """Return the variables that the cluster's processes get in addition to ours."""
    set_apart = {
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": python_path(os.environ.get("PYTHONPATH", "")),
        "PYTHONUNBUFFERED": "1",
        reaper.MARK: str(folder),
    }
    return set_apart | dict.fromkeys(arithmetic.VARIABLES, str(threads))


def number_in(
    names: Iterable[str], default: int, environment: Mapping[str, str] = os.environ
) -> int:
    """Return the first of the variables that is a number.

    Launchers and queues set them, and some set others' to words, or to nothing.

    >>> number_in(["A", "B"], 0, {"A": "undefined", "B": "3"})
    3
    """
    values = (environment.get(name, "") for name in names)
    return next((int(v) for v in values if v.isascii() and v.isdecimal()), default)


def python_path(current: str) -> str:
    """Return a PYTHONPATH by which engines import this package, installed or not."""
    home = str(Path(__file__).resolve().parents[2])
    installed = [*site.getsitepackages(), site.getusersitepackages()]
    parts = [part for part in current.split(os.pathsep) if part]
    if home not in installed and home not in parts:
        parts.insert(0, home)
    return os.pathsep.join(parts)


def tail_of(path: Path, n_lines: int) -> str:
    """Return the last lines of a file as `tail` does; empty without a file.

    However long the file is, no more of it is read than its last mebibytes.
    """
    try:
        with path.open("rb") as file:
            n_bytes = min(max(n_lines, 1) * _LINE_BYTES + _LINE_BYTES, _TAIL_BYTES)
            file.seek(max(0, file.seek(0, os.SEEK_END) - n_bytes))
            return tail(file.read(n_bytes).decode("utf-8", "replace"), n_lines)
    except OSError:
        return ""


def tail(text: str, n_lines: int = 12) -> str:
    r"""Return the last lines that are not blank; of a very long line both ends.

    >>> tail("a\n\nb\nc\n", n_lines=2)
    'b\nc'
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(
        shortened(line, _LINE_BYTES) for line in lines[max(0, len(lines) - n_lines) :]
    )


def default_python() -> str:
    """Return the interpreter that engines run in: this one."""
    if not sys.executable or not os.access(sys.executable, os.X_OK):
        raise StartFailed(
            f"this Python does not know where its interpreter is ({sys.executable!r}), "
            f"so no engine can be started with it; start it from a file or give "
            f"Cluster(python=...)."
        )
    return sys.executable
