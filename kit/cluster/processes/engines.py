"""The door to ipyparallel: start its controller and engines, run calls on them.

The notebook's side; `engine_process.py` is the engines' side. It starts, stops and
calls engines, but does not decide which are lost: `supervisor.py` does, by watching
processes.

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
import logging
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import ipyparallel
import zmq
from traitlets.config import Config

from kit import machine
from kit.cluster.cells import user_code
from kit.cluster.cells.cell_output import OnMessage
from kit.cluster.cells.remote import Perform, pack
from kit.cluster.loop import in_thread, to_the_end
from kit.cluster.processes import controller, reaper
from kit.cluster.processes.forks import CELL, HOST_ENGINE, Forks, Report
from kit.cluster.processes.launch import ForkServerLauncher
from kit.cluster.processes.processes import Processes, why
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import tail, tail_of
from kit.errors import FailedPreconditionError, StartFailed

_POLL_S = 0.01
_ANSWER_S = 2.0  # of the hub, to a client; it may be asked several times
_ASK_AGAIN_S = 0.2
_LOG_LINES = 200  # of a controller that starts
_JOIN_S = 0.5
_GRACE_S, _KILL_S = 1.0, 5.0  # of an engine that is restarted
_STATUS_S = 0.9  # less than calls and cells wait for the news of a loss
_BEAT_MS = 200
_MISSES = 150
# What an engine imports by itself in its first second, found by comparing.
PRELOAD = (
    "numpy.random",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "kit.cluster.processes.engine_process",
    "kit.cluster.cells.remote",
    "kit.server.engine",
    # What the first training loads by name.
    "kit.training.core.part",
    "kit.server.elastic.training",
    *(
        f"kit.training.features.{name}"
        for name in (
            "asynchronous.async_steps",
            "backup_workers.rejoining",
            "backup_workers.steps",
            "checkpointing.writer",
            "elastic.copier",
            "elastic.regrouping",
            "hooks.bridge",
        )
    ),
)

# What the client raises for an engine that the controller no longer knows.
_UNREGISTERED = (IndexError, KeyError, ipyparallel.NoEnginesRegistered)
# In the log of a controller that chose a port and was too late to bind it. Only the
# process or the thread for that port ends then, and engines wait for its heartbeat.
PORT_IN_USE = "Address already in use"


class Engines:
    """An ipyparallel controller with its engines, forked here, and a client of it.

    `folder` is the cluster's own; `names` are the engines' task names in order. All
    methods are for the thread of the cluster's loop.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        threads: int,
        environment: dict[str, str],
        python: str,
        deadline_s: float,
        processes: Processes,
        log: logging.Logger,
    ) -> None:
        _require_curve()
        self._folder, self._forks = folder, Forks(folder)
        self._names = list(names)
        #: BLAS threads of each; 0 until the least share of all hosts is known.
        self.threads = threads
        self._deadline_s = deadline_s
        self._processes = processes
        self._client: Any = None
        self._told: dict[int, user_code.UserCode] = {}  # each engine, before a cell
        self.controller: Process | None = None
        self.fork_server: Process | None = None
        self._port_watch: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        config = Config()
        # -P: else a file `random.py` in the working folder would make the start fail.
        config.LocalControllerLauncher.controller_cmd = [
            *(python, "-P", controller.__file__)
        ]
        curve = {"IPP_ENABLE_CURVE": "1"}
        config.LocalControllerLauncher.environment = environment | curve
        more = self._launching(config, environment, python)
        self._cluster: Any = ipyparallel.Cluster(
            config=config,
            profile_dir=str(folder / "ipython" / "profile"),
            cluster_id="psring",
            cluster_file="",
            delay=0,
            shutdown_atexit=False,
            load_profile=False,
            log=log,
            **{"n": len(self._names), "controller_args": controller_args(_MISSES)}
            | more,
        )

    def _launching(
        self, config: Any, environment: dict[str, str], python: str
    ) -> dict[str, Any]:
        """Set in `config` how engines are launched; return more arguments."""
        config.ForkServerLauncher.environment = environment
        config.ForkServerLauncher.engine_cmd = [
            *(python, "-P", "-m", "kit.cluster.processes.fork_server")
        ]
        config.ForkServerLauncher.engine_args = [
            f"--folder={self._folder}",
            f"--deadline={self._deadline_s}",
            f"--preload={','.join(PRELOAD)}",
        ]
        return {"engines": ForkServerLauncher, "send_engines_connection_env": False}

    async def launch(self) -> None:
        """Start the controller, and the fork server with its orders."""
        await self._launch_controller()
        for index, name in enumerate(self._names):
            self._forks.order(index, name)
        await self._cluster.start_engines()
        self.fork_server = self._started(self._cluster.engine_set, "all engines")
        self._processes.add(self.fork_server)

    async def _launch_controller(self) -> None:
        self._write_key()
        await self._cluster.start_controller()
        self.controller = self._started(self._cluster.controller, "the controller")
        self._processes.add(self.controller)
        self._port_watch = asyncio.create_task(self._watch_ports())

    async def _watch_ports(self) -> None:
        log, is_starting = Path(self._cluster.controller.output_file), True
        while is_starting and not self.ended.done():
            await asyncio.sleep(_ASK_AGAIN_S)
            is_starting = len(self.registered) < len(self._names)
            lines = tail_of(log, _LOG_LINES).splitlines()
            taken = [line for line in lines if PORT_IN_USE in line]
            if taken and not self.ended.done():
                self.ended.set_result(f"the controller lacks a port: {taken[0]}")

    def _write_key(self) -> None:
        # In a file of the private folder: other users can read arguments.
        path = self._folder / "ipython" / "profile" / "ipcontroller_config.py"
        path.touch(mode=0o600)
        path.write_text(f"c.Session.key = {secrets.token_hex(32).encode()!r}\n")

    def _started(self, launcher: Any, what: str) -> Process:
        def ended(data: dict[str, Any]) -> None:
            if not self.ended.done():
                text = launcher.get_output()
                status = data.get("exit_code")
                self.ended.set_result(
                    f"{what} ended with status {status}.\n{tail(text)}"
                )

        launcher.on_stop(ended)
        # With a start time of 0, which matches no process, if it has ended already.
        return reaper.find(launcher.pid) or Process(launcher.pid, 0)

    @property
    def controller_pid(self) -> int:
        """The controller's process id."""
        return int(self._cluster.controller.pid)

    def report(self) -> Report:
        """Return the processes, exit statuses and refusals of the engines."""
        return self._forks.report()

    def add(self, name: str) -> int:
        """Add an engine, which is not forked yet; return its number."""
        self._names.append(name)
        return len(self._names) - 1

    async def fork_again(self, index: int) -> None:
        """Order another process for engine `index` in place of a dead one."""
        self._told.pop(index, None)
        self._forks.order(index, self._names[index], self.fork_server)

    async def processes(self) -> dict[int, Process]:
        """Wait until all engines are forked; return their processes."""
        while len((report := self.report()).processes) < len(self._names):
            self._check_forked(report)
            await asyncio.sleep(_POLL_S)
        self._processes.add(*report.processes.values())  # one record of all
        return report.processes

    def _check_forked(self, report: Report) -> None:
        """Raise `StartFailed` if an engine of a cluster that starts was not forked."""
        for index, refusal in report.refusals.items():
            raise StartFailed(f"{self._names[index]} did not start: {refusal.why}")

    async def end(self, index: int, process: Process | None) -> None:
        """End engine `index` and its children; wait until its controller knows."""
        family = reaper.descendants([process]) if process is not None else set()
        try:
            if process is not None:
                await _end_process(process)
            await self._unregistered(index)
        finally:
            # Also when it is cancelled: later, orphans of the engine are not found.
            if family:
                await to_the_end(_end_all(family))

    def unregister(self, index: int) -> None:
        """Tell the controller that engine `index` has ended, as its nanny would."""
        client = self._client
        client._send(client._query_stream, "unregistration_request", {"id": index})

    async def _unregistered(self, index: int) -> None:
        # The nanny reports the end, so it must not be ended before.
        while index in self.registered:
            await asyncio.sleep(_POLL_S)

    def on_end(
        self, index: int, process: Process, callback: Callable[[], object]
    ) -> None:
        """Call back in the loop as soon as the process of engine `index` ends."""
        self._processes.add(process)
        self._processes.on_end(process, callback)

    async def why_ended(self, index: int) -> str:
        """Say how the process of engine `index` ended, in words."""
        # The fork server writes the status a moment after the end is noticed here.
        for _ in range(50):
            status = self.report().statuses.get(index)
            if status is not None:
                return why(status)
            if self.fork_server is not None and not self.fork_server.is_running:
                break  # it will never be written
            await asyncio.sleep(_STATUS_S / 50)
        return why(None)

    def where(self, index: int) -> tuple[Path, str]:
        """Return the cluster's folder on the host of engine `index`, and its address.

        The address is one of the host; empty if all engines are on one host.
        """
        return self._folder, ""

    async def check_reach(self, addresses: Sequence[str]) -> None:
        """Raise `UnavailableError` if one host cannot connect to another."""

    def why_no_fork(self, index: int) -> str:
        """Return why engine `index` cannot get a new process; empty if it can."""
        return ""

    async def why_waiting(self) -> str:
        """Return what is known about why the start takes so long."""
        return ""

    async def leave(self) -> None:
        """End the processes on other hosts."""

    @property
    def killed_at_once(self) -> Process | None:
        """The controller: an orderly end takes 0.3 s, and nothing needs it."""
        return self.controller

    def used_mib(self, process: Process) -> float | None:
        """Return the memory of an engine's process; some 2 ms."""
        return machine.used_mib(process.pid)

    async def connect(self, deadline_s: float) -> None:
        """Connect the client and wait until every engine is registered."""
        await self._connect_client(deadline_s)
        while not self.registered.issuperset(range(len(self._names))):
            await self._learn_engines()

    async def _connect_client(self, deadline_s: float) -> None:
        info = await self._cluster.controller.get_connection_info(deadline_s)
        while self._client is None:
            with contextlib.suppress(TimeoutError):  # the hub is busy; ask again
                self._client = await in_thread(
                    partial(self._new_client, info["client"]),
                    name="kit-cluster-connect",
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
                profile_dir=str(self._forks.connection("client").parent.parent),
                ipython_dir=str(self._folder / "ipython"),
                context=context,
                timeout=_ANSWER_S,
            )
        except BaseException:
            context.destroy()
            raise

    async def _learn_engines(self) -> None:
        """Ask the hub which engines it has, and wait for news.

        The hub publishes each registration once. Those after its answer to the client
        and before the subscription takes effect, some milliseconds later, are lost:
        with 16 engines, in half of all starts.
        """
        client, known = self._client, self._known_engines
        answer = client._send(client._query_stream, "connection_request")
        while not answer.done() and self._known_engines == known:
            await asyncio.sleep(_POLL_S)
        if answer.done():
            # In the client's thread, which handles the published ones.
            engines = answer.result()["content"]["engines"]
            client._io_loop.add_callback(client._update_engines, engines)
        pause_until = time.monotonic() + _ASK_AGAIN_S
        while self._known_engines == known and time.monotonic() < pause_until:
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
        return frozenset(one for one in self._known_engines if one < HOST_ENGINE)

    @property
    def _known_engines(self) -> frozenset[int]:
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
        known = self.registered.intersection(indices)
        if known:
            self._client.send_signal(signal.SIGINT, targets=sorted(known), block=False)

    def log_tail(self, index: int, n_lines: int = 12) -> str:
        """Return the last lines that engine `index` wrote."""
        return tail_of(self.log_path(index), n_lines)

    def log_path(self, index: int) -> Path:
        """Return where the log of engine `index` is, on its host."""
        return self._forks.log(self._names[index])

    async def forget(self) -> None:
        """Let ipyparallel notice that its processes have ended, and close the client.

        Raises whatever ipyparallel and zmq do; no process is left in any case.
        """
        self.ended.cancel()
        if self._port_watch is not None:
            self._port_watch.cancel()
        client, self._client = self._client, None
        try:
            for launcher in (self._cluster.controller, self._cluster.engine_set):
                if launcher is not None:
                    await launcher.join(timeout=_JOIN_S)
            # Their callbacks run in the loop: after them there is nothing to stop.
            await asyncio.sleep(0)
            await self._cluster.stop_cluster()
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


async def _end_process(process: Process) -> None:
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _KILL_S)):
        reaper.send(process, number)
        for _ in range(int(patience_s / _POLL_S)):
            if not process.is_running:
                return
            await asyncio.sleep(_POLL_S)


async def _end_all(family: Iterable[Process]) -> None:
    """End processes with all their descendants, without blocking the loop."""
    end = partial(reaper.end, family, _GRACE_S)
    name, patience_s = "kit-cluster-end", _GRACE_S + _KILL_S
    await in_thread(end, name=name, undo=set, patience_s=patience_s)


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
