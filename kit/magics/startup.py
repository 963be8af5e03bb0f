"""The start of a cluster as a table: how far each task is, in words and seconds.

The HTML sets no colours, so it is readable on a light and on a dark background, and
there is a text form with the same content. `Live` shows it, and updates it in place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle

from kit.cluster.report import TaskStatus
from kit.markup import Html, in_cell, rows_table

_HEADS = ("task", "state", "what it does", "seconds")
_STYLE = "font-size:max(13px,1em)"


@dataclass(frozen=True)
class Startup:
    """One moment of a cluster's start; a notebook shows it as a table."""

    title: str
    statuses: tuple[TaskStatus, ...]
    past_s: float
    note: str = ""

    def __repr__(self) -> str:
        return text(self.title, rows(self.statuses, self.past_s), self.note)

    def _repr_html_(self) -> Html:
        return in_cell(html(self.title, rows(self.statuses, self.past_s), self.note))


Row = tuple[str, str, str, str]


def rows(statuses: Sequence[TaskStatus], past_s: float) -> list[Row]:
    """Return the cells of the table: task, state, what it does or why it is lost, time.

    >>> from kit.cluster.report import ClusterState
    >>> from kit.task import Task
    >>> starting = TaskStatus(Task("ps", 0), ClusterState.STARTING, phase="registers")
    >>> rows([starting], 0.52)
    [('ps:0', 'starting', 'registers', '0.5')]
    """
    return [
        (
            status.task.short,
            str(status.state),
            status.reason or status.phase,
            f"{past_s if status.ready_s is None else status.ready_s:.1f}",
        )
        for status in statuses
    ]


def text(title: str, table: Sequence[Row], note: str = "") -> str:
    r"""Return the table as lines of text, its columns aligned, and the note below.

    >>> text("Starting", [("ps:0", "ready", "", "1.0")]).split("\n")[0]
    'Starting'
    """
    lines = [_HEADS, *table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADS))]
    body = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join(
        [title, *(line.rstrip() for line in body), *([note] if note else [])]
    )


def html(title: str, table: Sequence[Row], note: str = "") -> Html:
    """Return the table as HTML; a screen reader announces changes."""
    return rows_table(title, _HEADS, table, note, style=_STYLE, aria_live="polite")


# --------------------------------------------------------------------------------------
# An output that is updated in place, if the front end can do that.


_LEAST_S = 0.1


class Live:
    """One output that changes. In a terminal only its last state is shown."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._can_update = hasattr(shell, "kernel")
        self._handle: Any = None
        self._shown = ""
        self._last = -_LEAST_S

    def show(self, value: object) -> None:
        """Show a state, unless another was just shown or it looks the same."""
        now = time.monotonic()
        if self._can_update and now - self._last >= _LEAST_S:
            self._last = now
            self.close(value)

    def close(self, value: object) -> None:
        """Show the last state, unless it looks the same."""
        text = repr(value)
        if text == self._shown:
            return
        self._shown = text
        # A state that cannot be displayed must not end the start.
        with suppress(Exception):
            if self._handle is None:
                self._handle = DisplayHandle()  # type: ignore[no-untyped-call]
                self._handle.display(value)
            else:
                self._handle.update(value)
