"""Import once, fork the engines: the parent process of a local cluster's engines.

    notebook --starts--> nursery --forks--> engine 0, engine 1, ... --fork--> nanny

Importing what an engine needs costs half a second of CPU and 50 MiB. With four engines
and four nannies on two cores that was most of the start. Here it happens once, while
the controller starts, and the forks share the pages. Nothing that a fork would break is
touched before it: no thread, no event loop, no zmq context, no GPU.

It tells what happens to the engines by JSON lines in a file: `{"engine": 0, "pid": 17}`
after the fork, `{"engine": 0, "status": -9}` after the end (negative: the signal).
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
import time
import warnings
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_POLL_S = 0.01


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="psring nursery", description=__doc__)
    parser.add_argument("--names", required=True, help="task names, comma separated")
    parser.add_argument("--connection", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
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


class Nursery:
    """The engines as child processes, by pid, and the report about them."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._engines: dict[int, int] = {}

    def tell(self, **line: int) -> None:
        """Append one line; a write this short is not torn."""
        with self._report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def fork(self, index: int) -> bool:
        """Start engine `index`; True in the engine, False in the nursery."""
        with warnings.catch_warnings():
            # The only other threads are those of the BLAS, which expects forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            return True
        self._engines[pid] = index
        self.tell(engine=index, pid=pid)
        return False

    def stop(self, number: int, _frame: object) -> None:
        """Pass the signal on to the engines; their end is ours."""
        for pid in self._engines:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def reap(self) -> None:
        """Report each engine's end; return when there is none left."""
        while self._engines:
            pid, status = os.waitpid(-1, 0)
            index = self._engines.pop(pid, None)
            if index is not None:
                self.tell(engine=index, status=os.waitstatus_to_exitcode(status))


def _become_engine(name: str, index: int, log: Path, connection: Path) -> None:
    os.setsid()  # Ctrl-C in the notebook's terminal is not for the engines
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:15])  # the name that `top` shows
    from kit.cluster.engine_process import run

    run(index, connection)


def main() -> None:
    """Fork the engines and wait for their end; in an engine, run it."""
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _adopt_orphans()
    _preload(arguments.preload)
    wait_for_json(arguments.connection, arguments.deadline)
    nursery = Nursery(arguments.report)
    signal.signal(signal.SIGTERM, nursery.stop)
    gc.collect()
    gc.freeze()  # else the first collection in each engine would copy all pages
    for index, name in enumerate(arguments.names.split(",")):
        if nursery.fork(index):
            log = arguments.logs / f"{name.replace(':', '-')}.log"
            _become_engine(name, index, log, arguments.connection)
            return
    nursery.reap()


if __name__ == "__main__":
    main()
