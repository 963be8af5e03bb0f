"""A session's target in another process: `psring://host:port` or `psring://unix:/path`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.errors import InvalidArgumentError, NotFoundError
from kit.server.directory import Directory, default_runtime_dir
from kit.server.identity import shared_credentials
from kit.server.local_sockets import connect_near
from kit.session.client import targets
from kit.session.client.connection import Connection
from kit.session.client.feeds_on_tasks import Carry, LazyFeeds
from kit.session.client.options import SessionCluster, SessionOptions
from kit.session.client.remote import Remote
from kit.session.master.cluster_tasks import passes
from kit.session.transport.service import join
from kit.settings import Settings, current
from kit.task import Task
from kit.wire.handshake.messages import Hello, Role
from kit.wire.link import Link
from kit.wire.listening.address import Address, parse_address

SCHEME = "psring://"
CLIENT = Task("client", 0)


@dataclass(frozen=True)
class ClusterTarget:
    """A task of a cluster as the target of sessions, which use the cluster's own key.

    `directory` is called when a link is opened: the tasks may have moved by then.
    `carry` calls a function on all tasks, over a channel that may carry code. `check`
    raises the error with which a task was lost, if whatever started it knows of that.
    """

    directory: Callable[[], Directory]
    task: Task
    carry: Carry | None = None
    check: Callable[[Task], None] | None = None

    def connect_session(self, options: SessionOptions) -> Connection:
        """Return a connection; the task is dialled at the first run.

        Raises the error of a lost task: the session would wait for it.
        """
        if self.check is not None:
            for task in self.directory().addresses:
                if task == self.task or passes(task, options.filters):
                    self.check(task)

        def dial(deadline_s: float) -> Link:
            directory = self.directory()
            limit_s = min(deadline_s, directory.settings.connect_deadline_s)
            return directory.dial(self.task, CLIENT, Role.SESSION, deadline_s=limit_s)

        late = None if self.carry is None else LazyFeeds(self.carry)
        return Remote(str(self.task), dial, options, late)

    def __str__(self) -> str:
        return str(self.task)


@dataclass(frozen=True)
class JoinedTarget:
    """A server as one task of a cluster that its sessions bring."""

    address: Address
    cluster: SessionCluster

    def connect_session(self, options: SessionOptions) -> Connection:
        """Return a connection; the server is dialled at the first run."""
        return _connection(self.address, options, self.cluster)


def connect_to(target: str, options: SessionOptions) -> Connection:
    """Return a session's connection to a server with this user's credentials.

    Raises `NotFoundError` for a text that is not a target, `InvalidArgumentError` for
    one with a wrong address. The server is dialled at the first run.
    """
    if not target.startswith(SCHEME):
        raise NotFoundError(
            f"{target!r} is not a target of a session; give a server's target, "
            f"written {SCHEME}host:port, or '' for this process alone."
        )
    return _connection(address_in(target, SCHEME), options)


def address_in(target: str, scheme: str) -> Address:
    """Return a target's address; raises `InvalidArgumentError` for a wrong one."""
    try:
        return parse_address(target.removeprefix(scheme))
    except InvalidArgumentError as exc:
        raise InvalidArgumentError(
            f"{target!r} names no server: {exc.message}"
        ) from exc


def _connection(
    address: Address, options: SessionOptions, cluster: SessionCluster | None = None
) -> Connection:
    settings = current()  # of now: a thread that runs something later may have others

    def dial(deadline_s: float) -> Link:
        link = _dial(address, settings, deadline_s)
        return link if cluster is None else join(link, cluster, deadline_s)

    return Remote(f"the server at {address}", dial, options)


def _dial(address: Address, settings: Settings, deadline_s: float) -> Link:
    return connect_near(
        address,
        Hello(Role.SESSION, CLIENT),
        shared_credentials(),
        default_runtime_dir(settings),
        settings,
        deadline_s=min(deadline_s, settings.connect_deadline_s),
    )


targets.set_remote(connect_to)
