"""Import once, fork the engines: the parent process of a local cluster's engines.

    notebook --starts--> fork server --forks--> engine 0, engine 1, ... --fork--> nanny

Importing what an engine needs costs half a second of CPU and 50 MiB. With four engines
and four nannies on two cores that was most of the start. Here it happens once, while
the controller starts, and the forks share the pages. Nothing that a fork would break is
touched before it: no thread, no event loop, no zmq context, no GPU.

It tells what happens to the engines by JSON lines in a file: after the fork
`{"engine": 0, "pid": 17, "started": 4711}`, after the end `{"engine": 0, "status": -9}`
(negative: the signal). It takes orders for further engines from another file, a number
a line, and looks there at SIGUSR1. It lives on without engines, until it is told to
end.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from kit.cluster.processes import reaper
from kit.cluster.processes.reaper import Process

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_POLL_S = 0.01
_NEWS = {signal.SIGCHLD, signal.SIGUSR1}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="psring fork server", description=__doc__)
    parser.add_argument("--names", required=True, help="task names, comma separated")
    parser.add_argument("--connection", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--orders", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--deadline", type=float, required=True)
    parser.add_argument("--preload", default="")
    return parser.parse_args()


def _adopt_orphans() -> None:
    """Become the parent of what engines leave behind, so that it can be found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _preload(modules: str) -> None:
    """Import ahead; what fails here fails again, and plainly, where it is used."""
    for name in filter(None, modules.split(",")):
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"not preloaded: {name}: {type(error).__name__}: {error}", flush=True)


def wait_for_json(path: Path, deadline_s: float) -> None:
    """Return once `path` holds complete JSON; raises TimeoutError."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            json.loads(path.read_text(encoding="utf-8"))
            return
        time.sleep(_POLL_S)
    raise TimeoutError(f"the controller did not write {path} within {deadline_s:g} s")


class ForkServer:
    """The engines as child processes, by pid, and the report about them."""

    def __init__(self, report: Path, orders: Path) -> None:
        self._report, self._orders = report, orders
        self._n_taken = 0
        self._is_stopping = False
        self._engines: dict[Process, int] = {}

    def tell(self, **line: int) -> None:
        """Append one line; a write this short is not torn."""
        # The engines are worth more than the news of them: the folder may be gone.
        with (
            contextlib.suppress(OSError),
            self._report.open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(line) + "\n")

    def fork(self, index: int) -> bool:
        """Start engine `index`; True in the engine, False in the fork server."""
        with warnings.catch_warnings():
            # The only other threads are those of the BLAS, which expects forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            return True
        # One that has ended already is found nowhere, and gets no signal.
        process = reaper.find(pid) or Process(pid, 0)
        self._engines[process] = index
        self.tell(engine=index, pid=pid, started=process.started)
        return False

    def stop(self, number: int, _frame: object) -> None:
        """Pass the signal on to the engines; their end is ours."""
        self._is_stopping = True
        for process in list(self._engines):
            reaper.send(process, number)
        if not self._engines:
            sys.exit(0)

    def attend(self) -> int | None:
        """Report ends and fork on order until stopped; in a fork, return its number."""
        while self._engines or not self._is_stopping:
            if signal.sigwait(_NEWS) == signal.SIGUSR1:
                for index in self._new_orders():
                    if self.fork(index):
                        return index
            self._reap()
        return None

    def _new_orders(self) -> list[int]:
        try:
            orders = [int(line) for line in self._orders.read_text().split()]
        except OSError:  # the folder is gone
            return []
        new, self._n_taken = orders[self._n_taken :], len(orders)
        return new

    def _reap(self) -> None:
        """Report the engines that have ended; one signal may stand for several."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for process in [p for p in self._engines if p.pid == ended[0]]:
                    status = os.waitstatus_to_exitcode(ended[1])
                    self.tell(engine=self._engines.pop(process), status=status)


def _become_engine(index: int, arguments: argparse.Namespace) -> None:
    name = arguments.names.split(",")[index]
    log = arguments.logs / f"{name.replace(':', '-')}.log"
    os.setsid()  # Ctrl-C in the notebook's terminal is not for the engines
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEWS)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:15])  # the name that `top` shows
    from kit.cluster.processes.engine_process import run

    run(index, arguments.connection, arguments.deadline)


def main() -> None:
    """Fork the engines and attend to them; in an engine, run it."""
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before a library starts a thread: that one would take the signals from `sigwait`.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NEWS)
    _adopt_orphans()
    _preload(arguments.preload)
    wait_for_json(arguments.connection, arguments.deadline)
    fork_server = ForkServer(arguments.report, arguments.orders)
    signal.signal(signal.SIGTERM, fork_server.stop)
    gc.collect()
    gc.freeze()  # else the first collection in each engine would copy all pages
    n_engines = len(arguments.names.split(","))
    index = next((i for i in range(n_engines) if fork_server.fork(i)), None)
    if index is None:
        index = fork_server.attend()
    if index is not None:
        _become_engine(index, arguments)


if __name__ == "__main__":
    main()
