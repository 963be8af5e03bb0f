"""Where a task listens: a unix socket's path, or host and port.

Pure: parses, prints and checks addresses, and resolves no name. What may be reached
from outside this machine is decided here alone (`check_exposure`).
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass

from kit.errors import InvalidArgumentError, PermissionDeniedError

# sun_path has 108 bytes on Linux, one of them for the closing zero (unix(7)).
MAX_UNIX_PATH = 107


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """The absolute path of a unix socket; names without a file are not offered."""

    path: str

    def __post_init__(self) -> None:
        size = len(os.fsencode(self.path))
        if not self.path.startswith("/") or "\0" in self.path:
            raise InvalidArgumentError(
                f"{self.path!r} is not the absolute path of a unix socket; write it "
                f"from '/' on."
            )
        if size > MAX_UNIX_PATH:
            raise InvalidArgumentError(
                f"the path of a unix socket may have {MAX_UNIX_PATH} bytes, this one "
                f"has {size}: {self.path!r}. Choose a shorter folder, for example with "
                f"KIT_RUNTIME_DIR=/tmp/kit."
            )

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host name or number, and a port; port 0 asks the system for a free one."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidArgumentError(
                f"port {self.port} of {self.host!r} is not within 0 to 65535."
            )
        if not self.host or any(c.isspace() or c in "[]/\0" for c in self.host):
            raise InvalidArgumentError(
                f"{self.host!r} is not a host; write 'node7:{self.port}' or "
                f"'[::1]:{self.port}'."
            )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """Return the address that `text` writes; the inverse of `str`.

    Blanks around host and port do not count, as they stand in lists that are split at
    commas. Raises `InvalidArgumentError` with the text and the accepted forms.

    >>> parse_address("[::1]:80"), parse_address("unix:/run/kit/a")
    (TcpAddress(host='::1', port=80), UnixAddress(path='/run/kit/a'))
    """
    if text.lstrip().startswith("unix:"):
        return UnixAddress(text.lstrip().removeprefix("unix:"))
    host, colon, port = (part.strip() for part in text.rpartition(":"))
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not is_number or (":" in host) != bracketed:
        raise InvalidArgumentError(
            f"{text!r} is not an address; write 'unix:/path', 'host:port' or "
            f"'[::1]:port'."
        )
    return TcpAddress(host, int(port))


def is_local(address: Address) -> bool:
    """Return whether nothing outside this machine can reach the address.

    A host name other than `localhost` counts as outside: what it means is not known
    here.

    >>> is_local(TcpAddress("127.0.0.1", 80)), is_local(TcpAddress("node7", 80))
    (True, False)
    """
    if isinstance(address, UnixAddress) or address.host == "localhost":
        return True
    number = _number(address.host)
    return number is not None and number.is_loopback


def check_exposure(address: Address, *, encrypted: bool, insecure: bool) -> None:
    """Refuse an address at which strangers could read along.

    Raises `PermissionDeniedError`: without encryption, only addresses of this machine
    itself are allowed, or one given interface if the user asked for that by `insecure`.
    """
    if encrypted or is_local(address):
        return
    assert isinstance(address, TcpAddress)
    number = _number(address.host)
    everywhere = number is not None and number.is_unspecified
    if insecure and not everywhere:
        return
    way_out = (
        "Name one interface instead of all."
        if insecure
        else "Give credentials with a certificate. With insecure=True anybody on the "
        "line can read and change everything, run any op of a session as this user, "
        "and so read and write the user's files."
    )
    raise PermissionDeniedError(
        f"{address} can be reached from other machines and would not be encrypted. "
        f"{way_out}"
    )


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
