"""Start the processes of a comparison and direct them, one system after the other.

Every system that is compared, ours and its peers, is a *rank group*: n processes that
were started alike, have one connection (a *line*) to this process, and sleep in a read
until it is their turn. So all systems are up at the same time, and their rounds
alternate (A B A B): whatever else the machine does hits all of them. In each process
`obey` answers. Nothing here knows what is measured, and nothing is needed but the
standard library, so that a peer's own environment can run it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START_S = 60.0
TURN_S = 300.0
_STOP_S = 10.0
# One thread a process: a worker's numbers must not depend on how many cores are idle.
_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


class RanksFailed(Exception):
    """A system could not be started or did not answer; the text says which and why."""


class RankGroup:
    """The processes of one system."""

    def __init__(self, name: str, n_ranks: int) -> None:
        self.name, self.n_ranks = name, n_ranks
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        self._path = f"{folder}/line"
        self._log = os.open(f"{folder}/log", os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self._stack.callback(os.close, self._log)
        self._listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(self._path)
        self._listener.listen(n_ranks)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lines: dict[int, Line] = {}

    def start(
        self, command: Sequence[str], fds: Sequence[int] = (), **env: str
    ) -> None:
        """Start a process that will connect; mpiexec is one process for all ranks."""
        self._processes.append(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | _ONE_THREAD | {"BENCH_LINE": self._path} | env,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=fds,
            )
        )

    def gather(self) -> None:
        """Wait until every rank is on its line."""
        deadline = time.monotonic() + START_S
        while len(self._lines) < self.n_ranks:
            self._listener.settimeout(0.2)
            try:
                line = Line(self._listener.accept()[0])
            except TimeoutError:
                self._check(deadline)
                continue
            self._stack.callback(line.close)
            self._lines[int(line.read(START_S)["rank"])] = line

    def order(self, **message: Any) -> list[Any]:
        """Send one message to all ranks and return their answers, by rank."""
        for line in self._lines.values():
            line.write(message)
        answers = []
        for rank in range(self.n_ranks):
            try:
                answer = self._lines[rank].read(TURN_S)
            except (OSError, ValueError) as exc:
                raise self._failed(f"rank {rank} did not answer {message}") from exc
            if "error" in answer:
                raise self._failed(f"rank {rank}: {answer['error']}")
            answers.append(answer["result"])
        return answers

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for line in self._lines.values():
            line.close()  # the end of its line ends a rank
        for process in self._processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()

    def _check(self, deadline: float) -> None:
        ended = [p.returncode for p in self._processes if p.poll() is not None]
        if ended:
            raise self._failed(f"a process ended with {ended[0]}")
        if time.monotonic() > deadline:
            raise self._failed(f"not all ranks were up after {START_S:g} s")

    def _failed(self, what: str) -> RanksFailed:
        size = os.fstat(self._log).st_size
        end = os.pread(self._log, 2000, max(0, size - 2000))
        said = end.decode(errors="replace").strip()
        return RanksFailed(f"{self.name}: {what}. It said: {said or 'nothing'}")


class Line:
    """JSON values, one a line of text, over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._file = sock.makefile("rb")

    def read(self, timeout_s: float | None) -> dict[str, Any]:
        """Return the next value; `OSError` or `ValueError` when there is none."""
        self._socket.settimeout(timeout_s)
        value: dict[str, Any] = json.loads(self._file.readline())
        return value

    def write(self, value: dict[str, Any]) -> None:
        """Send a value."""
        self._socket.sendall(json.dumps(value).encode() + b"\n")

    def close(self) -> None:
        """Close both."""
        self._file.close()
        self._socket.close()


def obey(rank: int, handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Be one process of a rank group: answer orders until the line ends.

    `{"do": name, ...}` calls the handler with the rest. The first message on the line
    says which rank this is. An error is sent back as text and ends nothing.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.environ["BENCH_LINE"])
        line = Line(sock)
        line.write({"rank": rank})
        while True:
            try:
                order = line.read(None)
            except (OSError, ValueError):
                return
            try:
                line.write({"result": handlers[order.pop("do")](**order)})
            except Exception:
                line.write({"error": traceback.format_exc()})


@contextmanager
def rank_group(
    name: str, module: str, n_ranks: int, *args: str, python: str = sys.executable
) -> Iterator[RankGroup]:
    """Give `n_ranks` processes of `python -m module rank n_ranks args...`.

    Each two of them share a socket pair; rank r finds its ends in `BENCH_PEERS`, by
    rank, with -1 for itself.
    """
    with RankGroup(name, n_ranks) as started:
        fds = _mesh(n_ranks)
        try:
            for rank, row in enumerate(fds):
                mine = [fd for fd in row if fd >= 0]
                command = [python, "-m", module, str(rank), str(n_ranks), *args]
                started.start(command, mine, BENCH_PEERS=",".join(map(str, row)))
        finally:
            for fd in (fd for row in fds for fd in row if fd >= 0):
                os.close(fd)
        started.gather()
        yield started


def _mesh(n_ranks: int) -> list[list[int]]:
    fds = [[-1] * n_ranks for _ in range(n_ranks)]
    for item in range(n_ranks):
        for other in range(item):
            a, b = socket.socketpair()
            fds[item][other], fds[other][item] = a.detach(), b.detach()
    return fds
