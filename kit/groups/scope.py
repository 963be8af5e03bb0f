"""Which cell or call runs in this process, on which tasks, and how the last one ended.

An engine notes it around each cell and each function that it is given. A process that
is no engine runs its own program, and has no scope.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any
from uuid import uuid4

from kit.frames import frames_of
from kit.task import Task

_CELLS = ("<ipython-input", "<cell")
_OURS = ("/kit/groups/", "/kit/server/groups.py", "/kit/handles.py", "/kit/torch/")
_NOT_THEIRS = ("<frozen", "/site-packages/torch/")  # nobody looks for a call in there


@dataclass
class Scope:
    """A cell or a call: the same on all tasks that run it."""

    id: str
    tasks: tuple[str, ...]
    n_groups: int = 0  # made in it so far, here
    left: str = ""  # how it ended here, in words; empty while it runs


_newest: Scope | None = None


def now() -> Scope | None:
    """Return what runs here, or ran last; None in a program of its own."""
    return _newest


def enter(plain: Any) -> Scope | None:
    """Note that what the notebook has described (see `about`) begins here."""
    global _newest  # an engine runs one cell at a time: this is its state
    if not isinstance(plain, dict) or "id" not in plain:
        return None
    _newest = Scope(str(plain["id"]), tuple(map(str, plain.get("tasks", ()))))
    return _newest


def leave(scope: Scope | None, error: BaseException | None) -> None:
    """Note how it has ended here."""
    if scope is None:
        return
    scope.left = "it ended there"
    if error is not None:
        where = line_of(error.__traceback__)
        name = type(error).__name__
        scope.left = f"{name}{f' at {where}' if where else ''}"


@contextmanager
def entered(plain: Any) -> Iterator[None]:
    """Note that it runs here in a block."""
    scope = enter(plain)
    try:
        yield
    except BaseException as error:
        leave(scope, error)
        raise
    leave(scope, None)


def about(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return what a notebook says of a new cell or call on some tasks, for `enter`."""
    return {"id": uuid4().hex, "tasks": [task.short for task in tasks]}


def words_for(filename: str, line: int) -> str:
    """Return how errors call a line of the user's.

    >>> words_for("/tmp/ipykernel_7/123.py", 3), words_for("/srv/ring.py", 12)
    ('line 3 of the cell', 'ring.py, line 12')
    """
    if "ipykernel_" in filename or filename.startswith(_CELLS):
        return f"line {line} of the cell"
    return f"{filename.rpartition('/')[2]}, line {line}"


@lru_cache(1000)  # asked in each call of a group, of the same few files
def _is_ours(filename: str) -> bool:
    return any(part in filename for part in _OURS + _NOT_THEIRS)


class _Behalf(threading.local):
    where: tuple[str, int] | None = None


_behalf = _Behalf()


@contextmanager
def on_behalf(where: tuple[str, int]) -> Iterator[None]:
    """Make calls in this thread as if from this file and line, in a block."""
    before, _behalf.where = _behalf.where, where
    try:
        yield
    finally:
        _behalf.where = before


def caller(frame: FrameType | None) -> tuple[str, int]:
    """Return file and line of the innermost frame that is not part of a group."""
    if _behalf.where is not None:
        return _behalf.where
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def user_line(thread: int) -> str:
    """Return where a thread is in the user's code: in its cell, if it runs one."""
    return _chosen([(f.f_code.co_filename, f.f_lineno) for f in frames_of(thread)])


def line_of(trace: TracebackType | None) -> str:
    """Return where an error was raised in the user's code."""
    rows = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(trace)]
    return _chosen(rows[::-1])


def _chosen(rows: Sequence[tuple[str, int]]) -> str:
    """Return the innermost line in a cell, else the innermost one that is not ours."""
    cells = [row for row in rows if words_for(*row).endswith("of the cell")]
    others = [row for row in rows if not _is_ours(row[0])]
    frames = cells or others
    return words_for(*frames[0]) if frames else ""
