"""Clusters without engines: servers in this process, or a bare process for each task.

Everything else is real: links, handshakes, arenas, trainings. For tests: an engine
takes seconds to start, these take milliseconds.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kit.server.directory import Directory, short_folder
from kit.server.server import Server
from kit.server.target import ClusterTarget
from kit.settings import Settings, current
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller

CLIENT = Task("client", 0)


class BareCluster(ABC):
    """Tasks without engines; looks like a `kit.Cluster` to sessions and `kit.train`.

    Attributes:
        hosts: The host of each task, in their order, as trainings will see it: the
            tasks of this machine may play those of several. Empty: one for all.
    """

    hosts: Sequence[str] = ()

    @property
    @abstractmethod
    def directory(self) -> Directory:
        """Where the tasks are, and the key to authenticate with."""

    @property
    def insecure(self) -> bool:
        """Whether its links are without encryption."""
        return self.directory.settings.insecure

    def dial(self, task: Task, run: str, address: str = "") -> Caller:
        """Return a link for questions to a task."""
        return Caller(
            self.directory.dial(task, CLIENT, Role.OBSERVER, run, address=address)
        )

    def target(self, task: str) -> ClusterTarget:
        """Return a task as the target of a session, which reaches it over links."""
        return ClusterTarget(lambda: self.directory, Task.parse(task))

    @property
    def session_target(self) -> ClusterTarget:
        """The first worker."""
        return self.target("worker:0")


class LocalCluster(BareCluster):
    """Servers in this process."""

    def __init__(self, servers: list[Server]) -> None:
        """Take running servers that know each other."""
        self.servers = servers

    @property
    def tasks(self) -> list[Task]:
        """All tasks, in the order of the spec."""
        return [server.task for server in self.servers]

    @property
    def directory(self) -> Directory:
        """Where the tasks are, as the first one knows it."""
        return self.servers[0].directory

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on all servers."""
        if job.needs_preparing:
            job = job.at(*(item.trainings.prepare(job) for item in self.servers))
        # The coordinator first: if it refuses, no other task has begun.
        for server in sorted(
            self.servers, key=lambda item: item.task != job.process_of(job.coordinator)
        ):
            needs_work = server.task.job != "ps" or job.is_elastic
            its_work = work if needs_work else None
            if job.generation.is_followed:
                server.trainings.begin_elastic(job, its_work)
            else:
                server.trainings.begin(job, its_work)
        return Run(job, self.dial)


@contextmanager
def local_cluster(
    ps: int = 1, worker: int = 2, *, settings: Settings | None = None
) -> Iterator[LocalCluster]:
    """Start a cluster of servers in this process, and stop it at the end.

    Parameters
    ----------
    ps, worker : int, default 1 and 2
        Numbers of parameter servers and workers.
    settings : Settings, optional
        By default the current settings. With `transport="tcp"` the servers listen on
        127.0.0.1 with TLS, or in plain text if `insecure` is set too; else on unix
        sockets.

    Yields
    ------
    LocalCluster
        For `kit.train(cluster=...)` and `kit.Session`.

    Examples
    --------
    >>> from kit.testing.cluster import local_cluster
    >>> with local_cluster(ps=1, worker=2) as cluster:
    ...     [task.short for task in cluster.tasks]
    ['ps:0', 'worker:0', 'worker:1']
    """
    chosen = settings or current()
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="kit-", dir=short_folder())
        )
        chosen = chosen.replace(runtime_dir=folder)
        over_tcp = chosen.transport == "tcp"
        credentials = Credentials.new(certificate=over_tcp and not chosen.insecure)
        servers = [
            stack.enter_context(
                Server(
                    {job: {index: address_of(folder, job, index, over_tcp)}},
                    credentials=credentials,
                    settings=chosen,
                )
            )
            for job, count in (("ps", ps), ("worker", worker))
            for index in range(count)
        ]
        spec: dict[str, list[str]] = {}
        for server in servers:
            spec.setdefault(server.task.job, []).append(str(server.address))
        for server in servers:
            server.connect(spec)
        yield LocalCluster(servers)


def address_of(folder: str, job: str, index: int, over_tcp: bool) -> str:
    """Return where a task of a local cluster listens."""
    return "127.0.0.1:0" if over_tcp else f"unix:{folder}/{job}-{index}.sock"
