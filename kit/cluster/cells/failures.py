"""What a cell raised on tasks: equal failures are reported once, frames are folded.

Pure. A traceback comes from the engine as one text, with empty lines between frames.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kit.errors import shortened
from kit.task import Task

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Text that differs between two tasks that fail in the same way.
_VARYING = re.compile(r"In\[\d+\]|0x[0-9a-f]+")
_FRAME = re.compile(r"^File (?P<path>[^\s:][^:\n]*\.py)(?::\d+|,)")
_OWN = Path(__file__).resolve().parents[2]
_MOST_SHOWN = 3


@dataclass(frozen=True)
class TaskFailure:
    """What one task raised. A lost task has a name and a text, but no traceback."""

    task: Task
    name: str
    text: str
    traceback: str = ""

    @classmethod
    def of_reply(cls, task: Task, error: Any) -> TaskFailure:
        """Read the error that ipyparallel makes of a task's reply."""
        name = getattr(error, "ename", None) or type(error).__name__
        text = getattr(error, "evalue", None)
        traceback = getattr(error, "traceback", None) or ""
        text = shortened(str(error) if text is None else str(text))
        return cls(task, str(name), text, shortened(traceback))

    @property
    def line(self) -> str:
        """The failure in one line.

        >>> TaskFailure(Task("worker", 1), "ValueError", "no").line
        'worker:1 raised ValueError: no'
        """
        if not self.traceback and self.text.startswith(self.task.short):
            return f"{self.name}: {self.text}"
        text = f": {self.text}" if self.text else ""
        return f"{self.task.short} raised {self.name}{text}"

    @property
    def is_effect(self) -> bool:
        """Whether it says what has happened on another task."""
        return bool(self.traceback) and self.name in ("AbortedError", "PeerLost")

    @property
    def likeness(self) -> tuple[str, ...]:
        """The key by which equal failures are grouped."""
        if not self.traceback:
            return (self.line,)
        return self.name, self.text, _VARYING.sub("", _COLOUR.sub("", self.traceback))


# For a task whose end ipyparallel has reported, while it is not known how it ended.
ENDED = "has ended or has not answered its controller for long"


def tells_of_an_end(error: object) -> bool:
    """Whether ipyparallel itself answered, because the engine has ended."""
    return getattr(error, "ename", "") == "EngineError"


def grouped(failures: Sequence[TaskFailure]) -> list[list[TaskFailure]]:
    """Return the failures with equal ones together, in the order of the first."""
    groups: dict[tuple[str, ...], list[TaskFailure]] = {}
    for failure in failures:
        groups.setdefault(failure.likeness, []).append(failure)
    return list(groups.values())


def summary(failures: Sequence[TaskFailure]) -> str:
    """Return one line about all failures.

    >>> from dataclasses import replace
    >>> a, b = (TaskFailure(Task("worker", i), "ValueError", "no") for i in range(2))
    >>> summary([a])
    'worker:0 raised ValueError: no'
    >>> summary([replace(a, traceback="x"), replace(b, traceback="x")])
    'worker:0 raised ValueError: no (1 more like this: worker:1)'
    """
    return "; ".join(_headline(group) for group in grouped(failures))


def _headline(group: Sequence[TaskFailure]) -> str:
    first, *others = group
    if not others:
        return first.line
    names = ", ".join(failure.task.short for failure in others)
    return f"{first.line} ({len(others)} more like this: {names})"


def rendered(failures: Sequence[TaskFailure], own: Path = _OWN) -> list[str]:
    """Return the lines to show: tracebacks, each with a line that names its tasks.

    Three different failures are shown with their tracebacks, the others in one line.
    """
    shown: list[str] = []
    for number, group in enumerate(grouped(failures)):
        if number < _MOST_SHOWN and group[0].traceback:
            shown.append(fold(group[0].traceback, own))
        shown.append(_headline(group))
    return shown


def fold(traceback: str, own: Path = _OWN) -> str:
    r"""Return the traceback with the frames of this package replaced by their number.

    >>> print(fold("Cell\n\nFile /x/kit/a.py:3, in f\n\nFile /x/kit/b.py:4\n\nend",
    ...            Path("/x/kit")))
    Cell
    <BLANKLINE>
    (2 frames inside psring are left out)
    <BLANKLINE>
    end
    """
    blocks, are_own = traceback.split("\n\n"), [False]
    for block in blocks:
        are_own.append(_is_own(own, block, called_by_own=are_own[-1]))
    shown: list[str] = []
    for is_own, pairs in groupby(zip(are_own[1:], blocks, strict=True), itemgetter(0)):
        frames = [block for _, block in pairs]
        shown += [_left_out(len(frames))] if is_own else frames
    return "\n\n".join(shown)


def _is_own(own: Path, block: str, *, called_by_own: bool) -> bool:
    match = _FRAME.match(_COLOUR.sub("", block))
    if match is None:
        return False
    path = Path(match["path"]).expanduser()
    # A `with` of ours is a frame of the standard library between two of ours.
    return own in path.parents or (called_by_own and path.name == "contextlib.py")


def _left_out(n_frames: int) -> str:
    if n_frames == 1:
        return "(1 frame inside psring is left out)"
    return f"({n_frames} frames inside psring are left out)"
