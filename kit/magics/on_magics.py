"""`%%on worker`: run the cell on the engines of a job or task, by name."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from warnings import warn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class

from kit.cluster.cells.cell_output import CellOutput, OutputKind
from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.groups import CellGroups, WatchedGroup
from kit.cluster.cells.on import cells_on, on_tasks
from kit.cluster.cells.selection import select
from kit.cluster.polling import Polling, drive, drive_async
from kit.magics import running
from kit.magics.line_parsing import errors_in_one_line, option, parse, seconds, takes
from kit.task import Task
from kit.trace.waits import waits_in
from kit.training.client.run import view

# --------------------------------------------------------------------------------------
# Output of several tasks as labelled lines: `worker:1 | text`, capped, in order.
#
# Pure, except for its clock. Lines of one task keep their order; a line is shown when
# it is complete, or when its rest has not come for a while. Text written over a line
# with carriage returns (a progress bar) is shown in its last state.

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


# --------------------------------------------------------------------------------------
# The boards of the groups that a cell uses: below it, and live if it takes a while.
#
# What draws them is the view `group` of the group of entry points `kit.views`; without
# one, and in a terminal, each group is one plain line.

_FIRST_S, _EVERY_S = 0.7, 1.0  # until groups are looked for, and between two looks
_MOST, _MOST_LINES = 4, 12  # boards of one cell, and lines without them


class GroupBoards:
    """Shows the groups of one cell as they come."""

    def __init__(
        self,
        groups: CellGroups,
        *,
        shows_messages: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `shows_messages`, boards begin with the messages from task to task."""
        self._groups, self._clock = groups, clock
        self._shows_messages = shows_messages
        self._due = clock() + _FIRST_S
        self._unseen: list[WatchedGroup] = []
        self._lines: list[WatchedGroup] = []  # are told in the end, without a board
        self._n_shown = 0

    def look(self) -> None:
        """Show boards of groups that are new; call it while the cell runs."""
        if self._clock() >= self._due:
            self._unseen += self._groups.new()
            self._show_moved()
            # When the answers have come: slow tasks are not asked all the time.
            self._due = self._clock() + _EVERY_S

    def close(self) -> None:
        """Show the rest: the cell is over."""
        self._unseen += self._groups.new()
        self._groups.close()
        self._show_moved()
        for group in self._lines:
            now = group.look()
            print(now.words)
            if self._shows_messages:
                for wait in waits_in(now.trace)[:_MOST_LINES]:
                    print(wait.words)

    def _show_moved(self) -> None:
        """Show what has moved something; of the rest an error says what there is to."""
        unseen, self._unseen = self._unseen, []
        for group in unseen:
            if group.has_moved:
                self._show(group)
            else:
                self._unseen.append(group)

    def _show(self, group: WatchedGroup) -> None:
        has_room = self._n_shown < _MOST and len(group.tasks) > 1
        show = view("group") if has_room else None
        if show is None:
            self._lines.append(group)
            return
        try:
            show(group, shows_messages=self._shows_messages)
        except Exception as error:  # a picture must not fail the user's cell
            self._lines.append(group)
            if not isinstance(error, NotImplementedError):  # in a terminal
                warn(f"the board of a group cannot be drawn: {error}", stacklevel=2)
        else:
            self._n_shown += 1


# --------------------------------------------------------------------------------------
# The magic.


@magics_class
class OnMagics(Magics):
    """The magic `%%on`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self._shell: Any = shell  # much of it is untyped

    @cell_magic
    @takes(
        "%%on",
        option(
            "tasks",
            nargs="*",
            metavar="TASK",
            help="a job (worker), a task (worker:1, /job:worker/task:1) or all; commas "
            "or spaces between several",
        ),
        option(
            "--timeout",
            type=seconds,
            metavar="S",
            help="seconds that the cell may take, with --each on each task; then it is "
            "interrupted (default: no limit)",
        ),
        option(
            "--trace",
            action="store_true",
            help="show the messages between its tasks: who waited for whom",
        ),
        option(
            "--each",
            action="store_true",
            help="run on one task after the other; `task` is the one it runs on",
        ),
    )
    def on(self, line: str, cell: str) -> None:
        """Run the cell on the named tasks; show the output of each, by name.

        Examples::

            %%on worker
            import os
            print(os.getpid())

            %%on worker:1,ps --timeout 5
            %%on all --each

        The cell sees the task's own variables, and `kit.this_server()` is the task's
        server. It also runs during a training. The stop button interrupts it on these
        tasks. Below a cell that makes calls of a `kit.group` stands the board of that.

        In plain Python: `cluster.on("worker", code)`.
        """
        with errors_in_one_line():
            drive(self._perform(line, cell))

    async def begin(self, line: str, cell: str) -> None:
        """Run the cell on the tasks while the notebook's event loop goes on."""
        with errors_in_one_line():
            await drive_async(self._perform(self._shell.var_expand(line), cell))

    def _perform(self, line: str, cell: str) -> Polling[None]:
        options = parse(OnMagics.on, line)
        cluster = running.require()
        names = [name for word in options.tasks for name in word.split(",") if name]
        if not names:
            jobs = ", ".join(dict.fromkeys(task.job for task in cluster.tasks))
            raise UsageError(f"%%on needs a job or task, such as one of: {jobs}, all.")
        if not cell.strip():
            raise UsageError("%%on has nothing to run; write code below its line.")
        tasks = select(names, cluster.tasks)
        for run in cells_on(cluster, tasks, cell, each=options.each):
            groups = CellGroups(lambda: cluster.directory, run.tasks, run.scope)
            boards = GroupBoards(groups, shows_messages=options.trace)
            yield from self._follow(run, boards, options.timeout)

    def _follow(
        self, run: CellRun, boards: GroupBoards, timeout_s: float | None
    ) -> Polling[None]:
        showing = Showing(self._shell, run.tasks)

        def show(outputs: Sequence[CellOutput]) -> None:
            showing(outputs)
            boards.look()

        try:
            yield from on_tasks(run, show, timeout_s)
        finally:
            showing.close()
            boards.close()
