"""The orders and reports of a fork server, in files of its folder.

    orders           INDEX NAME, a line for each engine that it is to fork
    engines.jsonl    {"engine": 0, "pid": 17, "started": 4711} after the fork,
                     {"engine": 0, "status": -9} after the end (negative: the signal)
                     {"engine": 0, "refused": "..."} when it cannot be forked, and why
    logs/NAME.log    what the engine writes

Lines are only ever appended, each in one write. SIGUSR1 says that there is an order.
"""

from __future__ import annotations

import contextlib
import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kit.cluster.processes import reaper
from kit.cluster.processes.reaper import Process

CELL = "psring_cell"  # in the metadata of a cell: which one it is, and on which tasks
# The number of a host's own engine, with which all others there end; above all tasks'.
HOST_ENGINE = 1_000_000


class ForkRefusal(NamedTuple):
    """Why an engine was not forked; `line` of the report tells it from another one."""

    line: int
    why: str


class Report(NamedTuple):
    """What a fork server has reported, by the engine's number.

    The processes and refusals are the newest of each. On other hosts a process is a
    `FarProcess`.
    """

    processes: dict[int, Any]
    statuses: dict[int, int]
    refusals: dict[int, ForkRefusal]


@dataclass(frozen=True)
class Forks:
    """The files of one fork server."""

    folder: Path

    def connection(self, kind: str) -> Path:
        """Return where ipyparallel's connection file is, for "engine" or "client"."""
        security = self.folder / "ipython" / "profile" / "security"
        return security / f"ipcontroller-psring-{kind}.json"

    def log(self, name: str) -> Path:
        """Return where the log of the task `name` is, such as `worker:1`."""
        return self.logs / f"{name.replace(':', '-')}.log"

    @property
    def logs(self) -> Path:
        """The folder of all logs."""
        return self.folder / "logs"

    def order(self, index: int, name: str, server: Process | None = None) -> None:
        """Order a process for engine `index`; wake the server, if it runs already."""
        with self._orders.open("a", encoding="utf-8") as file:
            file.write(f"{index} {name}\n")
        if server is not None:
            reaper.send(server, signal.SIGUSR1)

    def orders(self) -> list[tuple[int, str]]:
        """Return all orders so far; none if the folder is gone."""
        try:
            lines = self._orders.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        parts = [line.split() for line in lines]
        return [(int(index), name) for index, name in parts]

    def tell(self, **line: int | str) -> None:
        """Append a line to the report; a write this short is not torn."""
        # The folder may be gone, and engines must survive that: they hold the state.
        with (
            contextlib.suppress(FileNotFoundError),
            self._report.open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(line) + "\n")

    def report(self) -> Report:
        """Return what was reported so far."""
        report = Report({}, {}, {})
        with contextlib.suppress(FileNotFoundError):
            for number, line in enumerate(self._report.read_text().splitlines()):
                entry = json.loads(line)
                index = entry["engine"]
                if "pid" in entry:
                    report.processes[index] = Process(entry["pid"], entry["started"])
                    report.statuses.pop(index, None)  # that of an earlier process
                elif "refused" in entry:
                    report.refusals[index] = ForkRefusal(number, entry["refused"])
                else:
                    report.statuses[index] = entry["status"]
        return report

    @property
    def _orders(self) -> Path:
        return self.folder / "orders"

    @property
    def _report(self) -> Path:
        return self.folder / "engines.jsonl"
