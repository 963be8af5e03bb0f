"""Import once, fork the engines: the parent process of all engines of a host.

    notebook --starts--> fork server --forks--> engine 0, engine 1, ... --fork--> nanny
             <---pipe--->

Importing what an engine needs costs half a second of CPU and 50 MiB. With four engines
and four nannies on two cores that was most of the start. Here it happens once, while
the controller starts, and the forks share the pages. Before a fork it uses nothing that
a fork would break: no thread, no event loop, no zmq context, no GPU.

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
import fcntl
import gc
import importlib
import os
import shutil
import signal
import sys
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

from kit import machine
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import (
    HOST_ENGINE,
    EngineEnded,
    EngineForked,
    EngineRefused,
    connection_file,
    log_file,
    logs,
    received,
)
from kit.cluster.processes.log_bound import LogBound
from kit.cluster.processes.reaper import Process

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
            "elastic.copier",
            "elastic.regrouping",
            "hooks.bridge",
        )
    ),
)
_SET_CHILD_SUBREAPER = 36  # prctl(2)
# SIGIO says that something has come through the pipe.
_NEWS = {signal.SIGCHLD, signal.SIGIO, signal.SIGTERM}


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


def _preload() -> None:
    """Import ahead; an import that fails does so again, visibly, where it is used."""
    for name in _PRELOAD:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"not preloaded: {name}: {type(error).__name__}: {error}", flush=True)


class EngineForkServer:
    """The engines as child processes, by pid, and the report about them.

    A lack of processes, memory or descriptors refuses the engine that needs them. The
    others go on: they hold the state.
    """

    def __init__(self, pipe: Connection, folder: Path) -> None:
        self._pipe = pipe
        self._logs = LogBound(logs(folder))
        self._is_stopping = False
        self._engines: dict[Process, int] = {}

    def fork(self, index: int) -> bool:
        """Start engine `index`; True in the engine, False in the fork server."""
        try:
            with warnings.catch_warnings():
                # The only other threads are those of the BLAS, which expects forks.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError as error:
            self._refuse(index, error)
            return False
        if pid == 0:
            return True
        try:
            # A start time of 0 matches no process, so one that has ended gets no
            # signal.
            process = reaper.find(pid) or Process(pid, 0)
        except OSError as error:  # a process that cannot be followed may not run
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._refuse(index, error)
            return False
        self._engines[process] = index
        if index != HOST_ENGINE:  # which nobody has ordered
            self._tell(EngineForked(index, process))
        return False

    def _refuse(self, index: int, error: OSError) -> None:
        why = machine.why_no_process(error)
        print(why, flush=True)
        self._tell(EngineRefused(index, why))
        if index == HOST_ENGINE:  # nobody would ask this host for anything
            sys.exit(why)

    def _tell(self, news: EngineForked | EngineRefused | EngineEnded) -> None:
        with contextlib.suppress(OSError):  # nobody is there, and our reaper ends us
            self._pipe.send(news)

    def _stop(self) -> None:
        """Ask all engines to end; `attend` returns after the last one."""
        self._is_stopping = True
        for process in list(self._engines):
            # Ours and not reaped yet: its pid is no other's, and no descriptor needed.
            os.kill(process.pid, signal.SIGTERM)

    def attend(self, first: list[tuple[int, str]]) -> tuple[int, str] | None:
        """Fork as ordered and report ends until stopped; in a fork, return its order.

        The signals are blocked: each waits for `sigtimedwait`, none is lost meanwhile.
        """
        orders = first
        while True:
            # Before the wait: no signal tells of what came before the first look.
            with contextlib.suppress(EOFError):
                orders.extend(received(self._pipe))
            for index, name in orders:
                if self.fork(index):
                    return index, name
            self._reap()
            if self._is_stopping and not self._engines:
                return None
            news = signal.sigtimedwait(_NEWS, self._logs.check())
            if news is not None and news.si_signo == signal.SIGTERM:
                self._stop()
            orders = []

    def _reap(self) -> None:
        """Report the engines that have ended; one SIGCHLD may stand for several."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for process in [p for p in self._engines if p.pid == ended[0]]:
                    status = os.waitstatus_to_exitcode(ended[1])
                    index = self._engines.pop(process)
                    self._tell(EngineEnded(index, process, status))
                    if index == HOST_ENGINE:
                        self._stop()


def _orders_pipe() -> Connection:
    """Return the pipe at standard input, which then is empty; it sends SIGIO."""
    pipe = Connection(os.dup(0))
    with Path(os.devnull).open() as null:
        os.dup2(null.fileno(), 0)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    return pipe


def _become_engine(index: int, name: str, arguments: argparse.Namespace) -> None:
    os.setsid()  # Ctrl-C in the notebook's terminal is not for the engines
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEWS)
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
    # Should a thread get it that there was before, it would end this process.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    # Before a library starts a thread: it would inherit an open mask, and take the
    # signals from `sigwait`.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NEWS)
    _adopt_orphans()
    _preload()
    pipe = _orders_pipe()
    fork_server = EngineForkServer(pipe, arguments.folder)
    gc.collect()
    gc.freeze()  # else the first collection in each engine would copy all pages
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
