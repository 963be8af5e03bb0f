"""A task's server: it listens, answers, and hosts the task's part in a training.

It runs in an engine that ipyparallel started, or by itself, one process a task at the
addresses of the spec. Nothing of it needs ipyparallel.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from kit.cluster_def import ClusterDef, as_text
from kit.errors import FailedPreconditionError
from kit.server.at_exit import close_at_exit, watch_for_sigterm
from kit.server.directory import Directory, default_runtime_dir
from kit.server.graphs import Graphs
from kit.server.handlers import Handlers
from kit.server.identity import shared_credentials
from kit.server.local_sockets import MAX_BODY, socket_beside, sweep
from kit.server.spmd import TrainingRendezvous
from kit.server.trainings import Trainings
from kit.session.client import targets
from kit.settings import Settings, current
from kit.spec import ClusterSpec
from kit.task import Task
from kit.training.client.run import Run
from kit.training.job import Job, Work
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.handshake.private import make_private_folder
from kit.wire.link import Link
from kit.wire.listening.acceptor import Acceptor
from kit.wire.listening.address import Address, parse_address
from kit.wire.listening.listener import Listener, listen
from kit.wire.rpc import Handler, serve

_log = logging.getLogger("kit.server")
_STOP_S = 5.0


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
        What tasks prove themselves with. The processes of one user share theirs by
        default; across hosts give the same ones to all.
    settings : Settings, optional
        By default the current settings.
    n_cpus : int, default 1
        CPU devices that the task shows; they are names for one and the same.
    start : bool, default True
        Whether to listen at once.

    Raises
    ------
    TypeError, ValueError
        The cluster or the task cannot be used.
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
    ) -> None:
        """Listen and serve, unless `start` is False.

        The task shows `n_cpus` CPU devices; they are names for one and the same.

        The job may be left out when there is one, the index when the job has one task.
        Raises `TypeError` or `ValueError` for a cluster or a task that cannot be meant,
        `AddressInUse` for a port that is taken.
        """
        self.spec = _in_text(ClusterSpec(cluster))
        self.task = _task(self.spec, job_name, task_index)
        self.settings = settings or current()
        self._credentials = credentials or shared_credentials()
        self._runtime_dir = default_runtime_dir(self.settings)
        self.trainings = Trainings(self.task, lambda: self.directory)
        self._rendezvous = TrainingRendezvous(
            self.task, self.trainings, lambda: self.directory
        )
        self.graphs = Graphs(
            self.task, lambda: self.directory, lambda: self.tasks, n_cpus
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
        )
        self._closing.callback(acceptor.close)

    def bind(self) -> None:
        """Take the address, without answering to other processes yet.

        The target is known from now on, and sessions of this process work. A second
        call changes nothing.
        """
        if self.address is not None:
            return
        wanted = parse_address(self.spec.task_address(self.task.job, self.task.index))
        self._listeners = self._listen(wanted)
        self.address = self._listeners[0].address
        for listener in self._listeners:
            self._closing.callback(close_at_exit(listener.close))
            self._closing.callback(listener.close)
        targets.enter(self.target, self.graphs.master)

    @property
    def target(self) -> str:
        """What a session connects to: `psring://` and the address."""
        if self.address is None:
            raise FailedPreconditionError("the server was not started: call start().")
        return f"psring://{self.address}"

    @property
    def directory(self) -> Directory:
        """Where all tasks are: as in the spec, or as told by `connect`."""
        known = self._addresses or {
            task: self.spec.task_address(task.job, task.index)
            for task in self.spec.tasks()
        }
        return Directory(known, self._credentials, self._runtime_dir, self.settings)

    def connect(self, spec: Mapping[str, list[str]]) -> None:
        """Take the real addresses of all tasks, once they are known."""
        self.spec = ClusterSpec(dict(spec))
        self._addresses = None

    @property
    def tasks(self) -> list[Task]:
        """All tasks of the cluster, in the order of the spec."""
        return self.spec.tasks()

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training that all workers begin; what `kit.train` calls.

        Blocks until every worker's program has made the same call, on its own server.
        Raises as `TrainingRendezvous.launch` does.
        """
        if not self._is_started:
            raise FailedPreconditionError("the server was not started: call start().")
        return self._rendezvous.launch(job, work)

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
        self.trainings.close(_STOP_S)
        self._closing.close()
        self.graphs.close(_STOP_S)
        with self._guard:
            links = list(self._links)
        for link in links:
            link.close()
        self._stopped.set()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else f"at {self.address}"
        return f"<Server {self.task} {state}>"

    def _listen(self, wanted: Address) -> list[Listener]:
        known = {
            "credentials": self._credentials,
            "insecure": self.settings.insecure,
            "dead_after_s": self.settings.dead_after_s,
        }
        first = listen(wanted, **known)  # type: ignore[arg-type]
        if self.settings.transport == "tcp":
            return [first]
        try:
            beside = socket_beside(self._runtime_dir, first.address)
            if beside is None:
                return [first]
            make_private_folder(self._runtime_dir)
            sweep(self._runtime_dir)
            return [first, listen(beside, **known)]  # type: ignore[arg-type]
        except BaseException:
            first.close()
            raise

    def _take(self, link: Link) -> None:
        if link.role is Role.DATA:
            self.trainings.take_data_link(link)
            return
        if link.role is Role.SESSION:
            self.graphs.take(link)
            return
        with self._guard:
            self._links.add(link)
        self.trainings.link_opened(link)
        name = f"kit-serve-{link.peer.short}"
        threading.Thread(
            target=self._serve, args=(link,), name=name, daemon=True
        ).start()

    def _serve(self, link: Link) -> None:
        was_used, limit = True, self.settings.call_deadline_s
        try:
            handlers = self._handlers(link.peer)
            was_used = serve(link, handlers, limit, self._unexpected) > 0
        finally:
            with self._guard:
                self._links.discard(link)
            self.trainings.link_closed(link, was_used)

    def _handlers(self, peer: Task) -> Mapping[str, Handler]:
        return Handlers(self.trainings, peer).table()

    def _unexpected(self, op: str, error: BaseException) -> None:
        _log.error("%s: %r failed", self.task, op, exc_info=error)


def _in_text(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec with names and addresses in str, where they may be bytes."""
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
            known = ", ".join(map(repr, spec.jobs)) or "none"
            raise ValueError(
                f"the cluster has the jobs {known}; say which one this server belongs "
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
