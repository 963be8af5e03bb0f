"""From a session's target to its master: in this process, or at an address.

Servers of this process are registered here when they start; a session on one of them
calls it directly. The layer above sets how other targets are reached (`set_remote`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from kit.errors import NotFoundError
from kit.session.client.connection import Connection, Direct
from kit.session.client.options import SessionOptions
from kit.session.master.cluster_tasks import ClusterTasks
from kit.session.master.master import Master
from kit.session.transport.peers import Peers
from kit.session.worker.task_runtime import TaskRuntime
from kit.session.worker.worker import Worker
from kit.task import Task

LOCAL = Task("localhost", 0)

_here: weakref.WeakValueDictionary[str, Master] = weakref.WeakValueDictionary()
_connect_to: Callable[[str, SessionOptions], Connection] | None = None


def enter(target: str, master: Master) -> None:
    """Let sessions of this process reach a master without a link."""
    _here[target] = master


def leave(target: str) -> None:
    """Stop sessions of this process from reaching a master without a link."""
    _here.pop(target, None)


def set_remote(connect_to: Callable[[str, SessionOptions], Connection]) -> None:
    """Set how a target in another process is reached."""
    global _connect_to  # the layer above registers itself here, once
    _connect_to = connect_to


def connect(target: Any, options: SessionOptions, n_cpus: int = 1) -> Connection:
    """Return the connection to a target: None or '' is this process alone.

    A target is a text, or has one as `target` (a server), or names another target as
    `session_target` (a cluster), or connects by itself (`connect_session`). A text is
    looked up in this process first, and then dialled. Raises `TypeError` for another
    type, `NotFoundError` for a text that is not a target. `n_cpus` is for this process.
    """
    if target is None or target in ("", b""):
        return Direct(local_master(n_cpus), options, owns=True)
    meant = target if isinstance(target, str) else _meant_by(target)
    if hasattr(meant, "connect_session"):
        connection: Connection = meant.connect_session(options)
        return connection
    if not isinstance(meant, str):
        raise TypeError(
            f"a target is a text, a server or a cluster, not {target!r} of type "
            f"{type(target).__name__}."
        )
    master = _here.get(meant)
    if master is not None:
        return Direct(master, options)
    if _connect_to is None:
        raise NotFoundError(f"no session can be made on {meant!r}.")
    return _connect_to(meant, options)


def _meant_by(target: Any) -> Any:
    if hasattr(target, "connect_session"):
        return target
    if hasattr(target, "session_target"):
        return target.session_target
    return getattr(target, "target", target)


def local_master(n_cpus: int = 1) -> Master:
    """Return a new master of a cluster of one task, which lives in this process."""

    def dial(task: Task, _: float) -> Any:
        raise NotFoundError(f"{task} is not there: this session has one task, {LOCAL}.")

    worker = Worker(TaskRuntime(LOCAL, n_cpus=n_cpus), Peers(dial))
    return Master(worker, ClusterTasks(worker, lambda: [LOCAL]))
