"""The door to ipyparallel: start its controller, run calls on its engines.

The notebook's side; `engine_process.py` is the engines' side. What the engines' hosts
are is in `hosts.py`, and which engines are lost decides `supervisor.py`.

What is set differently from ipyparallel's defaults, and why (measured with 4 engines):

* a heartbeat comes each 0.2 s, not each 3 s, because an engine is registered only after
  two of them; 150 may be missed, so an engine still has 30 s;
* the schedulers are threads of the controller: 2 processes instead of 9;
* engines are forks of one fork server, started at the same time as the controller;
* CURVE is on, and messages are signed too: CURVE alone keeps strangers from listening,
  but lets in anyone who knows the server's public key;
* the hub keeps no copy of messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import ipyparallel
import zmq
from traitlets.config import Config

from kit.cluster.cells import user_code
from kit.cluster.cells.cell_output import OnMessage
from kit.cluster.cells.remote import Perform, pack
from kit.cluster.loop import in_thread
from kit.cluster.options import ClusterOptions
from kit.cluster.processes import controller
from kit.cluster.processes.forks import CELL, HOST_ENGINE, connection_file
from kit.cluster.processes.processes import Processes
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import engine_environment, tail, tail_of
from kit.errors import FailedPreconditionError

_POLL_S = 0.01
_ANSWER_S = 2.0  # of the hub, to a client; it may be asked several times
_ASK_AGAIN_S = 0.2
_LOG_LINES = 200  # of a controller that starts
_JOIN_S = 0.5
_BEAT_MS = 200
# What the client raises for an engine that the controller no longer knows.
_UNREGISTERED = (IndexError, KeyError, ipyparallel.NoEnginesRegistered)
# In the log of a controller that chose a port and was too late to bind it. Only the
# process or the thread for that port ends then, and engines wait for its heartbeat.
PORT_IN_USE = "Address already in use"


class Engines:
    """An ipyparallel controller here, and a client of it; for the loop's thread.

    `folder` is the cluster's own. How engines are launched is for `hosts.py`, which
    also gives more arguments of ipyparallel's `cluster`.
    """

    cluster: Any = None
    controller: Process  # from the launch on

    def __init__(
        self, options: ClusterOptions, folder: Path, processes: Processes
    ) -> None:
        self.options, self.folder, self.processes = options, folder, processes
        self.environment = engine_environment(folder, options.threads)
        self.names = [task.short for task in options.tasks]
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._client: Any = None
        self._told: dict[int, user_code.UserCode] = {}  # each engine, before a cell
        self._port_watch: asyncio.Task[None] | None = None

    async def launch(self, misses: int, config: Config, **more: Any) -> None:
        """Start the controller, which may miss so many heartbeats of an engine.

        `config` and `more` are ipyparallel's.
        """
        _require_curve()
        # -P: else a file `random.py` in the working folder would make the start fail.
        config.LocalControllerLauncher.controller_cmd = [
            self.options.python,
            "-P",
            controller.__file__,
        ]
        curve = {"IPP_ENABLE_CURVE": "1"}
        config.LocalControllerLauncher.environment = self.environment | curve
        self.cluster = ipyparallel.Cluster(
            config=config,
            profile_dir=str(self.folder / "ipython" / "profile"),
            cluster_id="psring",
            cluster_file="",
            delay=0,
            shutdown_atexit=False,
            load_profile=False,
            log=_logger(self.options.log_level),
            controller_args=controller_args(misses),
            **more,
        )
        self._write_key()
        await self.cluster.start_controller()
        self.controller = self.note(self.cluster.controller, "the controller")
        self._port_watch = asyncio.create_task(self._watch_ports())

    async def _watch_ports(self) -> None:
        log, is_starting = Path(self.cluster.controller.output_file), True
        while is_starting and not self.ended.done():
            await asyncio.sleep(_ASK_AGAIN_S)
            is_starting = len(self.registered) < len(self.names)
            lines = tail_of(log, _LOG_LINES).splitlines()
            taken = [line for line in lines if PORT_IN_USE in line]
            if taken:
                self.fail(f"the controller lacks a port: {taken[0]}")

    def _write_key(self) -> None:
        # In a file of the private folder: other users can read arguments.
        path = self.folder / "ipython" / "profile" / "ipcontroller_config.py"
        path.touch(mode=0o600)
        path.write_text(f"c.Session.key = {secrets.token_hex(32).encode()!r}\n")

    def note(self, launcher: Any, what: str) -> Process:
        """Record what one of ipyparallel's launchers has started here."""

        def ended(data: dict[str, Any]) -> None:
            text, status = launcher.get_output(), data.get("exit_code")
            self.fail(f"{what} ended with status {status}.\n{tail(text)}")

        launcher.on_stop(ended)
        return self.processes.note(launcher.pid)

    def fail(self, reason: str) -> None:
        """Note that a process has ended without which there is no start."""
        if not self.ended.done():
            self.ended.set_result(reason)

    def add(self, name: str) -> int:
        """Add an engine, which is not forked yet; return its number."""
        self.names.append(name)
        return len(self.names) - 1

    async def connection(self, kind: str) -> Any:
        """Wait for the controller; return how its "engine" or "client" connects."""
        file = connection_file(self.folder, kind)
        while True:
            with contextlib.suppress(FileNotFoundError, ValueError):  # not yet whole
                return json.loads(file.read_text())
            await asyncio.sleep(_POLL_S)

    def unregister(self, index: int) -> None:
        """Tell the controller that engine `index` has ended, as its nanny would."""
        client = self._client
        client._send(client._query_stream, "unregistration_request", {"id": index})

    async def unregistered(self, index: int) -> None:
        """Wait until the controller knows that engine `index` has ended."""
        # The nanny reports the end, so it must not be ended before.
        self._told.pop(index, None)
        while index in self.registered:
            await asyncio.sleep(_POLL_S)

    async def connect(self) -> None:
        """Connect the client and wait until every engine is registered."""
        await self.connect_client()
        while not self.registered.issuperset(range(len(self.names))):
            await self.learn()

    async def connect_client(self) -> None:
        """Connect the client; once."""
        info = await self.connection("client")
        while self._client is None:
            with contextlib.suppress(TimeoutError):  # the hub is busy; ask again
                self._client = await in_thread(
                    partial(self._new_client, info),
                    undo=_close,
                    patience_s=_ANSWER_S,
                )

    def _new_client(self, info: Any) -> Any:
        context = zmq.Context()
        # Otherwise messages to a killed controller keep the context from ending, for
        # ever: ipyparallel's loop closes its sockets without `linger=0`.
        context.linger = 0
        try:
            return ipyparallel.Client(
                info,
                profile_dir=str(self.folder / "ipython" / "profile"),
                ipython_dir=str(self.folder / "ipython"),
                context=context,
                timeout=_ANSWER_S,
            )
        except BaseException:
            context.destroy()
            raise

    async def learn(self) -> None:
        """Ask the hub which engines it has, and wait for news.

        The hub publishes each registration once. Those after its answer to the client
        and before the subscription takes effect, some milliseconds later, are lost:
        with 16 engines, in half of all starts.
        """
        client, engines_before = self._client, self.connected
        answer = client._send(client._query_stream, "connection_request")
        while not answer.done() and self.connected == engines_before:
            await asyncio.sleep(_POLL_S)
        if answer.done():
            # In the client's thread, which handles the published ones.
            engines = answer.result()["content"]["engines"]
            client._io_loop.add_callback(client._update_engines, engines)
        pause_until = time.monotonic() + _ASK_AGAIN_S
        while self.connected == engines_before and time.monotonic() < pause_until:
            await asyncio.sleep(_POLL_S)

    def submit(self, index: int, payload: bytes) -> Future[bytes]:
        """Run a packed call (`kit.cluster.cells.remote`) on engine `index`."""
        result: Future[bytes]
        try:
            result = self._client[index].apply_async(Perform(), payload)
        except _UNREGISTERED:
            result = Future()
            result.set_exception(_ended(index))
        return result

    def view(self, indices: Sequence[int]) -> Any:
        """Return an ipyparallel DirectView of these engines."""
        return self._client.direct_view(list(indices))

    @property
    def registered(self) -> frozenset[int]:
        """The engines of tasks that the controller knows now."""
        return frozenset(engine for engine in self.connected if engine < HOST_ENGINE)

    @property
    def connected(self) -> frozenset[int]:
        """The engines that the controller knows now, those of hosts among them."""
        return frozenset() if self._client is None else frozenset(self._client.ids)

    def execute(
        self, index: int, code: str, on_message: OnMessage, about: Mapping[str, Any]
    ) -> Any:
        """Run code on engine `index` as a cell; return ipyparallel's future of it.

        `about` says which cell it is (`kit.groups.scope`). `on_message` gets each
        message of the cell's output, in ipyparallel's thread.
        """
        self._tell_of_modules(index)
        client = self._client
        try:
            view, (identities, _) = client[index], client._build_targets([index])
        except _UNREGISTERED:
            reply: Future[Any] = Future()
            reply.set_result(_ended(index))  # errors of cells come as results
            return reply

        # Before it is sent, or the first output may be missed.
        def attach(future: Any) -> None:
            future.iopub_callbacks.append(on_message)

        return client.send_execute_request(
            view._socket,
            code,
            silent=False,
            ident=identities[0],
            metadata={"label": None, CELL: dict(about)},
            message_future_hook=attach,
        )

    def _tell_of_modules(self, index: int) -> None:
        """Let a cell import what the notebook can, in case no call came before it."""
        code = user_code.of_this_process()
        if self._told.get(index) != code:
            self._told[index] = code
            self.submit(index, pack(user_code.check, [], {}))

    def interrupt(self, indices: Sequence[int]) -> None:
        """Send SIGINT to these engines; returns at once."""
        engines = self.registered.intersection(indices)
        if engines:
            self._client.send_signal(
                signal.SIGINT, targets=sorted(engines), block=False
            )

    async def forget(self) -> None:
        """Let ipyparallel notice that its processes have ended, and close the client.

        Raises whatever ipyparallel and zmq do; no process is left in any case.
        """
        self.ended.cancel()
        if self._port_watch is not None:
            self._port_watch.cancel()
        client, self._client = self._client, None
        try:
            if self.cluster is not None:
                for launcher in (self.cluster.controller, self.cluster.engine_set):
                    if launcher is not None:
                        await launcher.join(timeout=_JOIN_S)
                # Their callbacks run in the loop: after them nothing is to be stopped.
                await asyncio.sleep(0)
                await self.cluster.stop_cluster()
        finally:
            if client is not None:
                _close(client)


