"""What goes through the pipe between a fork server and who orders its engines.

    order     (0, "worker:1")                 an engine with this number
    answer    Forked(0, process)              or Refused(0, "...")
    later     Ended(0, process, -9)           its status (negative: the signal)

On the notebook's host the notebook holds the other end, on another host that host's own
engine. It also knows where the files of a cluster are.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from kit.cluster.processes import reaper
from kit.cluster.processes.reaper import Process
from kit.forking import Ended, Forked, received

CELL = "psring_cell"  # in the metadata of a cell: which one it is, and on which tasks
# The number of a host's own engine, with which all others there end; above all tasks'.
HOST_ENGINE = 1_000_000


def connection_file(folder: Path, kind: str) -> Path:
    """Return where ipyparallel's connection file is, for "engine" or "client"."""
    name = f"ipcontroller-psring-{kind}.json"
    return folder / "ipython" / "profile" / "security" / name


def log_file(folder: Path, name: str) -> Path:
    """Return where the log of the task `name` is, such as `worker:1`."""
    return logs(folder) / f"{name.replace(':', '-')}.log"


def logs(folder: Path) -> Path:
    """Return the folder of all logs."""
    return folder / "logs"


class ForkOrders:
    """The end at which engines are ordered, and what was reported there."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.is_open = pipe, True  # until the fork server has ended
        self.names: dict[int, str] = {}
        self.processes: dict[int, Process] = {}  # the newest of each engine
        self.statuses: dict[int, int] = {}
        self._waiting: set[int] = set()

    def order(self, names: Mapping[int, str]) -> None:
        """Order processes for engines, by number and name."""
        self.names |= names
        self._waiting.update(names)
        with contextlib.suppress(OSError):  # it has ended, and `read` notices
            for order in names.items():
                self.pipe.send(order)

    def give_up(self, engines: Iterable[int]) -> None:
        """Wait no longer; a process that is forked all the same is killed."""
        self._waiting.difference_update(engines)

    def read(self) -> dict[int, Process | str]:
        """Take in what has come; return each engine's new process, or why it has none.

        Only of those that were ordered, and not given up.
        """
        answers: dict[int, Process | str] = {}
        try:
            for news in received(self.pipe):
                engine: int = news.number
                if isinstance(news, Ended):
                    if self.processes.get(engine) == news.process:
                        self.statuses[engine] = news.status
                elif engine in self._waiting:
                    self._waiting.remove(engine)
                    if isinstance(news, Forked):
                        self.processes[engine] = answers[engine] = news.process
                        self.statuses.pop(engine, None)  # that of an earlier process
                    else:
                        answers[engine] = news.why
                elif isinstance(news, Forked):
                    reaper.send(news.process, signal.SIGKILL)
        except EOFError:
            self.is_open = False
        return answers
