"""A notebook's kernel, asked as a front end asks it; outputs come with their times."""

from __future__ import annotations

import os
import queue
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.notebooks.kernel import sockets_in

ROOT = Path(__file__).parents[2]
CELL_S = 60.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Answer:
    """What a cell has put out, and how it ended."""

    status: str = ""
    printed: str = ""
    errors: str = ""
    shown: list[dict[str, Any]] = field(default_factory=list)
    traceback: str = ""
    arrivals: list[tuple[float, str]] = field(default_factory=list)

    @property
    def result(self) -> str:
        return str(self.shown[-1].get("text/plain", "")) if self.shown else ""

    def take(self, message: dict[str, Any], past_s: float) -> bool:
        """Note one message; whether it was the last."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream":
            self.arrivals.append((past_s, content["text"]))
            if content["name"] == "stdout":
                self.printed += content["text"]
            else:
                self.errors += content["text"]
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self.arrivals.append((past_s, kind))
            self.shown.append(content["data"])
        elif kind == "error":
            self.traceback = _COLOUR.sub("", "\n".join(content["traceback"]))
        return bool(kind == "status" and content["execution_state"] == "idle")


class Kernel:
    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    def begin(self, code: str) -> str:
        return str(self.client.execute(code))

    def end(self, number: str, stop_at: str = "") -> Answer:
        """Wait for a cell, which is interrupted once it has printed `stop_at`."""
        answer, begin = Answer(), time.monotonic()
        while time.monotonic() - begin < CELL_S:
            try:
                message = self.client.get_iopub_msg(timeout=1.0)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != number:
                continue
            if answer.take(message, time.monotonic() - begin):
                break
            if stop_at and stop_at in answer.printed:
                self.interrupt()
                stop_at = ""
        else:
            raise TimeoutError(f"the cell did not end: {answer}")
        while True:
            reply = self.client.get_shell_msg(timeout=CELL_S)
            if reply["parent_header"].get("msg_id") == number:
                answer.status = reply["content"]["status"]
                return answer

    def interrupt(self) -> None:
        """Do what the stop button does; from any thread."""
        os.kill(self.manager.provisioner.pid, signal.SIGINT)  # type: ignore[union-attr]

    def run(self, code: str, stop_at: str = "") -> Answer:
        return self.end(self.begin(code), stop_at)

    def complete(self, code: str) -> list[str]:
        reply = self.client.complete(code, len(code), reply=True, timeout=CELL_S)
        matches: list[str] = reply["content"]["matches"]
        return matches


@contextmanager
def kernel(runtime: Path) -> Iterator[Kernel]:
    """Start a kernel; its clusters have their folders below `runtime`."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "XDG_RUNTIME_DIR": str(runtime)}
    with tempfile.TemporaryDirectory() as folder:
        manager = KernelManager(kernel_name="python3", **sockets_in(folder))
        manager.start_kernel(env=environment)
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=CELL_S)
            yield Kernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
            manager.cleanup_resources()
