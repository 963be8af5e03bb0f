"""A parameter server in a process of its own, which can be killed and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.zygote import forking

_PROGRAM = """
import sys
from kit import tf1 as tf
spec = {"ps": sys.argv[1].split(","), "worker": sys.argv[2].split(",")}
server = tf.train.Server(spec, "ps", int(sys.argv[3]))
print("serves", flush=True)
server.join()
"""
_ROOT = Path(__file__).parents[3]
_END_S = 20.0


class PsProcess:
    """One parameter server of a cluster; it begins again at the same address."""

    def __init__(self, ps: list[str], workers: list[str], index: int = 0) -> None:
        self._arguments = [",".join(ps), ",".join(workers), str(index)]
        self._process = self._started()

    def kill(self) -> None:
        """End it as a crash of its machine would."""
        self._process.kill()
        assert self._process.wait(_END_S) == -signal.SIGKILL

    def start_again(self) -> None:
        """Let a new process serve at the old address."""
        self._process = self._started()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=_END_S)

    def _started(self) -> subprocess.Popen[str]:
        with forking():
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *self._arguments],
                stdout=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
            )
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n"
        process.stdout.close()
        return process


@contextmanager
def ps_process(ps: list[str], workers: list[str]) -> Iterator[PsProcess]:
    """Give the first parameter server of a cluster, and end it, whatever happened."""
    result = PsProcess(ps, workers)
    try:
        yield result
    finally:
        result.end()
