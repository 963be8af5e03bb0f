"""Run an ipyparallel engine in this process, which was just forked.

The engine's side of the door to ipyparallel; the notebook's side is `engines.py`. The
engine is ipyparallel's own. Only its nanny (the small process that passes signals on
and reports the engine's end to the hub) is forked here instead of started as a new
program, which saves half a second of imports for each engine.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

from ipyparallel.engine import app as engine_app
from ipyparallel.engine.nanny import KernelNanny
from traitlets.config import Config

from kit.cluster.processes.forks import HOST_ENGINE


class ForkedNanny:
    """A nanny, already forked, that waits until the engine knows its own identity.

    It has to fork before the engine has threads, sockets or a zmq context: none of
    these survives a fork in a usable state.
    """

    def __init__(self) -> None:
        read, self._order = os.pipe()
        self._answer, write = os.pipe()
        if os.fork():
            # Each side keeps its own ends only, so that the death of one is the end of
            # the other's input.
            os.close(read)
            os.close(write)
            return
        os.close(self._order)
        os.close(self._answer)
        _be_nanny(read, write)

    def start(self, **arguments: Any) -> tuple[str, IO[str]]:
        """Replace ipyparallel's `start_nanny`: return the URL and the pipe to keep."""
        arguments["pid"] = os.getpid()
        arguments["config"] = {"Session": dict(arguments["config"].Session)}
        with os.fdopen(self._order, "w", encoding="utf-8") as order:
            order.write(repr(arguments))
        answer = os.fdopen(self._answer, encoding="utf-8")
        url = answer.readline().strip()
        if not url:
            raise RuntimeError(
                "the nanny ended before it was ready; see the lines above"
            )
        return url, answer


def _be_nanny(read: int, write: int) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with os.fdopen(read, encoding="utf-8") as order:
            text = order.read()
        if text:  # else the engine ended before it needed a nanny
            arguments = ast.literal_eval(text)
            arguments["config"] = Config(arguments["config"])
            with os.fdopen(write, "w", buffering=1, encoding="utf-8") as answer:
                KernelNanny.main(pipe=answer, **arguments)
    finally:
        sys.stderr.flush()
        os._exit(0)  # without the engine's own handlers at exit, which run there


def _reseed() -> None:
    """Reseed numpy, or all forks draw the same numbers (`random` reseeds itself)."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def run(index: int, connection: Path, deadline_s: float) -> None:
    """Run engine number `index` of the controller in the file to its end; blocks.

    It ends if the controller has not answered within the deadline.
    """
    # Assigned by name, because ipyparallel has no parameter for it; an ipyparallel
    # without this name starts its nanny the slow way and works the same.
    engine_app.start_nanny = ForkedNanny().start
    _reseed()
    # Each is 0.7 s. A host that is cut off gives up sooner, and its tasks end with it.
    misses = 20 if index == HOST_ENGINE else 50
    engine_app.IPEngine.launch_instance(
        argv=[
            f"--IPEngine.max_heartbeat_misses={misses}",
            f"--IPEngine.id={index}",
            f"--IPEngine.url_file={connection}",
            f"--IPEngine.timeout={deadline_s}",
        ]
    )
