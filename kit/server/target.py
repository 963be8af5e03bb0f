"""A session's target in another process: `psring://host:port` or `psring://unix:/path`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.errors import InvalidArgumentError, NotFoundError
from kit.server.directory import MAX_BODY, default_runtime_dir, socket_beside
from kit.server.identity import shared_credentials
from kit.session import targets
from kit.session.connection import Connection, Remote
from kit.settings import current
from kit.task import Task
from kit.wire.address import Address, TcpAddress, parse_address
from kit.wire.introduction import Hello, Role
from kit.wire.link import Link
from kit.wire.opening import connect

SCHEME = "psring://"
CLIENT = Task("client", 0)


def connect_to(target: str, soft: bool, filters: Sequence[str]) -> Connection:
    """Return a session's connection to a server of this user's, wherever it runs.

    Raises `NotFoundError` for a text that is no target, `InvalidArgumentError` for an
    address that cannot be one. The server is dialled at the first run.
    """
    if not target.startswith(SCHEME):
        raise NotFoundError(
            f"{target!r} is no target of a session; give a server's target, which is "
            f"written {SCHEME}host:port, or '' for this process alone."
        )
    try:
        address = parse_address(target.removeprefix(SCHEME))
    except InvalidArgumentError as exc:
        raise InvalidArgumentError(
            f"{target!r} names no server: {exc.message}"
        ) from exc
    return Remote(CLIENT, lambda: _dial(address), soft, filters)


def _dial(address: Address) -> Link:
    settings = current()
    return connect(
        _best(address),
        Hello(Role.SESSION, CLIENT),
        shared_credentials(),
        deadline_s=settings.connect_deadline_s,
        insecure=settings.insecure,
        max_body=MAX_BODY,
        checksum=settings.checksum,
        dead_after_s=settings.dead_after_s,
    )


def _best(address: Address) -> Address:
    """Return the unix socket beside a port of the loopback interface, if there is one."""
    settings = current()
    if isinstance(address, TcpAddress) and settings.transport != "tcp":
        beside = socket_beside(default_runtime_dir(settings), address)
        if beside is not None and Path(beside.path).exists():
            return beside
    return address


targets.set_remote(connect_to)
