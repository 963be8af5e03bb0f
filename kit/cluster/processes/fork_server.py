"""Import once, fork the engines: the parent process of all engines of a host.

    notebook --starts--> fork server --forks--> engine 0, engine 1, ... --fork--> nanny
             <---pipe--->

Importing what an engine needs costs half a second of CPU and 50 MiB. With four engines
and four nannies on two cores that was most of the start. Here it happens once, while
the controller starts, and the forks share the pages (`kit.forking`).

Its orders come, and its reports go, through the pipe that is its standard input
(`forks.py`); meanwhile it keeps the engines' logs short (`log_bound.py`). It goes on
without engines until SIGTERM. On other hosts than the notebook's, its first engine is
the host's own, which gets the pipe's other end (`host.py`): when that one ends, all
others end.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from kit import machine
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import (
    HOST_ENGINE,
    connection_file,
    log_file,
    logs,
)
from kit.cluster.processes.log_bound import LogBound
from kit.cluster.processes.reaper import Process
from kit.forking import Ended, Forked, Forking, Refused, preload, received

# What an engine imports by itself in its first second, found by comparing.
_PRELOAD = (
    "numpy.random",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "kit.cluster.processes.engine_process",
    "kit.cluster.cells.remote",
    "kit.server.engine",
    # What the first training loads by name.
    "kit.training.core.part",
    "kit.server.elastic.training",
    *(
        f"kit.training.features.{name}"
        for name in (
            "asynchronous.async_steps",
            "backup_workers.steps",
            "checkpointing.writer",
            "elastic.regrouping",
            "hooks.bridge",
        )
    ),
)
_SET_CHILD_SUBREAPER = 36  # prctl(2)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="psring fork server", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--deadline", type=float, required=True)
    parser.add_argument("--host-end", type=int, help="of the pipe, for the host's own")
    return parser.parse_args()


def _adopt_orphans() -> None:
    """Become the parent of what engines leave behind, so that it can be found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class EngineForkServer(Forking):
    """The engines that are ordered through the pipe, and their logs."""

    def __init__(self, pipe: Connection, folder: Path) -> None:
        # A start time of 0 matches no process, so one that has ended gets no signal.
        super().__init__(pipe, lambda pid: reaper.find(pid) or Process(pid, 0))
        self._logs = LogBound(logs(folder))
        self._is_stopping, self._is_open = False, True

    def tell(self, news: Forked | Refused | Ended) -> None:
        """Send news, but for the host's own engine: nobody has ordered that."""
        if news.number != HOST_ENGINE:
            super().tell(news)

    def refuse(self, number: int, error: OSError) -> None:
        """Say it in the log too; without its own engine nobody would ask this host."""
        super().refuse(number, error)
        print(why := machine.why_no_process(error), flush=True)
        if number == HOST_ENGINE:
            sys.exit(why)

    def attend(self, first: list[tuple[int, str]]) -> tuple[int, str] | None:
        """Fork as ordered and report ends until stopped; in a fork, return its order.

        SIGTERM is blocked, so none is lost while an engine is forked.
        """
        orders = first
        while True:
            for index, name in orders:
                if self.fork(index):
                    return index, name
            if self._is_stopping and not self.children:
                return None
            ways = [self.pipe] if self._is_open else []
            ended = self.wait(*ways, timeout_s=self._logs.check())
            if HOST_ENGINE in ended or signal.sigtimedwait({signal.SIGTERM}, 0):
                self._stop()
            orders = self._orders()

    def _orders(self) -> list[tuple[int, str]]:
        """Return what has been ordered; whoever closes the pipe orders no more."""
        try:
            return list(received(self.pipe)) if self._is_open else []
        except EOFError:
            self._is_open = False
            return []

    def _stop(self) -> None:
        """Ask all engines to end; `attend` returns after the last one."""
        self._is_stopping = True
        for pid in self.children:
            # Ours and not reaped yet: its pid is no other's, and no descriptor needed.
            os.kill(pid, signal.SIGTERM)


def _orders_pipe() -> Connection:
    """Return the pipe at standard input, which then is empty."""
    pipe = Connection(os.dup(0))
    with Path(os.devnull).open() as null:
        os.dup2(null.fileno(), 0)
    return pipe


def _become_engine(index: int, name: str, arguments: argparse.Namespace) -> None:
    os.setsid()  # Ctrl-C in the notebook's terminal is not for the engines
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with log_file(arguments.folder, name).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:15])  # the name that `top` shows
    if index == HOST_ENGINE:
        from kit.cluster.processes import host_calls

        host_calls.take(Connection(arguments.host_end))
    elif arguments.host_end is not None:
        os.close(arguments.host_end)
    from kit.cluster.processes.engine_process import run

    run(index, connection_file(arguments.folder, "engine"), arguments.deadline)


def main() -> None:
    """Fork the engines and attend to them; in an engine, run it."""
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before a library starts a thread: it would inherit an open mask, and take it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _adopt_orphans()
    print(*preload(_PRELOAD), sep="", end="", flush=True)
    pipe = _orders_pipe()
    fork_server = EngineForkServer(pipe, arguments.folder)
    is_far = arguments.host_end is not None
    order = fork_server.attend([(HOST_ENGINE, "host")] if is_far else [])
    if order is not None:
        pipe.close()
        _become_engine(*order, arguments)
    elif is_far:
        # The reaper would do it, but the launcher may have killed the reaper.
        shutil.rmtree(arguments.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
