"""`%cluster status|stop|restart|kill|add|remove|...`: manage the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import display

from kit.cluster.cells.selection import select
from kit.cluster.launchers.fields import nearest
from kit.cluster.polling import drive
from kit.cluster.processes import left_behind
from kit.cluster.processes.processes import described
from kit.magics import running
from kit.magics.cluster_cell_magic import StartMagics
from kit.magics.line_parsing import count, errors_in_one_line, option, parse, takes

_LINES = 20

Word: TypeAlias = "Callable[[ClusterMagics, list[str], int], None]"


@magics_class
class ClusterMagics(Magics):
    """The magic `%cluster`."""

    def __init__(self, shell: InteractiveShell, starter: StartMagics) -> None:
        super().__init__(shell=shell)
        self._shell: Any = shell  # much of it is untyped
        self._starter = starter

    @line_magic
    @takes(
        "%cluster",
        option(
            "what",
            nargs="?",
            default="status",
            metavar="WORD",
            help="status (default), stop, restart, kill, add, remove, logs, list or "
            "clean",
        ),
        option(
            "tasks",
            nargs="*",
            metavar="TASK",
            help="whose process to restart, kill or remove, or whose log to show, such "
            "as worker:1; spaces between several; for add a job, such as worker",
        ),
        option(
            "-n",
            type=count,
            default=_LINES,
            metavar="N",
            help=f"how many lines of each log (default: {_LINES})",
        ),
    )
    def cluster(self, line: str) -> None:
        """Manage the cluster.

        Examples::

            %cluster                     show the tasks and their states (status)
            %cluster stop                end the cluster; nothing is left
            %cluster restart             end it and start one like it
            %cluster restart worker:1    give one task a new process
            %cluster kill worker:1       kill one task's process, to practise a loss
            %cluster add worker          start one more worker
            %cluster remove worker:2     end a task for good
            %cluster logs worker:1       show the last lines of a task's log
            %cluster logs -n 50          show more lines, of all tasks
            %cluster list                show all your clusters on this machine
            %cluster clean               end those with a dead notebook
            %cluster --ps 1 --worker 3   start one; takes all options of %%cluster

        In plain Python: `cluster.status`, `cluster.stop()`,
        `cluster.restart("worker:1")`, `cluster.kill("worker:1")`,
        `cluster.add("worker")`, `cluster.remove("worker:2")`,
        `cluster.log("worker:1", 50)`.
        """
        with errors_in_one_line():
            if line.lstrip().startswith("--"):
                drive(self._starter.perform(line))
                return
            options = parse(ClusterMagics.cluster, line)
            if options.what not in self.words:
                raise UsageError(
                    f"%cluster has no command {options.what!r}."
                    f"{nearest(options.what, list(self.words))} "
                    f"It knows: {', '.join(self.words)}."
                )
            tasks = [part for word in options.tasks for part in word.split(",") if part]
            self.words[options.what](self, tasks, options.n)

    def _status(self, tasks: list[str], _: int) -> None:
        _refuse(tasks, "status")
        cluster = running.find()
        if cluster is None:
            print(running.no_cluster_notice())
            return
        display(cluster)  # type: ignore[no-untyped-call]
        # One that is over, above all a failed one, would be taken for its state.
        if cluster.run is not None and not cluster.run.done:
            display(cluster.run)  # type: ignore[no-untyped-call]

    def _stop(self, tasks: list[str], _: int) -> None:
        _refuse(tasks, "stop")
        cluster = running.find()
        if cluster is None:
            print("no cluster is running.")
            return
        cluster.stop()
        print(f"{cluster!r}".strip("<>"))

    def _restart(self, tasks: list[str], _: int) -> None:
        cluster = running.require()
        if not tasks:
            cluster.check_idle("restart the cluster")
            cluster.stop()
            drive(self._starter.start(cluster.twin()))
            return
        for task in select(tasks, cluster.tasks):
            begin = time.monotonic()
            cluster.restart(task)
            past_s = time.monotonic() - begin
            print(
                f"{task.short} has a new process after {past_s:.1f} s; what was "
                f"defined there is gone."
            )
        self._starter.activate_px(cluster)

    def _kill(self, tasks: list[str], _: int) -> None:
        cluster = running.require()
        if not tasks:
            raise UsageError("%cluster kill needs a task, such as worker:1.")
        for task in select(tasks, cluster.tasks):
            cluster.kill(task)
            print(f"{task.short} was killed; %cluster restart {task.short} mends it.")

    def _add(self, jobs: list[str], _: int) -> None:
        cluster = running.require()
        if not jobs:
            raise UsageError("%cluster add needs a job, such as worker.")
        for job in jobs:
            begin = time.monotonic()
            task = cluster.add(job)
            print(f"{task.short} is ready after {time.monotonic() - begin:.1f} s.")
        self._starter.activate_px(cluster)

    def _remove(self, tasks: list[str], _: int) -> None:
        cluster = running.require()
        if not tasks:
            raise UsageError("%cluster remove needs a task, such as worker:2.")
        for task in select(tasks, cluster.tasks):
            cluster.remove(task)
            print(f"{task.short} has ended, and is not a task any more.")
        self._starter.activate_px(cluster)

    def _logs(self, tasks: list[str], n_lines: int) -> None:
        cluster = running.require()
        for task in select(tasks or "all", cluster.tasks):
            text, path = cluster.log(task, n_lines), cluster.log_path(task)
            has_log = f"{task.short}, {path}:\n{text}"
            print(has_log if text else f"{task.short}: no log yet")

    def _list(self, tasks: list[str], _: int) -> None:
        _refuse(tasks, "list")
        clusters = left_behind.find()
        for cluster in clusters:
            print(cluster)
        if not clusters:
            print("you have no cluster on this machine.")
        elif any(left_behind.is_left_behind(item) for item in clusters):
            print("%cluster clean ends those that were left behind.")

    def _clean(self, tasks: list[str], _: int) -> None:
        _refuse(tasks, "clean")
        ended = left_behind.clean()
        names = ", ".join(cluster.folder.name for cluster in ended)
        print(f"ended: {names}" if ended else "nothing was left behind.")
        for process in sorted(
            process for cluster in ended for process in cluster.processes
        ):
            print(f"still running: {described(process)}, which you may not end.")

    #: What each word after %cluster does.
    words: ClassVar[dict[str, Word]] = {
        "status": _status,
        "stop": _stop,
        "restart": _restart,
        "kill": _kill,
        "add": _add,
        "remove": _remove,
        "logs": _logs,
        "list": _list,
        "clean": _clean,
    }


def _refuse(tasks: list[str], word: str) -> None:
    if tasks:
        raise UsageError(f"%cluster {word} is about the whole cluster; name no task.")
