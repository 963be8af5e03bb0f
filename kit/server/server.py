"""A task's server: it listens, answers, and hosts the task's part in a training.

It runs in an engine that ipyparallel has started, or by itself: one process for each
task, at the addresses of the spec. It does not need ipyparallel.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

from kit.cluster_def import ClusterDef, as_text
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from kit.features import load
from kit.handles import handle
from kit.server.at_exit import close_at_exit, watch_for_sigterm
from kit.server.directory import Directory, default_runtime_dir
from kit.server.environment import task_from_environment
from kit.server.groups import TaskGroups
from kit.server.handlers import Handlers
from kit.server.identity import shared_credentials
from kit.server.local_sockets import MAX_BODY, connect_near, socket_beside, sweep
from kit.server.spmd import TrainingRendezvous
from kit.server.trainings import Trainings
from kit.session.client import targets
from kit.session.transport.service import Graphs
from kit.settings import Settings, current
from kit.spec import ClusterSpec
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.axes import OneGeneration
from kit.training.core.job import Job, Work
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Hello, Role
from kit.wire.handshake.private import make_private_folder
from kit.wire.link import Link
from kit.wire.listening.acceptor import Acceptor
from kit.wire.listening.address import Address, TcpAddress, UnixAddress, parse_address
from kit.wire.listening.listener import Listener, listen
from kit.wire.rpc import Handler, serve
from kit.wire.stream import MPI

_log = logging.getLogger("kit.server")
_STOP_S = 5.0


@handle
class Server:
    """One task of a cluster: it listens at its address in the spec.

    Use it in scripts that start their own processes. In a notebook, `kit.Cluster`
    makes the servers.

    Parameters
    ----------
    cluster : ClusterSpec, ClusterDef or dict
        The addresses of all tasks, such as `{"ps": ["localhost:2222"]}`.
    job_name : str, optional
        The job of this task. May be left out if there is only one.
    task_index : int, optional
        Its number in the job. May be left out if the job has one task.
    credentials : Credentials, optional
        What tasks authenticate each other with. By default those that all processes of
        this user share; tasks on several hosts must be given the same ones.
    settings : Settings, optional
        By default the current settings.
    n_cpus : int, default 1
        Number of CPU devices that the task shows; all of them stand for the same CPU.
    start : bool, default True
        Whether to listen at once; else call `start`.
    bind : str, optional
        Where to listen instead of at the address in the spec, which the other tasks
        dial: "0.0.0.0:2222", or "0.0.0.0" for the port in the spec. Needed in a
        container, where that address may lead elsewhere or nowhere.

    Raises
    ------
    TypeError, ValueError
        The cluster or the task cannot be used.
    InvalidArgumentError
        An address cannot be read, or is not one of this machine.
    PermissionDeniedError
        Other machines could reach the address, and TLS is off.
    AddressInUse
        The port is taken.

    Examples
    --------
    A parameter server that runs until it is stopped::

        server = kit.Server(
            {"ps": ["localhost:2222"], "worker": ["localhost:2223"]},
            job_name="ps", task_index=0,
        )
        server.join()
    """

    spec: ClusterSpec
    task: Task
    settings: Settings
    trainings: Trainings
    graphs: Graphs
    groups: TaskGroups
    address: Address | None

    def __init__(
        self,
        cluster: ClusterSpec | ClusterDef | dict[str, Any],
        job_name: str | None = None,
        task_index: int | None = None,
        *,
        credentials: Credentials | None = None,
        settings: Settings | None = None,
        n_cpus: int = 1,
        start: bool = True,
        bind: str | None = None,
    ) -> None:
        self.spec = _in_text(ClusterSpec(cluster))
        self.task = _task(self.spec, job_name, task_index)
        self.settings = settings or current()
        self._bind_to = bind
        self._credentials = credentials or shared_credentials()
        self._runtime_dir = default_runtime_dir(self.settings)
        self.trainings = Trainings(self.task, lambda: self.directory, self._stand_in)
        self.groups = TaskGroups(self.task, lambda: self.directory)
        self._rendezvous = TrainingRendezvous(
            self.task, self.trainings, lambda: self.directory
        )
        self.graphs = Graphs(
            self.task, self._dial, lambda: self.tasks, self._dial_as, n_cpus
        )
        self._addresses: dict[Task, str] | None = None
        self._closing = ExitStack()
        self._stopped = threading.Event()
        self._links: set[Link] = set()
        self._guard = threading.Lock()
        self.address: Address | None = None
        self._listeners: list[Listener] = []
        self._is_started = False
        if start:
            self.start()

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        ps: int = 1,
        port: int = 2222,
        **options: Any,
    ) -> Server:
        """Return the server of this process's task, as the environment names it.

        Reads `TF_CONFIG`, which Kubeflow's TFJob and Vertex AI write, and without it
        the variables that Slurm's `srun` sets. With `transport="mpi"` it reads neither:
        the ranks that mpiexec or srun has started tell each other where they are.

        Parameters
        ----------
        environment : mapping of str to str, optional
            The variables; by default those of this process.
        ps : int, default 1
            With Slurm and MPI: how many of the first tasks are parameter servers; all
            others are workers. `TF_CONFIG` says that itself.
        port : int, default 2222
            With Slurm: the port of the first task of each node; the next one there
            takes the next port.
        **options
            `credentials`, `bind` and other parameters of `Server`.

        Returns
        -------
        Server
            It listens already, unless `start=False`.

        Raises
        ------
        NotFoundError
            Neither is set.
        InvalidArgumentError
            A variable cannot be read; the message names it, its value and what was
            expected. Also for an evaluator, which is not a task.

        Examples
        --------
        The program of all tasks, started by `srun -n 5 python program.py`::

            with kit.Server.from_environment(ps=1) as server:
                if server.task.job == "ps":
                    server.join()
                else:
                    kit.train(step, params, data, cluster=server).wait()
        """
        variables = os.environ if environment is None else environment
        if (options.get("settings") or current()).transport == MPI:
            server: Server = load("kit.server.rank:server_of_rank")(cls, ps, **options)
            return server
        return cls(*task_from_environment(variables, ps=ps, port=port), **options)

    def start(self) -> None:
        """Begin to answer. A second call changes nothing."""
        if self._is_started:
            return
        self.bind()
        self._is_started = True
        acceptor = Acceptor(
            self._listeners,
            self._credentials,
            self.task,
            self._take,
            handshake_s=self.settings.handshake_deadline_s,
            max_body=MAX_BODY,
            checksum=self.settings.checksum,
            encryption=self.settings.encryption,
        )
        self._closing.callback(acceptor.close)

    def bind(self) -> None:
        """Listen at the address, without answering other processes yet.

        From now on the target is known, and sessions of this process work. A second
        call changes nothing.
        """
        if self.address is not None:
            return
        if self.settings.transport == MPI:
            load("kit.wire.mpi:world")()  # before anybody can open a data link
        wanted = parse_address(self.spec.task_address(self.task.job, self.task.index))
        self._listeners, self.address = self._listen(wanted)
        for listener in self._listeners:
            # Last in, first out: closed before it is forgotten, so that SIGTERM leaves
            # no socket behind at any moment.
            self._closing.callback(close_at_exit(listener.close))
            self._closing.callback(listener.close)
        targets.enter(self.target, self.graphs.master)

    @property
    def target(self) -> str:
        """What a session connects to: `psring://` and the address."""
        if self.address is None:
            raise FailedPreconditionError(
                f"the server of {self.task} has not been started; call its start() "
                f"first."
            )
        return f"psring://{self.address}"

    @property
    def directory(self) -> Directory:
        """The addresses of all tasks, and what is needed to be let in.

        The addresses are those of the spec, or those that `connect` was given.
        """
        addresses = self._addresses or {
            task: self.spec.task_address(task.job, task.index)
            for task in self.spec.tasks()
        }
        return Directory(addresses, self._credentials, self._runtime_dir, self.settings)

    def connect(self, spec: Mapping[str, list[str]]) -> None:
        """Set the real addresses of all tasks, once they are known."""
        self.spec = ClusterSpec(dict(spec))
        self._addresses = None

    @property
    def tasks(self) -> list[Task]:
        """All tasks of the cluster, in the order of the spec."""
        return self.spec.tasks()

    @property
    def hosts(self) -> list[str]:
        """The host of each task; empty if all are on the same one."""
        return self.directory.hosts(self.tasks)

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training that all workers begin; `kit.train` calls this.

        Blocks until every worker's program has made the same call, on its own server.
        Raises as `TrainingRendezvous.launch` does.
        """
        if not self._is_started:
            raise FailedPreconditionError(
                f"the server of {self.task} has not been started; call its start() "
                f"first."
            )
        if job.is_elastic:
            raise InvalidArgumentError(
                "elastic=True needs a kit.Cluster: the program of a lost worker "
                "cannot go on elsewhere. Leave it out."
            )
        # Nor does one come back: each program is begun by itself.
        return self._rendezvous.launch(replace(job, generation=OneGeneration()), work)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the server is stopped.

        Parameters
        ----------
        timeout_s : float, optional
            Seconds to wait at most.

        Returns
        -------
        bool
            Whether it has stopped.
        """
        watch_for_sigterm()  # the server may have been made in another thread
        return self._stopped.wait(timeout_s)

    def stop(self) -> None:
        """End everything: trainings, links, listeners. May be called twice."""
        if self._stopped.is_set():
            return
        if self.address is not None:
            targets.leave(self.target)
        # Trainings end first: members say goodbye over the links that close below. Then
        # the listeners, so that no link comes in after the sessions have ended.
        self.groups.close()
        self.trainings.close(_STOP_S)
        self._closing.close()
        self.graphs.close(_STOP_S)
        with self._guard:
            links = list(self._links)
        for link in links:
            link.close()
        self._stopped.set()

    @property
    def insecure(self) -> bool:
        """Whether its links are without encryption."""
        return self.settings.insecure

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else f"at {self.address}"
        warned = f", {self.settings.warning}" if self.settings.warning else ""
        return f"<Server {self.task} {state}{warned}>"

    def _stand_in(self, task: Task, run: str) -> Server:
        """Return a server of this process that answers for another task."""
        wanted = self.address
        if isinstance(wanted, UnixAddress):
            # A short name: the path of a unix socket has at most 107 bytes.
            name = f"{crc32(f'{task.short} {run}'.encode()):08x}.sock"
            address = f"unix:{Path(wanted.path).parent / name}"
        else:
            assert isinstance(wanted, TcpAddress), "the other kind of address"
            address = str(TcpAddress(wanted.host, 0))
        server = Server(
            {task.job: {task.index: address}},
            credentials=self._credentials,
            settings=self.settings,
        )
        addresses = dict(self.directory.addresses)
        server.connect_to({**addresses, task: str(server.address)})
        return server

    def connect_to(self, addresses: Mapping[Task, str]) -> None:
        """Set the addresses of all tasks, by task."""
        self._addresses = dict(addresses)

    def _listen(self, wanted: Address) -> tuple[list[Listener], Address]:
        """Return the listeners, and the address at which others reach the first one."""
        settings = {
            "credentials": self._credentials,
            "insecure": self.settings.insecure,
            "dead_after_s": self.settings.dead_after_s,
        }
        try:
            first = listen(_bind_address(self._bind_to, wanted), **settings)  # type: ignore[arg-type]
        except (InvalidArgumentError, UnavailableError) as exc:
            if self._bind_to is not None or not isinstance(wanted, TcpAddress):
                raise
            raise type(exc)(
                f"{exc.message} If others reach this task there and it listens "
                f"elsewhere, as in a container, say where: bind='0.0.0.0'."
            ) from exc
        address = _advertised(wanted, first.address)
        if self.settings.transport == "tcp":
            return [first], address
        try:
            beside = _beside(self._runtime_dir, address, first.address)
            if beside is None:
                return [first], address
            make_private_folder(self._runtime_dir)
            sweep(self._runtime_dir)
            return [first, listen(beside, **settings)], address  # type: ignore[arg-type]
        except BaseException:
            first.close()  # its port would stay taken after a failed start
            raise

    def _dial(self, task: Task, deadline_s: float) -> Link:
        """Dial another task, for a session; it may have moved since the last time."""
        directory = self.directory
        limit_s = min(deadline_s, directory.settings.connect_deadline_s)
        return directory.dial(task, self.task, Role.SESSION, deadline_s=limit_s)

    def _dial_as(self, me: Task, address: str, deadline_s: float) -> Link:
        """Dial an address, for a session that has named the tasks."""
        directory = self.directory
        return connect_near(
            parse_address(address),
            Hello(Role.SESSION, me),
            directory.credentials,
            directory.runtime_dir,
            directory.settings,
            deadline_s=min(deadline_s, directory.settings.connect_deadline_s),
        )

    def _take(self, link: Link) -> None:
        if link.role is Role.GROUP:
            self.groups.take_data_link(link)
            return
        if link.role is Role.DATA:
            self.trainings.take_data_link(link)
            return
        if link.role is Role.SESSION:
            self.graphs.take(link)
            return
        with self._guard:
            self._links.add(link)  # before its thread runs: `stop` closes these
        # Here, not in the thread: a training that ends now waits for this observer.
        self.trainings.link_opened(link)
        name = f"kit-serve-{link.peer.short}"
        threading.Thread(
            target=self._serve, args=(link,), name=name, daemon=True
        ).start()

    def _serve(self, link: Link) -> None:
        was_used, limit = True, self.settings.call_deadline_s
        try:
            handlers = self._handlers(link.peer, link)
            was_used = serve(link, handlers, limit, self._unexpected) > 0
        finally:
            with self._guard:
                self._links.discard(link)
            self.trainings.link_closed(link, was_used)

    def _handlers(self, peer: Task, link: Link | None = None) -> Mapping[str, Handler]:
        groups = self.groups.handlers(peer)
        return {**Handlers(self.trainings, peer, link).table(), **groups}

    def _unexpected(self, op: str, error: BaseException) -> None:
        _log.error("%s: %r failed", self.task, op, exc_info=error)


def _bind_address(bind: str | None, wanted: Address) -> Address:
    """Return where to listen, for others who dial `wanted`."""
    if bind is None:
        return wanted
    if not isinstance(wanted, TcpAddress) or bind.startswith("unix:"):
        raise InvalidArgumentError(
            f"bind={bind!r} does not go with the address {wanted}: only a port can be "
            f"reached at another address than it listens at; write 'host:port' in both."
        )
    is_bracketed = bind.startswith("[") and bind.endswith("]")
    if is_bracketed or ":" not in bind:
        return TcpAddress(bind[1:-1] if is_bracketed else bind, wanted.port)
    return parse_address(bind)


def _advertised(wanted: Address, bound: Address) -> Address:
    """Return what others dial; a port 0 is known only now."""
    if isinstance(wanted, TcpAddress) and isinstance(bound, TcpAddress):
        return TcpAddress(wanted.host, wanted.port or bound.port)
    return bound


def _beside(runtime_dir: Path, address: Address, bound: Address) -> UnixAddress | None:
    """Return the socket for tasks of this host, which find it by the port they dial.

    None if that is not the port of this server.
    """
    ports = [
        address_here.port
        for address_here in (address, bound)
        if isinstance(address_here, TcpAddress)
    ]
    return socket_beside(runtime_dir, address) if len(set(ports)) == 1 else None


def _in_text(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec with names and addresses that may be bytes as str."""
    return ClusterSpec(
        {
            as_text(job, "the name of a job"): {
                index: as_text(spec.task_address(job, index), "an address")
                for index in spec.task_indices(job)
            }
            for job in spec.jobs
        }
    )


def _task(spec: ClusterSpec, job_name: str | None, task_index: int | None) -> Task:
    if job_name is None:
        if len(spec.jobs) != 1:
            names = ", ".join(map(repr, spec.jobs)) or "none"
            raise ValueError(
                f"the cluster has the jobs {names}; say which one this server belongs "
                f"to: job_name=..., of a cluster with one job at least."
            )
        job_name = spec.jobs[0]
    job_name = as_text(job_name, "the name of a job")
    if task_index is None:
        indices = spec.task_indices(job_name)
        if len(indices) != 1:
            raise ValueError(
                f"job {job_name!r} has the tasks {indices}; say which one this server "
                f"is: task_index=...."
            )
        task_index = indices[0]
    if not isinstance(task_index, int) or isinstance(task_index, bool):
        raise TypeError(f"task_index is {task_index!r}; give an int.")
    spec.task_address(job_name, task_index)
    return Task(job_name, task_index)
