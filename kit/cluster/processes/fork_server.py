"""Import once, fork the engines: the parent process of a local cluster's engines.

    notebook --starts--> fork server --forks--> engine 0, engine 1, ... --fork--> nanny

Importing what an engine needs costs half a second of CPU and 50 MiB. With four engines
and four nannies on two cores that was most of the start. Here it happens once, while
the controller starts, and the forks share the pages. Before a fork it uses nothing that
a fork would break: no thread, no event loop, no zmq context, no GPU.

Its orders and its reports are files in its folder (`forks.py`); at SIGUSR1 it reads the
orders, and meanwhile it keeps the engines' logs short (`log_bound.py`). It goes on
without engines until SIGTERM. On other hosts than the notebook's, one engine is the
host's own (`host.py`): when that one ends, all others end.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path

from kit import machine
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import HOST_ENGINE, Forks
from kit.cluster.processes.log_bound import LogBound
from kit.cluster.processes.reaper import Process

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_POLL_S = 0.01
_AGAIN_S = 0.5  # after a lack of descriptors
_NEWS = {signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="psring fork server", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--deadline", type=float, required=True)
    parser.add_argument("--preload", default="")
    return parser.parse_args()


def _adopt_orphans() -> None:
    """Become the parent of what engines leave behind, so that it can be found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _preload(modules: str) -> None:
    """Import ahead; an import that fails does so again, visibly, where it is used."""
    for name in filter(None, modules.split(",")):
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"not preloaded: {name}: {type(error).__name__}: {error}", flush=True)


def wait_for_json(path: Path, deadline_s: float) -> None:
    """Return once `path` holds complete JSON; raises TimeoutError."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and signal.SIGTERM not in signal.sigpending():
        with contextlib.suppress(OSError, ValueError):
            json.loads(path.read_text(encoding="utf-8"))
            return
        time.sleep(_POLL_S)
    raise TimeoutError(f"the controller did not write {path} within {deadline_s:g} s")


class EngineForkServer:
    """The engines as child processes, by pid, and the report about them.

    A lack of processes, memory or descriptors refuses the engine that needs them. The
    others go on: they hold the state.
    """

    def __init__(self, forks: Forks) -> None:
        self._forks = forks
        self._n_taken = 0
        self._is_stopping = False
        self._engines: dict[Process, int] = {}
        self._untold: list[dict[str, int | str]] = []  # not written yet

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
        self._tell(engine=index, pid=pid, started=process.started)
        return False

    def _refuse(self, index: int, error: OSError) -> None:
        why = machine.why_no_process(error)
        print(why, flush=True)
        self._tell(engine=index, refused=why)
        if index == HOST_ENGINE:  # nobody would ask this host for anything
            sys.exit(why)

    def _tell(self, **line: int | str) -> None:
        """Add to the report, after what could not be written before."""
        self._untold.append(line)
        self._tell_all()

    def _tell_all(self) -> bool:
        with contextlib.suppress(OSError):  # no descriptor, no room: later
            while self._untold:
                self._forks.tell(**self._untold[0])
                del self._untold[0]
        return not self._untold

    def _stop(self) -> None:
        """Ask all engines to end; `attend` returns after the last one."""
        self._is_stopping = True
        for process in list(self._engines):
            # Ours and not reaped yet: its pid is no other's, and no descriptor needed.
            os.kill(process.pid, signal.SIGTERM)

    def attend(self) -> tuple[int, str] | None:
        """Fork as ordered and report ends until stopped; in a fork, return its order.

        The signals are blocked: each waits for `sigtimedwait`, none is lost meanwhile.
        """
        bound = LogBound(self._forks.logs)
        news: int | None = signal.SIGUSR1  # there are orders already
        while True:
            orders = self._new_orders() if news == signal.SIGUSR1 else []
            for index, name in orders or ():
                if self.fork(index):
                    return index, name
            if news == signal.SIGTERM:
                self._stop()
            self._reap()
            is_done = self._tell_all() and orders is not None
            if self._is_stopping and not self._engines:
                return None
            pause_s = bound.check()
            if not is_done:
                pause_s = min(pause_s, _AGAIN_S)
            found = signal.sigtimedwait(_NEWS, pause_s)
            # What could not be read is tried again, as if there were orders.
            again = None if is_done else signal.SIGUSR1
            news = again if found is None else found.si_signo

    def _new_orders(self) -> list[tuple[int, str]] | None:
        """Return the orders that were not taken yet; None if they cannot be read."""
        try:
            orders = self._forks.orders()
        except OSError:
            return None
        new, self._n_taken = orders[self._n_taken :], max(self._n_taken, len(orders))
        return new

    def _reap(self) -> None:
        """Report the engines that have ended; one SIGCHLD may stand for several."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for process in [p for p in self._engines if p.pid == ended[0]]:
                    status = os.waitstatus_to_exitcode(ended[1])
                    index = self._engines.pop(process)
                    self._tell(engine=index, status=status)
                    if index == HOST_ENGINE:
                        self._stop()


def _become_engine(index: int, name: str, forks: Forks, deadline_s: float) -> None:
    os.setsid()  # Ctrl-C in the notebook's terminal is not for the engines
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEWS)
    with forks.log(name).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:15])  # the name that `top` shows
    from kit.cluster.processes.engine_process import run

    run(index, forks.connection("engine"), deadline_s)


def main() -> None:
    """Fork the engines and attend to them; in an engine, run it."""
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before a library starts a thread: it would inherit an open mask, and take the
    # signals from `sigwait`.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NEWS)
    _adopt_orphans()
    _preload(arguments.preload)
    forks = Forks(arguments.folder)
    wait_for_json(forks.connection("engine"), arguments.deadline)
    fork_server = EngineForkServer(forks)
    gc.collect()
    gc.freeze()  # else the first collection in each engine would copy all pages
    order = fork_server.attend()
    if order is not None:
        _become_engine(*order, forks, arguments.deadline)
    elif HOST_ENGINE in forks.report().processes:
        # The reaper would do it, but the launcher may have killed the reaper.
        shutil.rmtree(forks.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
