"""What a session's target means, and whether it answers and can place all operations.

''                   a cluster of one task inside this session
grpc://host:port     the server there; of this process it is called directly
psring://...         the same in the words of `kit`
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

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
from kit.session.client.session import Session
from kit.session.master.devices import place
from kit.session.master.plan import RunSignature
from kit.tf1.session.config import ConfigProto
from kit.tf1.session.server import Server, server_at
from kit.wire.listening.address import TcpAddress, parse_address

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


def native_target(target: str) -> Any:
    """Return the target as `kit.session` takes it, None for this process alone.

    Raises `NotFoundError` for a text that is not a target, `InvalidArgumentError` for
    one without a port.
    """
    if not target:
        return None
    scheme = next((one for one in _SCHEMES if target.startswith(one)), None)
    if scheme is None:
        raise NotFoundError(
            f"No session factory registered for the target {target!r}; write a "
            f"server's target, 'grpc://host:port', or '' for this process alone."
        )
    try:
        address = parse_address(target.removeprefix(scheme))
    except InvalidArgumentError as exc:
        raise InvalidArgumentError(
            f"{target!r} names no server: {exc.message}"
        ) from exc
    server = server_of(target)
    return f"{remote.SCHEME}{address}" if server is None else server._native.target


def server_of(target: str) -> Server | None:
    """Return the server of this process that a target means, None if there is none."""
    for scheme in _SCHEMES:
        if target.startswith(scheme):
            try:
                address = parse_address(target.removeprefix(scheme))
            except InvalidArgumentError:
                return None
            if isinstance(address, TcpAddress):
                return server_at(address.host, address.port)
    return None


_PAUSE_S = 0.05
_ASK_S = 0.5


def meet(session: Session, target: str, deadline_s: float) -> None:
    """Wait until a session's target answers.

    A client may start before its server does. Raises `DeadlineExceededError`.
    """
    deadline = time.monotonic() + deadline_s
    while target:
        try:
            session.list_devices(max(_PAUSE_S, deadline - time.monotonic()))
            return
        except UnavailableError as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise DeadlineExceededError(
                    f"{target} did not answer within {deadline_s:g} s: "
                    f"{error.message} Start the server there, or correct the target."
                ) from error
            time.sleep(min(_PAUSE_S, left_s))


def check_known(session: Session) -> None:
    """Raise `AbortedError` if the master no longer knows the session."""
    # An empty run is the cheapest question for which a master looks the session up.
    try:
        session._connection.prepare(RunSignature((), (), ()), _ASK_S)
    except AbortedError:
        raise
    except KitError:
        return  # it cannot be asked: nothing that a caller of `close` could act on


def check_all(
    ops: Sequence[Op], session: Session, deadline_s: float, config: ConfigProto
) -> None:
    """Raise `PlacementError` for the first of `ops` that no device fits."""
    devices = [one for one, _ in session.list_devices(deadline_s)]
    nodes = {one.name: node_of(one) for one in ops}
    place(nodes, devices, devices[0].task, soft=config.allow_soft_placement)
