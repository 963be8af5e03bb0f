"""The door to ipyparallel: start its controller and engines, run calls on them.

The notebook's side; `engine_process.py` is the engines' side. Nothing else imports
ipyparallel. It starts and stops and talks; it does not judge: who lives and who is lost
is decided in `cluster.py` by watching processes.

What is set differently from ipyparallel's defaults, and why (measured with 4 engines):

* the heart beats each 0.2 s, not each 3 s, because an engine is registered only after
  two beats; 150 beats may be missed, so the patience stays at 30 s;
* the schedulers are threads of the controller: 2 processes instead of 9;
* engines are forks of one nursery, started at the same time as the controller;
* CURVE is on, and messages are signed besides: CURVE alone keeps strangers from
  listening but lets in whoever knows the server's public key;
* the hub keeps no copy of messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import ipyparallel
import zmq
from ipyparallel.cluster.launcher import LocalEngineLauncher
from traitlets.config import Config

from kit.cluster.remote import Perform
from kit.errors import FailedPreconditionError, StartFailed

_POLL_S = 0.01
_GIVE_UP_S = 10.0
_BEAT_MS = 200
_MISSES = 150
# What an engine would import by itself in its first second, seen by comparing.
_PRELOAD = (
    "numpy.random",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "kit.cluster.engine_process",
    "kit.cluster.remote",
    "kit.server.engine",
)
_CONTROLLER_ARGS = [
    f"--HeartMonitor.period={_BEAT_MS}",
    f"--HeartMonitor.max_heartmonitor_misses={_MISSES}",
    "--IPController.broadcast_scheduler_depth=0",
    "--IPController.db_class=ipyparallel.controller.dictdb.NoDB",
    "--IPController.use_threads=True",
]


class NurseryLauncher(LocalEngineLauncher):  # type: ignore[misc]  # untyped base
    """Launch one nursery, which forks all engines of the set."""

    def start(self, n: int) -> None:
        """Start the nursery; the number of engines is in its arguments already."""
        self.n = n
        super().start()


class Engines:
    """An ipyparallel controller with its engines and a client of it.

    `folder` is the cluster's own; `names` are the engines' task names in order. All
    methods are for the thread of the cluster's loop.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        environment: dict[str, str],
        python: str,
        deadline_s: float,
        log: logging.Logger,
    ) -> None:
        _require_curve()
        self._folder = folder
        self._names = list(names)
        self._context = zmq.Context()
        self._client: Any = None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._cluster: Any = ipyparallel.Cluster(
            config=self._config(environment, python, deadline_s),
            engines=NurseryLauncher,
            n=len(self._names),
            profile_dir=str(folder / "ipython" / "profile"),
            cluster_id="psring",
            cluster_file="",
            controller_args=_CONTROLLER_ARGS,
            delay=0,
            send_engines_connection_env=False,
            shutdown_atexit=False,
            load_profile=False,
            log=log,
        )

    def _config(
        self, environment: dict[str, str], python: str, deadline_s: float
    ) -> Any:
        config = Config()
        # -P: a file `random.py` in the working folder is no reason for a failing start.
        config.LocalControllerLauncher.controller_cmd = [
            *(python, "-P", "-m", "ipyparallel.controller")
        ]
        curve = {"IPP_ENABLE_CURVE": "1"}
        config.LocalControllerLauncher.environment = environment | curve
        config.NurseryLauncher.environment = environment
        config.NurseryLauncher.engine_cmd = [python, "-P", "-m", "kit.cluster.nursery"]
        config.NurseryLauncher.engine_args = [
            f"--names={','.join(self._names)}",
            f"--connection={self._connection('engine')}",
            f"--report={self._report}",
            f"--logs={self._folder / 'logs'}",
            f"--deadline={deadline_s}",
            f"--preload={','.join(_PRELOAD)}",
        ]
        return config

    def _connection(self, kind: str) -> Path:
        security = self._folder / "ipython" / "profile" / "security"
        return security / f"ipcontroller-psring-{kind}.json"

    @property
    def _report(self) -> Path:
        return self._folder / "engines.jsonl"

    async def launch(self, record: Callable[[int], object]) -> None:
        """Start the controller and the nursery; `record` gets each pid at once."""
        self._write_key()
        await self._cluster.start_controller()
        self._follow(self._cluster.controller, "the controller")
        record(self._cluster.controller.pid)
        await self._cluster.start_engines()
        self._follow(self._cluster.engine_set, "all engines")
        record(self._cluster.engine_set.pid)

    def _write_key(self) -> None:
        # In a file of the private folder: arguments and environments are less private.
        path = self._folder / "ipython" / "profile" / "ipcontroller_config.py"
        path.touch(mode=0o600)
        path.write_text(f"c.Session.key = {secrets.token_hex(32).encode()!r}\n")

    def _follow(self, launcher: Any, what: str) -> None:
        def ended(data: dict[str, Any]) -> None:
            if not self.ended.done():
                text = launcher.get_output()
                status = data.get("exit_code")
                self.ended.set_result(
                    f"{what} ended with status {status}.\n{tail(text)}"
                )

        launcher.on_stop(ended)

    @property
    def controller_pid(self) -> int:
        """The controller's process id."""
        return int(self._cluster.controller.pid)

    def report(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return what the nursery told: pids and exit statuses by engine number."""
        pids: dict[int, int] = {}
        statuses: dict[int, int] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in self._report.read_text().splitlines():
                entry = json.loads(line)
                kind = pids if "pid" in entry else statuses
                kind[entry["engine"]] = entry.get("pid", entry.get("status"))
        return pids, statuses

    async def pids(self) -> dict[int, int]:
        """Wait until the nursery has forked all engines; return their pids."""
        while len(pids := self.report()[0]) < len(self._names):
            await asyncio.sleep(_POLL_S)
        return pids

    async def connect(self, deadline_s: float) -> None:
        """Connect the client and wait until every engine is registered."""
        path = self._connection("client")
        info = await self._cluster.controller.get_connection_info(deadline_s)
        self._client = await _in_thread(
            lambda: ipyparallel.Client(
                info["client"],
                profile_dir=str(path.parent.parent),
                ipython_dir=str(self._folder / "ipython"),
                context=self._context,
                timeout=min(deadline_s, _GIVE_UP_S),
            )
        )
        while len(self._client.ids) < len(self._names):
            await asyncio.sleep(_POLL_S)

    def submit(self, index: int, payload: bytes) -> Future[bytes]:
        """Run a packed call (`kit.cluster.remote`) on engine `index`."""
        result: Future[bytes] = self._client[index].apply_async(Perform(), payload)
        return result

    def view(self, indices: Sequence[int]) -> Any:
        """Return an ipyparallel DirectView of these engines."""
        return self._client.direct_view(list(indices))

    def log_tail(self, index: int) -> str:
        """Return the last lines that engine `index` wrote."""
        path = self._folder / "logs" / f"{self._names[index].replace(':', '-')}.log"
        with contextlib.suppress(OSError):
            return tail(path.read_text(encoding="utf-8", errors="replace"))
        return ""

    def disconnect(self) -> None:
        """Close the client and its sockets, also when it never connected."""
        if self._client is not None:
            self._client.close(linger=0)
            self._client = None
        self._context.destroy(linger=0)

    async def forget(self) -> None:
        """Let ipyparallel notice that its processes have ended."""
        self.ended.cancel()
        for launcher in (self._cluster.controller, self._cluster.engine_set):
            if launcher is not None:
                with contextlib.suppress(Exception):
                    await launcher.join(timeout=1.0)
        # Their callbacks come through the loop; afterwards there is nothing to stop.
        await asyncio.sleep(0)
        with contextlib.suppress(Exception):
            await self._cluster.stop_cluster()


async def _in_thread(make: Callable[[], Any]) -> Any:
    """Run what blocks in a thread of its own; cancelled, it still waits for its end.

    Not the loop's executor: that one starts a thread when the loop closes, which is
    impossible at the interpreter's exit.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=work, name="kit-cluster-connect", daemon=True)
    thread.start()
    waiter = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        await asyncio.wait([waiter], timeout=_GIVE_UP_S)
        if waiter.done() and waiter.exception() is None:
            waiter.result().close(linger=0)
        raise


def _require_curve() -> None:
    if not zmq.has("curve"):
        raise FailedPreconditionError(
            f"this pyzmq ({zmq.__version__}, libzmq {zmq.zmq_version()}) is built "
            f"without CURVE, so the cluster's messages would travel unencrypted. "
            f"Install the wheel from PyPI: pip install --force-reinstall pyzmq"
        )


def tail(text: str, n_lines: int = 12) -> str:
    r"""Return the last lines that say something.

    >>> tail("a\n\nb\nc\n", n_lines=2)
    'b\nc'
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-n_lines:])


def default_python() -> str:
    """Return the interpreter that engines run in: this one."""
    if not sys.executable or not os.access(sys.executable, os.X_OK):
        raise StartFailed(
            f"this Python does not know where its interpreter is ({sys.executable!r}), "
            f"so no engine can be started with it; start it from a file or give "
            f"Cluster(python=...)."
        )
    return sys.executable
