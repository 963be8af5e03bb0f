"""What a session's target means, and whether it answers and can place all operations.

''                   a cluster of one task inside this session
grpc://host:port     the server there; of this process it is called directly
psring://...         the same in the words of `kit`
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kit.cluster_def import ClusterDef
from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
    UnavailableError,
)
from kit.graph.node import node_of
from kit.graph.op import Op
from kit.server import target as remote
from kit.session.client.options import SessionCluster
from kit.session.client.session import Session
from kit.session.master.devices import Device, place_nodes
from kit.session.master.plan import RunSignature
from kit.settings import current
from kit.task import Task
from kit.tf1.session.config import ConfigProto
from kit.tf1.session.server import Server, server_at
from kit.tf1.session.waiting import say
from kit.wire.listening.address import Address, TcpAddress, parse_address

_SCHEMES = ("grpc://", remote.SCHEME)


def text_of(target: Any) -> str:
    """Return a target as text; raises `TypeError` for what is not a target."""
    if target is None:
        return ""
    if isinstance(target, bytes):
        return target.decode()
    if isinstance(target, str):
        return target
    hint = ""
    if type(target).__name__ == "ConfigProto":
        hint = " Did you mean tf.Session(config=...)?"
    raise TypeError(
        f"target must be a string, but got {target!r} of type "
        f"{type(target).__name__}.{hint}"
    )


def native_target(target: str, cluster: ClusterDef) -> Any:
    """Return the target as `kit.session` takes it, None for this process alone.

    With jobs in `cluster`, the server there is one of their tasks for the session.
    Raises `NotFoundError` for a text that is not a target, `InvalidArgumentError` for
    one without a port, and for a cluster that does not have it, or has it twice.
    """
    if not target:
        return None
    scheme = next((item for item in _SCHEMES if target.startswith(item)), None)
    if scheme is None:
        raise NotFoundError(
            f"No session factory registered for the target {target!r}; write a "
            f"server's target, 'grpc://host:port', or '' for this process alone."
        )
    address = remote.address_in(target, scheme)
    if cluster.job:
        return _joined(target, address, cluster)
    server = server_of(target)
    return f"{remote.SCHEME}{address}" if server is None else server._native.target


def _joined(target: str, address: Address, cluster: ClusterDef) -> remote.JoinedTarget:
    where = {
        Task.parse(f"{job.name}:{index}"): parse_address(text)
        for job in cluster.job
        for index, text in job.tasks.items()
    }
    mine = [task for task, task_address in where.items() if task_address == address]
    if len(mine) != 1:
        described = ", ".join(
            f"{task.short} at {task_address}" for task, task_address in where.items()
        )
        raise InvalidArgumentError(
            f"the cluster_def of the session's config must have the session's target "
            f"{target!r} as one task, and has {described}: it is there {len(mine)} "
            f"times. Write {str(address)!r} for the task that it is to be."
        )
    addresses = tuple((task, str(task_address)) for task, task_address in where.items())
    return remote.JoinedTarget(address, SessionCluster(mine[0], addresses))


def server_of(target: str) -> Server | None:
    """Return the server of this process that a target means, None if there is none."""
    for scheme in _SCHEMES:
        if target.startswith(scheme):
            try:
                address = remote.address_in(target, scheme)
            except InvalidArgumentError:
                return None
            if isinstance(address, TcpAddress):
                return server_at(address.host, address.port)
    return None


_PAUSE_S = 0.05
_ASK_S = 0.5


def meet(session: Session, target: str, limit_s: float) -> list[tuple[Device, int]]:
    """Wait until a session's target answers and all its tasks are up.

    Returns their devices, with their incarnations. A client may start before its
    servers do. Raises `DeadlineExceededError`; says now and then what it waits for.
    """
    begin = time.monotonic()
    said, every_s = begin, current().still_waiting_s
    while True:
        left_s = begin + limit_s - time.monotonic()
        try:
            # No longer at once: what nobody waits for any more must not go on there.
            return session.list_devices(max(_PAUSE_S, min(left_s, every_s)))
        except (UnavailableError, DeadlineExceededError) as error:
            left_s = begin + limit_s - time.monotonic()
            if left_s <= 0:
                raise _not_met(error, target, limit_s) from error
            if time.monotonic() >= said + every_s:
                said = time.monotonic()
                say(f"{_task_of(error) or target} to come up")
            time.sleep(min(_PAUSE_S, left_s))


def _task_of(error: KitError) -> str:
    """Return the task of the target's cluster that an error names, else ''."""
    return error.task if error.task and error.task.startswith("/job:") else ""


def _not_met(error: KitError, target: str, limit_s: float) -> DeadlineExceededError:
    if _task_of(error):
        return DeadlineExceededError(error.message, task=error.task)
    return DeadlineExceededError(
        f"{target} did not answer within {limit_s:g} s: {error.message} Start the "
        f"server there, or correct the target."
    )


def check_known(session: Session) -> None:
    """Raise `AbortedError` if the master no longer knows the session."""
    # An empty run is the cheapest question for which a master looks the session up.
    try:
        session._connection.prepare(RunSignature((), (), ()), _ASK_S)
    except AbortedError:
        raise
    except KitError:
        return  # it cannot be asked: nothing that a caller of `close` could act on


def placed_all(
    ops: Sequence[Op], devices: Sequence[Device], config: ConfigProto, whole: bool
) -> dict[str, Device]:
    """Return the devices of operations, by name; the target's devices come first.

    With `whole`, raises `PlacementError` for the first that no device fits.
    """
    nodes = {op.name: node_of(op) for op in ops}
    soft, refused = (
        config.allow_soft_placement,
        None if whole else dict[str, KitError](),
    )
    return place_nodes(nodes, devices, devices[0].task, soft=soft, refused=refused)
