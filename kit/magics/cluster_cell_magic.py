"""`%%cluster`: start or reuse a cluster, then run the cell in the notebook."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import MethodType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.display import DisplayHandle

from kit.cluster.cluster import Cluster
from kit.cluster.launchers.site import launcher_defaults
from kit.cluster.options import ClusterOptions
from kit.cluster.polling import Polling, drive, drive_async
from kit.cluster.report import ClusterState, TaskStatus
from kit.errors import ClusterBusy, FailedPreconditionError, InvalidArgumentError
from kit.magics import running
from kit.magics.launcher_options import asked_launcher, launcher_options
from kit.magics.line_parsing import (
    count,
    errors_in_one_line,
    gpus,
    job,
    option,
    parse,
    seconds,
    show_as,
    takes,
)
from kit.markup import Html, in_cell, rows_table

# --------------------------------------------------------------------------------------
# The start of a cluster as a table: how far each task is, in words and seconds.
#
# The HTML sets no colours, so it is readable on a light and on a dark background, and
# there is a text form with the same content. `Live` shows it, and updates it in place.

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


# --------------------------------------------------------------------------------------
# What a `%%cluster` line asks for, and what to do if a cluster is running already.
#
# Pure: it starts and stops nothing.


class Action(Enum):
    """What to do about a cluster."""

    START = "start"
    REUSE = "reuse"
    REPLACE = "replace"


@dataclass(frozen=True)
class Running:
    """The cluster that runs now; `step` is that of its training, None without one."""

    options: ClusterOptions
    state: ClusterState
    step: int | None = None


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the line as arguments of `Cluster`.

    Raises `InvalidArgumentError` for a job that is named twice.
    """
    named = {
        "ps": options.ps,
        "worker": options.worker,
        "transport": options.transport,
        "link": options.link,
        "threads": options.threads,
        "gpus": options.gpus,
        "lease_s": options.lease,
        "start_deadline_s": options.timeout,
        "insecure": options.insecure or None,
    }
    jobs: dict[str, int] = {}
    for name, number in options.job or ():
        if name in jobs:
            raise InvalidArgumentError(f"job {name!r} is given twice; give it once.")
        jobs[name] = number
    keywords = {name: value for name, value in named.items() if value is not None}
    return keywords | ({"jobs": jobs} if jobs else {})


def has_shape(options: dict[str, Any]) -> bool:
    """Whether the arguments describe a cluster; its link and start deadline do not.

    >>> has_shape({"worker": 2}), has_shape({"link": "1gbit"})
    (True, False)
    """
    return bool(options.keys() - {"link", "start_deadline_s"})


def is_alike(options: ClusterOptions, other: ClusterOptions) -> bool:
    """Whether two clusters are the same for their user."""
    how = "threads", "gpus", "transport", "insecure", "lease_s", "launcher"
    fields = ("tasks", *how)
    return all(getattr(options, name) == getattr(other, name) for name in fields)


def decide(
    wanted: ClusterOptions | None,
    running: Running | None,
    *,
    reuse: bool = False,
    restart: bool = False,
) -> Action:
    """Return what to do; `wanted` is None when any cluster will do.

    Raises `InvalidArgumentError` for `reuse` with `restart`, `FailedPreconditionError`
    if `reuse` is asked for and a different cluster runs, and `ClusterBusy` if that one
    trains and `restart` is not asked for.
    """
    if reuse and restart:
        raise InvalidArgumentError("--reuse and --restart exclude each other.")
    if running is None:
        return Action.START
    if restart:
        return Action.REPLACE
    is_wanted = wanted is None or is_alike(wanted, running.options)
    if is_wanted and (reuse or running.state is ClusterState.READY):
        return Action.REUSE
    if reuse:
        raise FailedPreconditionError(
            f"the cluster that runs has {running.options.as_arguments}; another one "
            f"was asked for. Leave out --reuse to replace it, or the numbers to use it."
        )
    if running.step is not None:
        raise ClusterBusy(
            f"a training runs on the cluster with {running.options.as_arguments} (step "
            f"{running.step}); end it with run.stop(), or add --restart to end both."
        )
    return Action.REPLACE


# --------------------------------------------------------------------------------------
# The magic.


