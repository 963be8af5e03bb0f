"""Run an ipyparallel engine in this process, which was just forked.

The engine's side of the door to ipyparallel; the notebook's side is `engines.py`. The
engine is ipyparallel's own. Only its nanny (the small process that passes signals on
and reports the engine's end to the hub) is forked here instead of started as a new
program, which saves half a second of imports for each engine.
"""

from __future__ import annotations

import ast
import asyncio
import fcntl
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ipykernel.iostream import OutStream
from ipykernel.zmqshell import ZMQInteractiveShell
from ipyparallel.engine import app as engine_app
from ipyparallel.engine.nanny import KernelNanny
from IPython import get_ipython
from IPython.core.error import UsageError
from traitlets.config import Config

from kit.cluster.cells.output_limit import OutputLimit
from kit.cluster.processes.forks import CELL, HOST_ENGINE
from kit.errors import shortened
from kit.groups import scope
from kit.server import task_log

_PIPE_LOOKS, _PIPE_LOOK_S = 200, 0.005  # until what a cell wrote has come to its stream


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


class LimitedStream(OutStream):
    """The engine's stdout or stderr, of which a bounded part goes to the notebook."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Reentrant: a handler of a signal may print in the midst of a print.
        self._limit, self._guard = OutputLimit(), threading.RLock()
        self._is_finished_by_shell = False
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]

    def write(self, string: str) -> int:
        """Send what the limit lets through; return the length of all."""
        if not isinstance(string, str):
            return int(super().write(string))  # raises
        with self._guard:
            sent = self._limit.take(self._request, string)
        if len(sent) != len(string):
            self._have_it_finished()
        if sent:
            super().write(sent)
        return len(string)

    @property
    def _request(self) -> str:
        return str(self.parent_header.get("msg_id", ""))

    def _have_it_finished(self) -> None:
        shell = get_ipython()
        if shell is not None and not self._is_finished_by_shell:
            self._is_finished_by_shell = True
            shell.events.register("post_run_cell", self._finish)

    def _finish(self, *_: object) -> None:
        # What was written to the descriptor comes through a pipe, by another thread.
        pipe: int | None = getattr(self, "_fid", None)
        left, looks = bytearray(4), _PIPE_LOOKS
        while pipe is not None and looks:
            fcntl.ioctl(pipe, termios.FIONREAD, left)
            looks = looks - 1 if any(left) else 0
            time.sleep(_PIPE_LOOK_S)
        with self._guard:
            rest = self._limit.finish(self._request)
        if rest:
            super().write(rest)


class CellLoop:
    """Runs what a cell awaits at its top level, in an event loop that cells share.

    That of the engine cannot wait for a cell: ipyparallel would lose its reply. Tasks
    that a cell has begun go on while another one awaits.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, awaited: Coroutine[Any, Any, Any]) -> Any:
        """Return what a coroutine returns; Ctrl-C cancels it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        # The engine's loop is running in this thread, and waits as for any other cell.
        engine_loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        task = self._loop.create_task(awaited)
        try:
            return self._loop.run_until_complete(task)
        finally:
            if not task.done():  # an interrupt: else its `finally` would never run
                task.cancel()
                with suppress(asyncio.CancelledError):
                    self._loop.run_until_complete(task)
            asyncio._set_running_loop(engine_loop)


class LimitedShell(ZMQInteractiveShell):
    """The engine's shell, which keeps both ends of a very long traceback."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.loop_runner = CellLoop()

    def ask_exit(self) -> None:
        """Refuse `exit()` in a cell: it would end the task without a word."""
        raise UsageError(
            "exit() would end this task, with all its variables. If that is wanted, "
            "write %cluster restart, and its name, in a cell of the notebook."
        )

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        lines = [shortened(line) for line in stb]
        text = shortened(str(evalue))
        super()._showtraceback(etype, text, lines)  # type: ignore[no-untyped-call]


class LimitedKernel(engine_app.Kernel):  # type: ignore[misc]  # untyped base
    """The engine's kernel, which sends both ends of a very long message of an error."""

    shell_class = LimitedShell

    async def do_execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run a cell, and note which one it is: its tasks may make a group."""
        about = self.get_parent().get("metadata", {}).get(CELL)
        cell = scope.enter(about)
        reply: dict[str, Any] = await super().do_execute(*args, **kwargs)
        result = self.shell.last_execution_result
        scope.leave(cell, result.error_in_exec or result.error_before_exec)
        if "evalue" in reply:
            reply["evalue"] = shortened(str(reply["evalue"]))
        return reply


def _reseed() -> None:
    """Reseed numpy, or all forks draw the same numbers (`random` reseeds itself)."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def run(index: int, connection: Path, deadline_s: float) -> None:
    """Run engine number `index` of the controller in the file to its end; blocks.

    It ends if the controller has not answered within the deadline.
    """
    # Assigned by name, because ipyparallel has no parameters for these; an ipyparallel
    # without these names starts its nanny the slow way, and sends errors of any length.
    engine_app.start_nanny = ForkedNanny().start
    engine_app.Kernel = LimitedKernel
    _reseed()
    task_log.keep()
    # Each is 0.7 s. A host that is cut off gives up sooner, and its tasks end with it.
    misses = 20 if index == HOST_ENGINE else 50
    engine_app.IPEngine.launch_instance(
        argv=[
            f"--IPEngine.max_heartbeat_misses={misses}",
            f"--IPEngine.id={index}",
            f"--IPEngine.url_file={connection}",
            f"--IPEngine.timeout={deadline_s}",
            f"--IPEngine.out_stream_factory={__name__}.{LimitedStream.__name__}",
        ]
    )
