"""`%%on worker`: run the cell on the engines of a job or task, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from warnings import warn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class

from kit.cluster.cells.cell_output import CellOutput
from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.groups import CellGroups, WatchedGroup
from kit.cluster.cells.on import cells_on, on_tasks
from kit.cluster.cells.selection import select
from kit.cluster.polling import Polling, drive, drive_async
from kit.magics import running
from kit.magics.labelled import Showing
from kit.magics.line_parsing import option, parse, seconds, takes, told_in_one_line
from kit.trace.waits import waits_in
from kit.training.client.run import view

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
        self._lines: list[
            WatchedGroup
        ] = []  # that are told in the end, without a board
        self._n_shown = 0

    def look(self) -> None:
        """Show boards of groups that are new; call it while the cell runs."""
        if self._clock() >= self._due:
            for group in self._groups.new():
                self._show(group)
            # When the answers have come: slow tasks are not asked all the time.
            self._due = self._clock() + _EVERY_S

    def close(self) -> None:
        """Show the rest: the cell is over."""
        new = self._groups.new()
        self._groups.close()
        for group in new:
            if group.has_moved:  # else an error says what there is to say
                self._show(group)
        for group in self._lines:
            now = group.look()
            print(now.words)
            if self._shows_messages:
                for wait in waits_in(now.trace)[:_MOST_LINES]:
                    print(wait.words)

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
        with told_in_one_line():
            drive(self._perform(line, cell))

    async def begin(self, line: str, cell: str) -> None:
        """Run the cell on the tasks while the notebook's event loop goes on."""
        with told_in_one_line():
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