@magics_class
class StartMagics(Magics):
    """The magic `%%cluster`, and the parts of it that other magics use."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self._shell: Any = shell  # much of it is untyped
        self.started: Cluster | None = None
        self._px: Any = None

    @cell_magic
    @takes(
        "%%cluster",
        option(
            "--ps",
            type=count,
            metavar="N",
            help="number of parameter servers (default: 1)",
        ),
        option(
            "--worker", type=count, metavar="N", help="number of workers (default: 3)"
        ),
        option(
            "--job",
            type=job,
            action="append",
            metavar="NAME=N",
            help="another job and its number of tasks, such as chief=1; once for each",
        ),
        option(
            "--link",
            metavar="SPEED",
            help="bandwidth, latency and jitter of the links in trainings that ask for "
            "none, such as 1gbit or 100mbit,5ms,1ms (default: full speed)",
        ),
        option(
            "--transport",
            choices=["auto", "unix", "tcp", "mpi"],
            help="how tasks are linked (default: auto, the best that both ends have; "
            "mpi needs --launcher mpi)",
        ),
        option(
            "--insecure",
            action="store_true",
            help="no TLS on TCP: anybody on the line can act as you, also on files",
        ),
        option(
            "--threads",
            type=count,
            metavar="N",
            help="BLAS threads of each task (default: the least share of cores)",
        ),
        option(
            "--gpus",
            type=gpus,
            metavar="N",
            help="GPUs of its own for each worker; 0 for none (default: auto, one, "
            "shared where there are fewer)",
        ),
        option(
            "--timeout",
            type=seconds,
            metavar="S",
            help="seconds that the start may take (default: 60)",
        ),
        option(
            "--lease",
            type=seconds,
            metavar="S",
            help="seconds that tasks outlive a notebook that was killed (default: 15)",
        ),
        option(
            "--reuse",
            action="store_true",
            help="use the cluster that runs, also while it trains; one of another "
            "shape is an error and is not replaced",
        ),
        option(
            "--restart",
            action="store_true",
            help="end the cluster that runs, and its training, and start a new one",
        ),
        *launcher_options(),
    )
    def cluster(self, line: str, cell: str) -> None:
        """Start a cluster, or use the one that runs, and run the cell in the notebook.

        Examples::

            %%cluster --ps 1 --worker 3
            run = kit.train(step, params, data)
            await run

            %%cluster --link 1gbit,5ms --timeout 120

            %%cluster --ps 1 --worker 4 --launcher ssh --hosts nodea:3,nodeb:2

        If a cluster of the same shape runs, it is used again. One of another shape is
        replaced, unless a training runs on it. The cluster goes on after the cell, even
        if the cell raises.

        In plain Python: `cluster = kit.Cluster(ps=1, worker=3).start()`.
        """
        with errors_in_one_line():
            drive(self.perform(line))
        if not cell.strip():
            return
        result = self._shell.run_cell(cell, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            show_as(error, [])  # `run_cell` has shown it already
            raise error

    async def begin(self, line: str) -> None:
        """Do what the line asks for while the notebook's event loop goes on."""
        with errors_in_one_line():
            await drive_async(self.perform(self._shell.var_expand(line)))

    def perform(self, line: str) -> Polling[None]:
        """Do what the line asks for, as a polling."""
        options = parse(StartMagics.cluster, line)
        arguments = arguments_of(options)
        launcher = asked_launcher(options, self._shell.user_ns, launcher_defaults)
        if launcher is not None:
            arguments["launcher"] = launcher
        now = running.find()
        wanted = Cluster(**arguments)
        action = decide(
            wanted.options if has_shape(arguments) else None,
            None if now is None else _look(now),
            reuse=options.reuse,
            restart=options.restart,
        )
        if action is Action.REUSE and now is not None:
            if options.link is not None:
                now.link = options.link
            print(f"Used again: {now!r}")
            return
        if launcher is None:  # else the memory of this machine does not matter
            wanted.check_memory(instead_of=now)
        if now is not None:
            print(f"{_why(options.restart, now)}, and its variables with it.")
            now.stop()
        yield from self.start(wanted)

    def start(self, cluster: Cluster) -> Polling[None]:
        """Start a cluster and show its progress, as a polling."""
        for words in (running.left_behind_notice(), cluster.cores_in_words):
            if words:
                print(words)
        live, begin = Live(self._shell), time.monotonic()
        estimate = cluster.memory_in_words
        title, starting = "Not started", cluster.begin_start()
        try:
            for pause_s in starting:
                live.show(_moment("Starting", cluster, begin, estimate))
                yield pause_s
            title = repr(cluster).strip("<>")
        except KeyboardInterrupt as stop:
            starting.close()
            said = "the start was interrupted, and what had begun is ended."
            show_as(stop, [f"KeyboardInterrupt: {said}"])
            raise
        finally:
            live.close(_moment(title, cluster, begin, cluster.memory_in_words))
        self.started = cluster
        self.activate_px(cluster)

    def activate_px(self, cluster: Cluster) -> None:
        """Let ipyparallel's own `%%px` run on all tasks of this cluster."""
        self._px = cluster.view("all")
        self._px.block = True
        self._px.activate()

    def forget_px(self) -> None:
        """Remove `%%px` if it still refers to a cluster of ours."""
        for magics in self._shell.magics_manager.magics.values():
            for name, magic in list(magics.items()):
                # One that was not used yet would be loaded if an attribute were read.
                if isinstance(magic, MethodType):
                    view = getattr(magic.__self__, "view", None)
                    if view is not None and view is self._px:
                        del magics[name]
        self._px = None


def _moment(title: str, cluster: Cluster, begin: float, note: str) -> Startup:
    return Startup(title, tuple(cluster.status), time.monotonic() - begin, note)


def _look(cluster: Cluster) -> Running:
    run = cluster.run
    step = run.step if run is not None and not run.done else None
    return Running(cluster.options, cluster.state, step)


def _why(is_asked: bool, cluster: Cluster) -> str:
    lost = [status for status in cluster.status if status.state is ClusterState.LOST]
    what = f"the cluster with {cluster.options.as_arguments} ends"
    if lost:
        return f"{lost[0].task.short} is lost; {what}"
    if cluster.state is ClusterState.LOST:
        return f"{cluster!r} cannot go on as it is; {what}"
    return f"As asked, {what}" if is_asked else f"Another one is asked for; {what}"
