"""`%%cluster`: start or reuse a cluster, then run the cell in the notebook."""

from __future__ import annotations

import time
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class

from kit.cluster.cluster import Cluster
from kit.cluster.launchers.site import launcher_defaults
from kit.cluster.polling import Polling, drive, drive_async
from kit.cluster.report import ClusterState
from kit.magics import running, start_request
from kit.magics.launcher_options import asked_launcher, launcher_options
from kit.magics.line_parsing import (
    count,
    job,
    option,
    parse,
    seconds,
    show_as,
    takes,
    told_in_one_line,
)
from kit.magics.start_request import Action
from kit.magics.startup import Live, Startup


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
            choices=["auto", "unix", "tcp"],
            help="how tasks are linked (default: auto, the best that both ends have)",
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
        with told_in_one_line():
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
        with told_in_one_line():
            await drive_async(self.perform(self._shell.var_expand(line)))

    def perform(self, line: str) -> Polling[None]:
        """Do what the line asks for, as a polling."""
        options = parse(StartMagics.cluster, line)
        arguments = start_request.arguments(options)
        launcher = asked_launcher(options, self._shell.user_ns, launcher_defaults)
        if launcher is not None:
            arguments["launcher"] = launcher
        now = running.find()
        wanted = Cluster(**arguments)
        action = start_request.decide(
            wanted.options if start_request.has_shape(arguments) else None,
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
        for words in (running.left_told(), cluster.cores_told):
            if words:
                print(words)
        live, begin = Live(self._shell), time.monotonic()
        estimate = cluster.memory_told
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
            live.close(_moment(title, cluster, begin, cluster.memory_told))
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
                view = getattr(getattr(magic, "__self__", None), "view", None)
                if view is not None and view is self._px:
                    del magics[name]
        self._px = None


def _moment(title: str, cluster: Cluster, begin: float, note: str) -> Startup:
    return Startup(title, tuple(cluster.status), time.monotonic() - begin, note)


def _look(cluster: Cluster) -> start_request.Running:
    run = cluster.run
    step = run.step if run is not None and not run.done else None
    return start_request.Running(cluster.options, cluster.state, step)


def _why(is_asked: bool, cluster: Cluster) -> str:
    lost = [status for status in cluster.status if status.state is ClusterState.LOST]
    what = f"the cluster with {cluster.options.as_arguments} ends"
    if lost:
        return f"{lost[0].task.short} is lost; {what}"
    if cluster.state is ClusterState.LOST:
        return f"{cluster!r} cannot go on as it is; {what}"
    return f"As asked, {what}" if is_asked else f"Another one is asked for; {what}"
