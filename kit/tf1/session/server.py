"""`tf.train.Server`: one task of a cluster, in this process.

`kit.server` does the work. As in the original, a server cannot be stopped; it ends with
its process. Its protocol is called `grpc`, although our links differ, so that programs
need not be changed.
"""

from __future__ import annotations

import atexit
import copy
import threading
from typing import Any

from kit.cluster_def import ClusterDef
from kit.errors import (
    AddressInUse,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnknownError,
)
from kit.server.server import Server as NativeServer
from kit.spec import ClusterSpec
from kit.tf1.graph.message import CheckedMessage
from kit.tf1.session.config import ConfigProto
from kit.wire.listening.address import TcpAddress, parse_address

PROTOCOL = "grpc"
_PORTS = 65_536


class ServerDef(CheckedMessage):
    """Which task of which cluster a server is, and its configuration."""

    cluster: ClusterDef
    job_name: str
    task_index: int
    default_session_config: ConfigProto
    protocol: str
    port: int
    replica: int


class Server:
    """One task of a cluster: it serves sessions, and computes for those of others.

    server = tf.train.Server({"ps": ["h0:2222"], "worker": ["h1:2222"]},
                             job_name="worker", task_index=0)
    with tf.Session(server.target) as session: ...
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: ConfigProto | None = None,
        start: bool = True,
    ) -> None:
        """Bind the task's address, and start serving unless `start` is False.

        Job and index may be left out if there is only one. Raises `TypeError` and
        `ValueError` for arguments that make no sense, `InternalError` for a task that
        is not in the cluster, `InvalidArgumentError` for an address without a port,
        `NotFoundError` for another protocol than grpc, `UnknownError` for a port that
        is in use.
        """
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"config is {config!r}; give a tf.ConfigProto.")
        self.server_def = _resolved(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        self._native = _listening(self.server_def)
        self._is_started = False
        _enter(self)
        if start:
            self.start()

    @staticmethod
    def create_local_server(
        config: ConfigProto | None = None, start: bool = True
    ) -> Server:
        """Return the only server of a cluster of one task, on a free port."""
        return Server({"local": ["localhost:0"]}, config=config, start=start)

    @property
    def target(self) -> str:
        """The address that sessions connect to: `grpc://host:port`."""
        return f"{PROTOCOL}://{TcpAddress(*self._place())}"

    def start(self) -> None:
        """Start serving other processes; a second call changes nothing."""
        self._native.start()
        self._is_started = True

    def join(self) -> None:
        """Wait until the server is stopped; return at once if it was never started."""
        if self._is_started:
            self._native.join()

    def _place(self) -> tuple[str, int]:
        address = self._native.address
        assert isinstance(address, TcpAddress)
        wanted = _own_address(self.server_def)
        return wanted.host, address.port

    def __repr__(self) -> str:
        warning = self._native.settings.warning
        return f"<tf.train.Server {self.target}{f', {warning}' if warning else ''}>"


def _resolved(
    server_or_cluster: Any,
    job_name: str | None,
    task_index: int | None,
    protocol: str | None,
    config: ConfigProto | None,
) -> ServerDef:
    if isinstance(server_or_cluster, ServerDef):
        definition = copy.deepcopy(server_or_cluster)
        chosen = {"job_name": job_name, "task_index": task_index, "protocol": protocol}
        for name, value in chosen.items():
            if value is not None:
                setattr(definition, name, value)
        if not definition.job_name:
            definition.job_name = _job(ClusterSpec(definition.cluster), None)
    else:
        spec = ClusterSpec(server_or_cluster)
        job = _job(spec, job_name)
        definition = ServerDef(
            cluster=ClusterSpec(spec).as_cluster_def(),
            job_name=job,
            task_index=_index(spec, job, task_index),
            protocol=PROTOCOL if protocol is None else protocol,
        )
    if config is not None:
        definition.default_session_config.MergeFrom(config)
    return definition


def _job(spec: ClusterSpec, job_name: str | None) -> str:
    if job_name is not None:
        return job_name
    if len(spec.jobs) != 1:
        names = ", ".join(map(repr, spec.jobs)) or "none"
        raise ValueError(f"the cluster has the jobs {names}; say which: job_name=....")
    return str(spec.as_cluster_def().job[0].name)


def _index(spec: ClusterSpec, job: str, task_index: int | None) -> int:
    if task_index is None:
        indices = spec.task_indices(job)
        if len(indices) != 1:
            raise ValueError(
                f"job {job!r} has the tasks {indices}; say which: task_index=...."
            )
        return indices[0]
    if isinstance(task_index, bool) or not hasattr(task_index, "__index__"):
        raise TypeError(f"task_index is {task_index!r}; give an int.")
    return task_index


def _listening(definition: ServerDef) -> NativeServer:
    """Return a server that is bound to its address and does not serve yet."""
    if definition.protocol != PROTOCOL:
        raise NotFoundError(
            f"No server factory registered for the given ServerDef: the protocol is "
            f"{definition.protocol!r}, and there is {PROTOCOL!r} only."
        )
    cluster = ClusterSpec(definition.cluster).as_dict()
    own = _own_address(definition)
    job, index = definition.job_name, definition.task_index
    tasks = cluster[job]
    tasks[index] = str(own)
    n_cpus = max(1, definition.default_session_config.device_count.get("CPU", 1))
    server = NativeServer(cluster, job, index, n_cpus=n_cpus, start=False)
    try:
        server.bind()
    except AddressInUse as exc:
        raise UnknownError(f"Could not start gRPC server: {exc.message}") from exc
    return server


def _own_address(definition: ServerDef) -> TcpAddress:
    """Return where a task listens; ports count modulo 65536."""
    spec = ClusterSpec(definition.cluster)
    job, index = definition.job_name, definition.task_index
    if job not in spec.jobs or index not in spec.task_indices(job):
        indices = {job_name: spec.task_indices(job_name) for job_name in spec.jobs}
        raise InternalError(
            f"the task /job:{job}/task:{index} is not in the cluster, which has "
            f"{indices}."
        )
    text = spec.task_address(job, index)
    host, _, port = (part.strip() for part in text.rpartition(":"))
    if not (port.isascii() and port.isdigit()):
        raise InvalidArgumentError(
            f"Could not parse port for local server from {text!r}; write 'host:port', "
            f"with port 0 for a free one."
        )
    address = parse_address(f"{host or 'localhost'}:{int(port) % _PORTS}")
    assert isinstance(address, TcpAddress)
    return address


_running: dict[int, Server] = {}
_guard = threading.Lock()
_OURS = frozenset({"localhost", "127.0.0.1", "::1"})


def _enter(server: Server) -> None:
    # Kept for ever, as in the original: programs keep a target and drop its server.
    with _guard:
        _running[server._place()[1]] = server


def server_at(host: str, port: int) -> Server | None:
    """Return the server of this process at an address, None if there is none."""
    # A port is taken once on a host, so it decides; the host only has to be this one.
    with _guard:
        server = _running.get(port)
    if server is None or host not in _OURS | {server._place()[0]}:
        return None
    return server


def stop_all() -> None:
    """Stop all servers of this process: at its end, and between tests."""
    with _guard:
        servers = list(_running.values())
        _running.clear()
    for server in servers:
        server._native.stop()


atexit.register(stop_all)
