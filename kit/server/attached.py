"""A cluster as seen by a program that is not one of its tasks and did not start them.

    kit.attach("nodea:2222")  ──►  any of the servers  ──►  the spec: where all are
                              ──►  all servers         ──►  who answers, what they train

Everything goes over links, and links carry no code. So trainings on the tasks can be
watched and controlled, and sessions can run graphs on them, but a training with a step
function must be begun by the workers' own programs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, NoReturn

from kit.arithmetic import Arithmetic, differences
from kit.errors import InvalidArgumentError, KitError, UnimplementedError
from kit.handles import handle
from kit.message_fields import anything, check, table_of, text, whole
from kit.server.directory import Directory, default_runtime_dir
from kit.server.identity import shared_credentials
from kit.server.local_sockets import connect_near
from kit.server.target import CLIENT, ClusterTarget
from kit.settings import Settings, current
from kit.spec import ClusterSpec
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Hello, Role
from kit.wire.listening.address import parse_address
from kit.wire.rpc import Caller

_AT_ONCE = 32  # tasks asked at the same time: one that is stopped takes seconds
_ENDED = ("done", "failed")
_LOOK = {
    "task": text(1000),
    "cluster": table_of(table_of(text())),
    "run": text(pattern="(?:[0-9a-f]{32})?"),
    "state": text(100),
    "step": whole(0),
    "arithmetic": table_of(anything()),
}


class AttachedStatus(NamedTuple):
    """A task's answer: its training, and the training's state and committed steps.

    `run` is empty if none has begun. `reason` says why the task did not answer, and
    `arithmetic` what it computes with.
    """

    task: Task
    address: str
    is_there: bool
    run: str = ""
    state: str = ""
    step: int = 0
    reason: str = ""
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        if not self.is_there:
            return f"{self.task.short} does not answer ({self.reason})"
        doing = f"{self.state}, step {self.step}" if self.run else "ready"
        return f"{self.task.short} {doing}"


@handle
@dataclass(frozen=True)
class AttachedCluster:
    """A cluster that was started elsewhere; `kit.attach` returns it.

    Attributes
    ----------
    spec : ClusterSpec
        The jobs and the addresses of their tasks.
    """

    spec: ClusterSpec
    directory: Directory = field(repr=False)
    _runs: dict[str, Run] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _guard: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @property
    def insecure(self) -> bool:
        """Whether its links are without encryption."""
        return self.directory.settings.insecure

    def __repr__(self) -> str:
        warning = self.directory.settings.warning
        warned = f", {warning}" if warning else ""
        return f"AttachedCluster(spec={self.spec!r}{warned})"

    @property
    def tasks(self) -> list[Task]:
        """All tasks, in the order of the spec."""
        return self.spec.tasks()

    @property
    def hosts(self) -> list[str]:
        """The host of each task; empty if all are on the same one."""
        return self.directory.hosts(self.tasks)

    @property
    def status(self) -> list[AttachedStatus]:
        """What each task is doing; asks all, which takes a few seconds at most.

        Warns where tasks compute with something else than others, so that the bits of
        a graph depend on where its operations are placed.
        """
        with ThreadPoolExecutor(min(_AT_ONCE, len(self.tasks))) as pool:
            statuses = list(pool.map(self._status, self.tasks))
        named = [
            (status.task.short, status.arithmetic)
            for status in statuses
            if status.arithmetic
        ]
        for words in differences(named, with_threads=True):
            warnings.warn(words, stacklevel=2)
        return statuses

    @property
    def run(self) -> Run | None:
        """The training under way, else the last one; None if none has begun.

        It can be watched and controlled as in the program that began it, and is the
        same object until another training begins, or until `run.close()` ends the watch
        of one that goes on. Asks all tasks, and waits for their first news.
        """
        busy = [status for status in self.status if status.run]
        if not busy:
            return None
        newest = next(
            (status for status in busy if status.state not in _ENDED), busy[0]
        )
        with self._guard:
            run = self._runs.get(newest.run)
            if run is None or (run.done and run.state not in _ENDED):  # it was closed
                run = self._watch(newest)
                self._runs.clear()
                self._runs[newest.run] = run
        return run

    def _watch(self, newest: AttachedStatus) -> Run:
        limit_s = self.directory.settings.call_deadline_s
        with closing(self._dial(newest.task)) as caller:
            plain = caller.call("run.job", limit_s, {"run": newest.run})[0]
        run = Run(Job.from_plain(plain["job"]), self._dial)
        run.source.catch_up(limit_s)
        return run

    def target(self, task: str) -> ClusterTarget:
        """Return a task as the target of a session: `kit.Session(cluster.target(...))`.

        Parameters
        ----------
        task : str
            Its name, such as "worker:0".
        """
        return ClusterTarget(lambda: self.directory, Task.parse(task))

    @property
    def session_target(self) -> ClusterTarget:
        """The first worker, or the first task if there is no worker."""
        workers = [task for task in self.tasks if task.job != "ps"]
        return self.target((workers or self.tasks)[0].short)

    def launch(self, job: Job, work: Work) -> NoReturn:
        """Refuse a training: its step function would have to travel over links."""
        raise UnimplementedError(
            "no code travels over the links between tasks, so a training cannot begin "
            "from here. Call kit.train(..., cluster=server) in the program of every "
            "worker, and watch it here as the `run` of this cluster."
        )

    def _status(self, task: Task) -> AttachedStatus:
        address = self.directory.addresses[task]
        try:
            with closing(self._dial(task)) as caller:
                reply = _look(caller, self.directory.settings)
        except KitError as error:
            return AttachedStatus(task, address, is_there=False, reason=error.message)
        return AttachedStatus(
            task,
            address,
            True,
            reply["run"],
            reply["state"],
            reply["step"],
            arithmetic=Arithmetic.from_plain(reply["arithmetic"]),
        )

    def _dial(self, task: Task, run: str = "", address: str = "") -> Caller:
        return Caller(
            self.directory.dial(task, CLIENT, Role.OBSERVER, run, address=address)
        )


def attach(
    address: str,
    *,
    credentials: Credentials | None = None,
    settings: Settings | None = None,
) -> AttachedCluster:
    """Return the cluster that a running server belongs to.

    Parameters
    ----------
    address : str
        The address of any of its tasks, such as "nodea:2222", or a server's target.
    credentials : Credentials, optional
        Those of the cluster, such as `kit.Credentials.load(Path("cluster.json"))`. By
        default those that all processes of this user share.
    settings : Settings, optional
        By default the current settings.

    Returns
    -------
    AttachedCluster
        It has `spec`, `tasks`, `status` and, if a training has begun, `run`.

    Raises
    ------
    UnavailableError
        Nothing answers there.
    AuthenticationFailed
        The cluster has other credentials.

    Examples
    --------
    Watch a training that was begun by the workers' programs::

        cluster = kit.attach("nodea:2222")
        cluster.status
        TrafficBoard(cluster.run)
    """
    chosen, secrets = settings or current(), credentials or shared_credentials()
    folder = default_runtime_dir(chosen)
    link = connect_near(
        parse_address(str(address).removeprefix("psring://")),
        Hello(Role.OBSERVER, CLIENT),
        secrets,
        folder,
        chosen,
        deadline_s=chosen.connect_deadline_s,
    )
    with closing(Caller(link)) as caller:
        spec = _spec(_look(caller, chosen)["cluster"])
    addresses = {task: spec.task_address(task.job, task.index) for task in spec.tasks()}
    return AttachedCluster(spec, Directory(addresses, secrets, folder, chosen))


def _look(caller: Caller, settings: Settings) -> dict[str, Any]:
    """Ask a task what it does."""
    return check("task", _LOOK, caller.call("task.look", settings.call_deadline_s)[0])


def _spec(jobs: Mapping[str, Mapping[str, str]]) -> ClusterSpec:
    try:
        return ClusterSpec(
            {
                job: {int(index): tasks[index] for index in tasks}
                for job, tasks in jobs.items()
            }
        )
    except (TypeError, ValueError) as exc:
        raise InvalidArgumentError(
            f"the description of the cluster cannot be read: {exc}"
        ) from exc
