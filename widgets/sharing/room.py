"""How many connections a class page holds, and which must go when one more comes.

Pure, but for the question how many descriptors this process may have.

A stranger has shown no token yet, a guest has asked for something with one, a viewer
watches. Each kind has its own number of places, so that strangers take none from the
class, and the class none from its teacher, who always gets in. A whole class may come
from one address, so no address has a limit; but if a kind is full, one of the address
with the most connections goes.
"""

from __future__ import annotations

import resource
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar

MOST_VIEWERS: Final = 200
STRANGER, GUEST, VIEWER, TEACHER = "stranger", "guest", "viewer", "teacher"
_MOST: Final = {STRANGER: MOST_VIEWERS // 2, GUEST: MOST_VIEWERS // 2}
_MOST[VIEWER] = MOST_VIEWERS


class Occupant(Protocol):
    """A connection."""

    address: str

    @property
    def is_silent(self) -> bool:
        """Whether it does not do what a page does."""

    def closed(self) -> bool:
        """Return whether it is closed."""

    def close(self) -> None:
        """Close it at once, which leaves the room too."""


C = TypeVar("C", bound=Occupant)


class Room(Generic[C]):
    """All connections by kind, the oldest of each first."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kinds: dict[str, dict[C, None]] = {
            kind: {} for kind in (STRANGER, GUEST, VIEWER, TEACHER)
        }

    def enter(self, connection: C, kind: str) -> None:
        """Let a connection in as one of a kind; close another if that is full."""
        self.leave(connection)
        if connection.closed():
            return
        others = self._kinds[kind]
        while kind in _MOST and others and len(others) >= places(kind):
            leaving(others, is_brief=kind != VIEWER).close()
        others[connection] = None

    def leave(self, connection: C) -> None:
        """Forget a connection."""
        for some in self._kinds.values():
            some.pop(connection, None)

    def of(self, kind: str) -> list[C]:
        """Return those of a kind."""
        return list(self._kinds[kind])

    def __iter__(self) -> Iterator[C]:
        for some in self._kinds.values():
            yield from some


def places(kind: str) -> int:
    """Return how many of a kind there may be: never half of our descriptors in all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST[kind]
    return max(1, min(_MOST[kind], _MOST[kind] * soft // (2 * sum(_MOST.values()))))


def leaving(connections: Iterable[C], *, is_brief: bool) -> C:
    """Choose the one that must go, of the address with the most.

    If they are brief, it is the oldest: it should have ended. Of those that stay for an
    hour it is one that is silent, or else any of the younger half: neither does a flood
    of new ones drive out who has watched from the start, nor can those who came first
    keep all others out.
    """
    those = crowd(connections)
    if is_brief:
        return those[0]
    silent = [visitor for visitor in those if visitor.is_silent]
    return silent[0] if silent else secrets.choice(those[len(those) // 2 :])


def crowd(connections: Iterable[C]) -> list[C]:
    """Return those of the address that has the most."""
    those = list(connections)
    (address, _), *_ = Counter(visitor.address for visitor in those).most_common(1)
    return [visitor for visitor in those if visitor.address == address]
