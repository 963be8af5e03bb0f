"""A plugin that runs in a dask worker and keeps a host process beside it.

    dask worker --starts--> host.py =becomes=> fork server --forks--> tasks

The host process is the same that a launcher starts on a host. It is bound to its dask
worker: an orderly end of the worker tears the plugin down, which ends the process, and
if the worker is killed, the kernel kills it too. Then its reaper ends the tasks.

The plugin is added only to the chosen workers: a worker that dask starts again, or
later, does not have it. It takes none of the worker's threads, which are for dask's own
tasks.

`Client.run` runs the functions in a worker, and passes that as `dask_worker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import IO, Any

from distributed import WorkerPlugin

from kit.cluster.processes.host import LOCAL_RANKS, LOCAL_SIZES
from kit.cluster.runtime import python_path, tail

_END_S = 3.0  # the host process has its tasks end; then it is killed
_CHECK_S = 0.1
_WORDS_BYTES = 1 << 16  # of what the process has written, for its last lines
_REMEMBER_S = 5.0  # for a notebook that asks how the process ended


@dataclass(frozen=True)
class HostOrder:
    """How to start a host process; the connection has a key in it."""

    name: str
    program: tuple[str, ...]  # arguments of Python
    connection: str = field(repr=False)  # dask logs the arguments of failing calls


class HostPlugin(WorkerPlugin):
    """Keep a host process as long as its dask worker and its cluster exist."""

    def __init__(self, order: HostOrder) -> None:
        self.name, self._order = order.name, order
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None
        self._follower: asyncio.Task[None] | None = None

    async def setup(self, worker: Any) -> None:
        """Start the process; called in the worker's event loop."""
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # till the teardown
        # In the loop's thread, as the kernel signals the end of the thread that has
        # started it: one of a pool may end while the worker goes on.
        self._process = subprocess.Popen(
            [sys.executable, *self._order.program, f"--parent={os.getpid()}"],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._words,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C at the worker's terminal is not for it
        )
        self._follower = asyncio.create_task(self._follow(worker))

    def _environment(self) -> dict[str, str]:
        # If MPI or Slurm started the worker, its ranks are not those of host processes.
        not_ours = {*LOCAL_RANKS, *LOCAL_SIZES, "IPP_PROFILE_DIR"}
        inherited = {k: v for k, v in os.environ.items() if k not in not_ours}
        return inherited | {
            "IPP_CONNECTION_INFO": self._order.connection,
            "PYTHONPATH": python_path(inherited.get("PYTHONPATH", "")),
        }

    async def _follow(self, worker: Any) -> None:
        """Remove the plugin a while after the process has ended by itself."""
        await self._ended()
        await asyncio.sleep(_REMEMBER_S)
        if worker.plugins.get(self.name) is self:
            self._follower = None  # `teardown` must not cancel this very task
            await worker.plugin_remove(self.name)

    async def _ended(self) -> None:
        assert self._process is not None, "it was set up"
        while self._process.poll() is None:
            await asyncio.sleep(_CHECK_S)

    async def teardown(self, worker: Any) -> None:
        """End the process and the tasks that it has forked."""
        if self._follower is not None:
            self._follower.cancel()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended(), _END_S)
            process.kill()
            await self._ended()  # without blocking dask's loop
        if self._words is not None:
            self._words.close()

    def why_ended(self) -> str | None:
        """Return the last words of the process if it has ended, None if not."""
        if self._process is None or self._words is None:
            return "it was not started"
        if self._process.poll() is None:
            return None
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - _WORDS_BYTES))
        words = tail(self._words.read(_WORDS_BYTES).decode("utf-8", "replace"), 12)
        return words or f"it ended with status {self._process.returncode}"


async def begin(order: HostOrder, dask_worker: Any) -> None:
    """Start a host process in this worker."""
    await dask_worker.plugin_add(HostPlugin(order), name=order.name, catch_errors=False)


def why_ended(name: str, dask_worker: Any) -> str | None:
    """Return the last words of the host process if it has ended, None if not."""
    plugin = dask_worker.plugins.get(name)
    return "it was ended there" if plugin is None else plugin.why_ended()


async def end(name: str, dask_worker: Any) -> None:
    """End the host process in this worker, and leave nothing of it."""
    if name in dask_worker.plugins:
        await dask_worker.plugin_remove(name)
