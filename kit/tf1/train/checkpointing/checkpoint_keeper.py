"""Saves the variables of a graph into a folder, for a `CheckpointSaverHook`."""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.checkpoint.files import replace_file
from kit.errors import FailedPreconditionError, PermissionDeniedError
from kit.regular_file import write_error
from kit.tf1.graph.collections import GraphKeys, get_collection
from kit.tf1.summary.event_files import FileWriterCache
from kit.tf1.summary.messages import is_installed
from kit.tf1.train.checkpointing.meta_graph import export_scoped_meta_graph

# --------------------------------------------------------------------------------------
# One process at a time saves into a folder: two chiefs would spoil each other's files.
#
# The lock is on the folder itself: it leaves no file behind, and the system releases it
# however the process ends. Sessions of one process share it, nested or in turn.


_LOCKS = Path("/proc/locks")
_guard = threading.Lock()
_held: dict[tuple[int, int], list[int]] = {}  # by device and inode: [fd, holders]
# Those that are over and still in `_held`.
_over: deque[tuple[int, int]] = deque()


def hold(folder: Path) -> Callable[[], None]:
    """Keep other processes from saving into a folder; returns a function to end that.

    Raises `FailedPreconditionError`, naming the process, if another one holds it. On a
    file system without locks it has no effect.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    status = os.fstat(fd)
    key = (status.st_dev, status.st_ino)
    try:
        with _guard:
            if key in _held:
                # `flock` belongs to the open file, not to the process: a second one
                # would be refused because of our own first.
                os.close(fd)
                _held[key][1] += 1
            else:
                _lock(fd, folder, status.st_ino)
                _held[key] = [fd, 1]
    finally:
        _let_go()
    return lambda: _release(key)


def _lock(fd: int, folder: Path, inode: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(fd)
        raise FailedPreconditionError(
            f"{_owner(inode)} saves checkpoints into {str(folder)!r} already: there "
            f"are two chiefs, or each worker has a CheckpointSaverHook. Give "
            f"is_chief=True to one worker alone, and such a hook as one of its "
            f"chief_only_hooks; or each training a checkpoint_dir of its own."
        ) from exc
    except OSError:
        return  # a file system without locks: there is no way to know


def _release(key: tuple[int, int]) -> None:
    _over.append(key)
    _let_go()


def _let_go() -> None:
    """Unlock what is over; if the guard is taken, who has it does so afterwards.

    The collector may come here in the very thread that has it, which must not wait.
    """
    while _over and _guard.acquire(blocking=False):
        try:
            while _over:
                key = _over.popleft()
                _held[key][1] -= 1
                if not _held[key][1]:
                    os.close(_held.pop(key)[0])
        finally:
            _guard.release()


def _owner(inode: int) -> str:
    """Return which process holds the lock of a file, if the system says so."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return "another process"
    for line in lines:
        words = line.split()
        if "FLOCK" in words and any(word.endswith(f":{inode}") for word in words):
            return f"process {words[words.index('FLOCK') + 3]}"
    return "another process"


_GRAPH_FILE = "graph.pbtxt"


class CheckpointKeeper:
    """Writes `<folder>/<basename>-<step>.*` by a saver, and the graph beside it."""

    def __init__(self, folder: str, basename: str, saver: Any, scaffold: Any) -> None:
        """Save by the saver given, else by the scaffold's, else by the graph's."""
        self._folder = Path(folder)
        self._path = self._folder / basename
        self._own_saver, self._scaffold = saver, scaffold
        self._release: Callable[[], object] = lambda: None

    def begin(self) -> None:
        """Make and lock the folder, so that a problem with it is reported at once.

        Raises `PermissionDeniedError`, `UnknownError`, and `FailedPreconditionError`
        for a file in its place and for a folder that another process saves into.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(error, self._folder) from error
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise PermissionDeniedError(
                f"checkpoints cannot be written into {str(self._folder)!r}: this user "
                f"may not write there. Choose another checkpoint_dir."
            )
        # After an error nothing calls `end`: then it is released with this object.
        self._release = weakref.finalize(self, hold(self._folder))

    def describe(self, session: Any, step: int) -> None:
        """Write the graph as text, and for TensorBoard where that is installed."""
        if is_installed():
            writer = FileWriterCache.get(str(self._folder))
            writer.add_graph(session.graph, step)
            meta_graph, _ = export_scoped_meta_graph(
                graph=session.graph, saver_def=self._saver.saver_def
            )
            writer.add_meta_graph(meta_graph, step)
        path = self._folder / _GRAPH_FILE
        try:
            replace_file(path, str(session.graph.as_graph_def()).encode())
        except OSError as error:
            raise write_error(error, path) from error

    def save(self, session: Any, step: int) -> str:
        """Save with the saver; raises what the saver raises."""
        path: str = self._saver.save(session, str(self._path), global_step=step)
        return path

    def is_written(self, step: int) -> bool:
        """Return True: `save` returns only when it is written."""
        return True

    def end(self) -> None:
        """Unlock the folder for other processes."""
        self._release()

    @property
    def _saver(self) -> Any:
        """The saver; a scaffold has one only after `begin`, when it is finalized."""
        if self._own_saver is not None:
            return self._own_saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = get_collection(GraphKeys.SAVERS)
        if len(savers) != 1:
            raise RuntimeError(
                f"the collection of savers holds {len(savers)} items; say which one "
                f"to use: CheckpointSaverHook(..., saver=...) or scaffold=...."
            )
        return savers[0]
