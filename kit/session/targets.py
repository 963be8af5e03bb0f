"""From a session's target to its master: in this process, or at an address.

Servers of this process are entered here when they start; a session on one of them calls
it directly. What another target means is told by the layer above (`find_remote`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from kit.errors import NotFoundError
from kit.session.connection import Connection, Direct
from kit.session.home import Home
from kit.session.master import Master
from kit.session.members import Members
from kit.session.peers import Peers
from kit.session.worker import Worker
from kit.task import Task

LOCAL = Task("localhost", 0)

_here: weakref.WeakValueDictionary[str, Master] = weakref.WeakValueDictionary()
_remote: list[Callable[[str, bool, Sequence[str]], Connection]] = []


def enter(target: str, master: Master) -> None:
    """Let sessions of this process reach a master without a link."""
    _here[target] = master


def set_remote(connect_to: Callable[[str, bool, Sequence[str]], Connection]) -> None:
    """Say how a target in another process is reached."""
    _remote[:] = [connect_to]


def connect(target: Any, soft: bool, filters: Sequence[str]) -> Connection:
    """Return the connection to a target: None or '' is this process alone.

    Anything that has a `target` text, or is one, is looked for in this process and then
    at its address. Raises `TypeError` for another type, `NotFoundError` for a text that
    is no target.
    """
    if target is None or target == "":
        return Direct(local_master(), soft, filters)
    found = getattr(target, "session_target", None) or getattr(target, "target", target)
    if callable(getattr(found, "connect_session", None)):
        return found.connect_session(soft, filters)  # type: ignore[no-any-return]
    if not isinstance(found, str):
        raise TypeError(
            f"a target is a text, a server or a cluster, not {target!r} of type "
            f"{type(target).__name__}."
        )
    if found in _here:
        return Direct(_here[found], soft, filters)
    if not _remote:
        raise NotFoundError(f"no session can be made on {found!r}.")
    return _remote[0](found, soft, filters)


def local_master() -> Master:
    """Return a new master of a cluster of one task, which lives in this process."""

    def dial(task: Task) -> Any:
        raise NotFoundError(f"{task} is not there: this session has one task, {LOCAL}.")

    worker = Worker(Home(LOCAL), Peers(dial))
    return Master(worker, Members(worker, lambda: [LOCAL]))
