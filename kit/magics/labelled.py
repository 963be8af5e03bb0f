"""Output of several tasks as labelled lines: `worker:1 | text`, capped, in order.

Pure, except for its clock. Lines of one task keep their order; a line is shown when it
is complete, or when its rest has not come for a while. Text written over a line with
carriage returns (a progress bar) is shown in its last state.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from IPython.core.interactiveshell import InteractiveShell

from kit.cluster.cells.cell_output import CellOutput, OutputKind
from kit.task import Task

MOST_LINES = 1000  # of one task in one cell; of more, only the last ones are shown
LAST_LINES = 20
MOST_CHARACTERS = 4000  # of one line
_LATE_S = 2.0


@dataclass(frozen=True)
class Text:
    """Whole lines for stdout or stderr."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class MimeBundle:
    """Rich content to show; with an id it can be updated, or updates another bundle."""

    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    display_id: str = ""
    updates: bool = False


Shown: TypeAlias = Text | MimeBundle


@dataclass
class _Stream:
    """The incomplete line of one task's stream."""

    pending: str = ""
    since: float = 0.0

    def take(self, text: str, now: float) -> list[str]:
        """Add text; return the lines that are complete now."""
        *whole, last = (self.pending + text).split("\n")
        self.pending, self.since = _overwritten(last), now
        return [_overwritten(line.removesuffix("\r")) for line in whole]

    def flush(self) -> list[str]:
        """Return the incomplete line."""
        line, self.pending = self.pending, ""
        return [line] if line.strip() else []


def _overwritten(line: str) -> str:
    r"""Return the visible part of a line with carriage returns.

    >>> _overwritten("10%\r20%"), _overwritten("20%\r")
    ('20%', '20%')
    """
    return next((part for part in reversed(line.split("\r")) if part), "")


@dataclass
class _Page:
    """What one task has shown so far."""

    n_lines: int = 0
    left_out: deque[Text] = field(default_factory=lambda: deque(maxlen=LAST_LINES))


class Labelled:
    """Turns outputs into labelled text and bundles, for one cell on some tasks."""

    def __init__(self, tasks: Iterable[Task], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pages = {task: _Page() for task in tasks}
        self._streams: dict[tuple[Task, OutputKind], _Stream] = {}
        self._width = max((len(task.short) for task in self._pages), default=0)

    def take(self, outputs: Sequence[CellOutput]) -> list[Shown]:
        """Return what to show now that these outputs have come."""
        shown: list[Shown] = []
        for output in outputs:
            shown += self._stream(output) if output.is_stream else self._bundle(output)
        now = self._clock()
        for key, stream in self._streams.items():
            if stream.pending and now - stream.since > _LATE_S:
                shown += self._lines(*key, stream.flush())
        return _joined(shown)

    def close(self) -> list[Shown]:
        """Return the rest: incomplete lines, and the last of those left out."""
        shown: list[Shown] = []
        for key, stream in self._streams.items():
            shown += self._lines(*key, stream.flush())
        for task, page in self._pages.items():
            if page.left_out:
                n_last = len(page.left_out)
                n_hidden = page.n_lines - MOST_LINES - n_last
                text = f"... {n_hidden:,} lines are left out; the last {n_last}:\n"
                shown += [Text(self._label(task) + text), *page.left_out]
        return _joined(shown)

    def _label(self, task: Task) -> str:
        return f"{task.short:<{self._width}} │ "

    def _stream(self, output: CellOutput) -> list[Shown]:
        key = output.task, output.kind
        stream = self._streams.setdefault(key, _Stream())
        return self._lines(*key, stream.take(output.text, self._clock()))

    def _lines(self, task: Task, kind: OutputKind, lines: Sequence[str]) -> list[Shown]:
        page, shown = self._pages[task], []
        for line in lines:
            text = Text(f"{self._label(task)}{_cut(line)}\n", kind is OutputKind.STDERR)
            page.n_lines += 1
            if page.n_lines <= MOST_LINES:
                shown.append(text)
            else:
                page.left_out.append(text)
        return list(shown)

    def _bundle(self, output: CellOutput) -> list[Shown]:
        shown: list[Shown] = []
        # Text before a picture was written before it, even without a line's end.
        for (task, kind), stream in self._streams.items():
            if task == output.task:
                shown += self._lines(task, kind, stream.flush())
        if output.is_plain and not output.display_id:
            word = "Out: " if output.kind is OutputKind.RESULT else ""
            lines = [line for line in (word + output.text).split("\n") if line]
            return shown + self._lines(output.task, OutputKind.STDOUT, lines)
        updates = output.kind is OutputKind.UPDATE
        # Two tasks may choose the same id for different contents.
        own = f"{output.task.short}/{output.display_id}" if output.display_id else ""
        if not updates:
            shown += self._lines(output.task, OutputKind.STDOUT, ["shows:"])
        return [*shown, MimeBundle(output.data, output.metadata, own, updates)]


def _cut(line: str) -> str:
    rest = len(line) - MOST_CHARACTERS
    if rest <= 0:
        return line
    return f"{line[:MOST_CHARACTERS]}... ({rest:,} more characters)"


def _joined(shown: Sequence[Shown]) -> list[Shown]:
    """Return the same, with adjacent texts of one stream joined."""
    joined: list[Shown] = []
    for part in shown:
        last = joined[-1] if joined else None
        match last, part:
            case Text(before, kind), Text(text, other) if kind == other:
                joined[-1] = Text(before + text, kind)
            case _:
                joined.append(part)
    return joined


# --------------------------------------------------------------------------------------
# Show the output of a cell's tasks in the notebook, at most ten times a second.


_LEAST_S = 0.1


class Showing:
    """Displays one cell's output; call it with the outputs that have come."""

    def __init__(self, shell: InteractiveShell, tasks: Iterable[Task]) -> None:
        self._shell = shell
        self._labelled = Labelled(tasks, time.monotonic)
        self._waiting: list[CellOutput] = []
        self._last = -_LEAST_S

    def __call__(self, outputs: Sequence[CellOutput]) -> None:
        """Take outputs; show them now, or together with later ones."""
        self._waiting += outputs
        if time.monotonic() - self._last >= _LEAST_S:
            self._show(self._labelled.take(self._waiting))
            self._waiting.clear()

    def close(self) -> None:
        """Show the rest."""
        self._show(self._labelled.take(self._waiting))
        self._waiting.clear()
        self._show(self._labelled.close())

    def _show(self, shown: Sequence[Shown]) -> None:
        for part in shown:
            # An output that cannot be displayed must not end the wait for its cell.
            with suppress(Exception):
                self._show_one(part)
        if shown:
            self._last = time.monotonic()

    def _show_one(self, part: Shown) -> None:
        if isinstance(part, MimeBundle):
            transient = {"display_id": part.display_id} if part.display_id else {}
            self._shell.display_pub.publish(
                dict(part.data),
                dict(part.metadata),
                transient=transient,
                update=part.updates,
            )
            return
        stream = sys.stderr if part.is_error else sys.stdout
        stream.write(part.text)
        stream.flush()
