"""Fed values that the tasks load themselves, each where it is used.

    session.run(loss, {x: dask_images})        # on a kit.Cluster

A dask collection is sent to the tasks once, uncomputed, over the channel that may carry
code. A run then names it by a token, and each task whose segment uses it computes it.
The client never holds its values. Without such a channel (a session on a bare server,
or in this process) the client computes it: see `kit.session.client.dask_feeds`.
"""

from __future__ import annotations

import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    UnknownError,
)
from kit.graph.dtypes import Array, dtype_of, name_of
from kit.graph.static import Static
from kit.message_fields import (
    check,
    flag,
    list_of,
    maybe,
    optional,
    row_of,
    table_of,
    text,
    whole,
)
from kit.session.client.dask_feeds import announced_shape, loaded, token_of
from kit.session.client.feeds import Fed, check_shape, fed_value

# Calls a function with arguments on all tasks; takes `deadline_s` too.
Carry = Callable[..., Any]

# The most collections of one session, and sessions, that are kept on the tasks.
_MOST: Final = 128
_MOST_SESSIONS: Final = 64
_CLOSE_S: Final = 2.0
_KEY: Final = "late"
_SHAPE: Final = maybe(list_of(maybe(whole(0))))
_FIELDS: Final = {
    "traced": optional(flag()),
    _KEY: optional(table_of(row_of(text(), text(), text(), text(), _SHAPE))),
}

#: Collections of each session that are kept for its next run, the oldest first.
held: Final[OrderedDict[str, OrderedDict[str, Any]]] = OrderedDict()
_guard: Final = threading.Lock()


class LazyFeed:
    """Stands in a run's feeds for what is loaded where it is used."""

    __slots__ = ("name", "session", "static", "token")

    def __init__(self, session: str, token: str, name: str, static: Static) -> None:
        """`name` and `static` are those of the fed tensor."""
        self.session, self.token = session, token
        self.name, self.static = name, static

    def to_plain(self) -> list[Any]:
        """Return it as data for a message."""
        shape, dtype = self.static.shape, name_of(self.static.dtype)
        plain = None if shape is None else list(shape)
        return [self.session, self.token, self.name, dtype, plain]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> LazyFeed:
        """Rebuild it from `to_plain`."""
        session, token, name, dtype, shape = plain
        static = Static(None if shape is None else tuple(shape), dtype_of(dtype))
        return cls(str(session), str(token), str(name), static)


class LazyFeeds:
    """One session's collections on the tasks of a cluster."""

    def __init__(self, carry: Carry) -> None:
        self._carry, self._session = carry, uuid4().hex
        self._carried: OrderedDict[str, Any] = OrderedDict()
        self._carrying = threading.Lock()

    def feed(self, fed: Sequence[tuple[Fed, Any]]) -> list[Any]:
        """Return what to feed tensors in place of collections.

        What cannot be pickled is computed here. Raises `ValueError` for a shape that is
        known to be wrong, before anything is sent.
        """
        for tensor, value in fed:
            check_shape(tensor, announced_shape(value))
        values = {token_of(value): value for _, value in fed}
        if not self._bring(values):
            here = loaded([value for _, value in fed])
            pairs = zip((item for item, _ in fed), here, strict=True)
            return [fed_value(*pair) for pair in pairs]
        return [
            LazyFeed(self._session, token_of(value), item.name, item.static)
            for item, value in fed
        ]

    def here(self, values: list[Any]) -> list[Any]:
        """Return values; those that stand for a collection are computed here."""
        return [
            self._computed(value) if type(value) is LazyFeed else value
            for value in values
        ]

    def close(self) -> None:
        """Let the tasks forget this session's collections."""
        if self._carried:
            self._carried.clear()
            self._carry(forget, self._session, deadline_s=_CLOSE_S)

    def _bring(self, values: Mapping[str, Any]) -> bool:
        with self._carrying:
            carried = self._carried
            new = {key: value for key, value in values.items() if key not in carried}
            if new:
                try:
                    self._carry(hold, self._session, new)
                except KitError:
                    raise
                except Exception:  # pickling may raise anything that the object does
                    return False
                _keep(self._carried, new)
        return True

    def _computed(self, feed: LazyFeed) -> Array:
        (value,) = loaded([self._carried[feed.token]])
        return fed_value(feed, value)


def hold(session: str, collections: Mapping[str, Any]) -> None:
    """Keep collections on this task; the oldest of a session make room."""
    with _guard:
        _keep(held.setdefault(session, OrderedDict()), collections)
        held.move_to_end(session)
        while len(held) > _MOST_SESSIONS:
            held.popitem(last=False)


def forget(session: str) -> None:
    """Forget what a session had here."""
    with _guard:
        held.pop(session, None)


def split_feeds(feeds: Sequence[Any]) -> tuple[Sequence[Array], dict[str, Any]]:
    """Return the arrays of a run's feeds, and plain data about the rest."""
    late = {
        str(i): feed.to_plain()
        for i, feed in enumerate(feeds)
        if type(feed) is LazyFeed
    }
    if not late:
        return feeds, {}
    return [feed for feed in feeds if type(feed) is not LazyFeed], {_KEY: late}


def join_feeds(arrays: list[Array], meta: Mapping[str, Any]) -> list[Any]:
    """Return the feeds that `split_feeds` took apart.

    Raises `InvalidArgumentError` for what it does not write.
    """
    if not meta:
        return arrays
    late = check("feeds", _FIELDS, meta).get(_KEY, {})
    feeds: list[Any] = list(arrays)
    try:
        for position, plain in sorted(late.items(), key=lambda item: int(item[0])):
            feeds.insert(int(position), LazyFeed.from_plain(plain))
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidArgumentError(f"late feeds that cannot be read: {exc}.") from exc
    return feeds


def present(feeds: Sequence[Any]) -> Sequence[Array]:
    """Return feeds; load lazy ones on this task, all at once.

    Raises `FailedPreconditionError` when a collection is not here (any more), and
    `UnknownError` for what its computation raises.
    """
    late = [feed for feed in feeds if type(feed) is LazyFeed]
    if not late:
        return feeds
    values = iter(_load(late))
    return [next(values) if type(value) is LazyFeed else value for value in feeds]


def _load(late: Sequence[LazyFeed]) -> list[Array]:
    names = ", ".join(repr(feed.name) for feed in late)
    try:
        values = loaded([_find(feed) for feed in late], scheduler="synchronous")
        return [fed_value(*pair) for pair in zip(late, values, strict=True)]
    except KitError:
        raise
    except Exception as exc:  # what reads the data may raise anything
        raise UnknownError(
            f"what is fed to {names} could not be loaded: {type(exc).__name__}: {exc}",
            remote_traceback=traceback.format_exc(),
        ) from exc


def _find(feed: LazyFeed) -> Any:
    with _guard:
        session = held.get(feed.session)
        value = None if session is None else session.get(feed.token)
    if value is None:
        raise FailedPreconditionError(
            f"what is fed to {feed.name!r} is not on this task (any more): the task "
            f"was restarted. Make a new session."
        )
    return value


def _keep(where: OrderedDict[str, Any], new: Mapping[str, Any]) -> None:
    where.update(new)
    while len(where) > _MOST:
        where.popitem(last=False)
