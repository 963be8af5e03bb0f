"""One bare process that hosts a task: both ends of the pipe that controls it.

The near end is a `TaskProcess`, the far end is this module in a process that a fork
server has forked; run as a program, this module is that server. Through the pipe go
calls of `kit.server.engine`, packed with cloudpickle, which is safe here: no other
process has the pipe. It knows nothing of clusters.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import numpy as np
import psutil

from kit import forking
from kit.errors import DeadlineExceededError, KitError, PeerLost, from_plain, to_plain
from kit.server import engine

ANSWER_S = 60.0
END_S = 8.0
_LOOK_S, _LONGEST_PAUSE_S = 0.002, 0.2
_PAUSES = 4  # as long as a look has taken
T = TypeVar("T")
_LAST_WORDS = 500  # characters

# What tasks, and step functions from test files, import besides this module. Nothing
# that uses a GPU when it is imported.
_PRELOADED = ("kit", "kit.testing.cluster", "kit.training.train", "pytest")

forks = forking.ForkServer("kit.testing.task_process")


class TaskProcess:
    """One process; it hosts a task once it is told which one."""

    def __init__(self, log: Path) -> None:
        """Start the process; what it prints goes to `log`."""
        self.log = log
        self._pipe, theirs = Pipe()
        try:
            with theirs:
                self._process = forks.fork(theirs, log)
        except BaseException:
            self._pipe.close()
            raise
        self._pipe.send_bytes(
            cloudpickle.dumps((dict(os.environ), str(Path.cwd()), sys.path))
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended; a stopped one counts as alive."""
        return self._process.poll() is None

    @property
    def is_well(self) -> bool:
        """Whether the process is alive, and no signal has stopped it or is ending it.

        One that is being killed may have closed its links and not be dead yet: then its
        end of the pipe, which it opened before any link, is closed as well.
        """
        return (
            self.is_alive
            and self._status() != psutil.STATUS_STOPPED
            and not self._pipe.poll()
        )

    def tell(self, what: str, *values: Any) -> None:
        """Ask for something without waiting; raises `PeerLost` if it has ended."""
        try:
            self._pipe.send_bytes(cloudpickle.dumps((what, values)))
        except OSError as error:
            raise self._gone(what) from error

    def answer(self, what: str, deadline_s: float = ANSWER_S) -> Any:
        """Return the answer to the last request; raise it if it is an error."""
        if not self._pipe.poll(deadline_s):
            raise DeadlineExceededError(
                f"process {self.pid} did not answer {what!r} in {deadline_s:g} s; it "
                f"is stopped or stuck: look into {self.log}."
            )
        try:
            is_good, result = cloudpickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._gone(what) from error
        if not is_good:
            raise from_plain(result)
        return result

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait_for_death(self, deadline_s: float) -> int:
        """Wait for the end; returns the exit status, `-SIGKILL` for a killed one."""
        return self._process.wait(deadline_s)

    def wait_for_stop(self, deadline_s: float) -> None:
        """Wait until a signal has stopped the process."""
        until(lambda: self._status() == psutil.STATUS_STOPPED, deadline_s)

    def words(self) -> str:
        """Return what the process printed."""
        return self.log.read_text("utf-8", "replace")

    def hang_up(self) -> None:
        """Close the pipe: the process stops its server and ends."""
        self._pipe.close()

    def end(self, deadline_s: float = END_S) -> bool:
        """Let the process end, or kill it; return whether it ended by itself."""
        self.hang_up()
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """End the process at once, frozen or not."""
        self.hang_up()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _status(self) -> str:
        try:
            return str(psutil.Process(self.pid).status())
        except psutil.NoSuchProcess:
            return psutil.STATUS_DEAD

    def _gone(self, what: str) -> PeerLost:
        status = self._process.poll()
        return PeerLost(
            f"process {self.pid} has ended ({status}) and cannot {what}; its last "
            f"words: {self.words()[-_LAST_WORDS:]}"
        )


def until(holds: Callable[[], T | None], deadline_s: float = 60.0) -> T:
    """Wait until something holds; return it, or raise `DeadlineExceededError`.

    What takes long to look at is looked at less often: what is waited for needs the
    processor.
    """
    now = time.monotonic()
    end, pause = now + deadline_s, threading.Event()
    while not (value := holds()):
        began, now = now, time.monotonic()
        if now > end:
            raise DeadlineExceededError(f"it did not happen within {deadline_s:g} s.")
        pause.wait(min(max(_LOOK_S, _PAUSES * (now - began)), _LONGEST_PAUSE_S))
        now = time.monotonic()
    return value


def host(pipe: Connection) -> None:
    """Answer calls from the pipe until it closes: the other side of `tell`."""
    table: dict[str, Callable[..., Any]] = {
        "start": engine.start,
        "connect": engine.connect,
        "prepare": engine.prepare,
        "begin": engine.begin,
        "join": engine.join,
        "give_up": engine.give_up,
    }
    while True:
        try:
            what, values = cloudpickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            break
        answer: tuple[bool, Any]
        try:
            answer = True, table[what](*values)
        except Exception as error:
            answer = False, to_plain(error)
        pipe.send_bytes(cloudpickle.dumps(answer))
    with suppress(KitError):
        engine.stop()


def settle(pipe: Connection) -> None:
    """Take over the environment of the process that asked for this one."""
    environment, folder, path = cloudpickle.loads(pipe.recv_bytes())
    os.environ.clear()
    os.environ.update(environment, OMP_NUM_THREADS="1")
    os.chdir(folder)
    sys.path[:] = path
    np.random.seed()  # else all forks would draw the same; `random` reseeds itself


def main() -> None:
    """Be the fork server; in a process that it has forked, host a task."""
    pipe = forking.serve(int(sys.argv[1]), _PRELOADED)
    if pipe is not None:
        settle(pipe)
        host(pipe)
        forking.leave()


if __name__ == "__main__":
    main()
