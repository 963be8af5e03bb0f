"""What the target of a session means: this process alone, or a server at an address.

''                   a cluster of one task inside this session
grpc://host:port     the server there; of this process it is called directly
psring://...         the same in the words of `kit`
"""

from __future__ import annotations

from typing import Any

from kit.errors import InvalidArgumentError, NotFoundError
from kit.server import target as remote
from kit.session.client.connection import Connection, Direct
from kit.session.client.options import SessionOptions
from kit.session.client.targets import local_master
from kit.tf1.session.server import Server, server_at
from kit.wire.listening.address import TcpAddress, parse_address

_SCHEMES = ("grpc://", remote.SCHEME)


class LocalTarget:
    """A cluster of one task with some CPU devices, which one session has for itself."""

    def __init__(self, n_cpus: int) -> None:
        self._n_cpus = n_cpus

    def connect_session(self, options: SessionOptions) -> Connection:
        """Return a connection to it; called by `kit.session`."""
        return Direct(local_master(self._n_cpus), options, owns=True)


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


def native_target(target: str, n_cpus: int) -> Any:
    """Return what `kit.session` takes for a target.

    The number of CPU devices matters for a session of this process alone.

    Raises `NotFoundError` for a text that is not a target, `InvalidArgumentError` for
    one without a port.
    """
    if not target:
        return LocalTarget(max(1, n_cpus))
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