def controller_args(misses: int) -> list[str]:
    """Return the controller's arguments; `misses` heartbeats may be missed."""
    return [
        f"--HeartMonitor.period={_BEAT_MS}",
        f"--HeartMonitor.max_heartmonitor_misses={misses}",
        "--IPController.broadcast_scheduler_depth=0",
        "--IPController.db_class=ipyparallel.controller.dictdb.NoDB",
        "--IPController.use_threads=True",
    ]


def _close(client: Any) -> None:
    client.close(linger=0)
    client._context.destroy()


def _ended(index: int) -> Exception:
    """Return the error that ipyparallel answers for an engine that ends in a call."""
    text = f"Engine {index} is not registered any more"
    error: Exception = ipyparallel.RemoteError("EngineError", text, "")
    return error


def _require_curve() -> None:
    if not zmq.has("curve"):
        raise FailedPreconditionError(
            f"this pyzmq ({zmq.__version__}, libzmq {zmq.zmq_version()}) is built "
            f"without CURVE, so the cluster's messages would travel unencrypted. "
            f"Install the wheel from PyPI: pip install --force-reinstall pyzmq"
        )


def _logger(level: int) -> logging.Logger:
    log = logging.getLogger("kit.cluster.ipyparallel")
    log.setLevel(level)
    return log
