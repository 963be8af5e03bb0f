"""A master in another process: each question is a message, and so is its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from kit.errors import (
    CancelledError,
    DeadlineExceededError,
    KitError,
    LinkLost,
    PeerLost,
    UnavailableError,
)
from kit.graph.dtypes import Array
from kit.graph.node import Node
from kit.graph.node import to_plain as nodes_to_plain
from kit.graph.ops.state.function import function_of
from kit.graph.subgraph import tokens_in
from kit.session.client.cancelling import CLOSED, Cancellation, current_cancellation
from kit.session.client.connection import Connection
from kit.session.client.feeds_on_tasks import LazyFeeds, split_feeds
from kit.session.client.options import SessionOptions
from kit.session.master.devices import Device
from kit.session.master.plan import RunSignature
from kit.session.transport.message import (
    Act,
    Message,
    ask,
    begin_lending,
    good,
    recv,
    send,
)
from kit.session.transport.peers import Peers
from kit.session.worker.step import Records
from kit.task import Task
from kit.wire.link import Link

# The answer that a deadline has passed comes a little after that deadline.
_GRACE_S = 5.0
_CLOSE_S = 2.0
_TARGET = Task("target", 0)  # the only task that these `Peers` can reach
_CANCELLED = "the run was cancelled."


class Remote(Connection):
    """A session at a master that is reached by `dial`, at the first question.

    Each thread has its own link while it runs something.
    """

    def __init__(
        self,
        name: str,
        dial: Callable[[float], Link],
        options: SessionOptions,
        late: LazyFeeds | None = None,
    ) -> None:
        """`name` is what the master is called in messages."""
        self._options, self.late = options, late
        self._peers = Peers(lambda _, deadline_s: dial(deadline_s), name=name)
        self._number = 0
        self._creating = threading.Lock()
        self._is_closed = False
        self._running = 0
        self._quiet = threading.Condition()

    def extend(self, version: int, nodes: Sequence[Node], deadline_s: float) -> int:
        """See `Connection`."""
        _carry_functions(nodes)
        plain, arrays = nodes_to_plain(nodes)
        meta = {"op": "extend", "version": version, "nodes": plain}
        return int(self._ask(meta, deadline_s, arrays).meta["version"])

    def prepare(self, kind: RunSignature, deadline_s: float) -> int:
        """See `Connection`."""
        meta = {"op": "prepare", "deadline_s": deadline_s, **kind._asdict()}
        return int(self._ask(meta, deadline_s + _GRACE_S).meta["plan"])

    def run(
        self, plan: int, feeds: Sequence[Array], deadline_s: float, traced: bool
    ) -> tuple[list[Any], Records | None]:
        """See `Connection`."""
        arrays, meta = split_feeds(feeds)
        if traced:
            meta = {**meta, "traced": True}

        def exchange(link: Link) -> Message:
            begin_lending(link, arrays, deadline_s)
            send(
                link,
                Act.RUN,
                deadline_s=deadline_s + _GRACE_S,
                number=plan,
                step=self._number,
                limit_s=deadline_s,
                meta=meta,
                arrays=arrays,
            )
            answer = recv(link, deadline_s + _GRACE_S)
            try:  # what was large once is likely to be so again
                begin_lending(link, answer.arrays, deadline_s)
            except KitError:
                link.close()  # in the middle of that question, but the answer is here
            return answer

        cancellation = current_cancellation()
        asked = exchange if cancellation is None else _ended_by(cancellation, exchange)
        answer = self._exchange(asked, deadline_s)
        if not traced:
            return answer.arrays, None
        nodes, moves = answer.meta.get("nodes", ()), answer.meta.get("moves", ())
        records = Records(
            [tuple(node) for node in nodes], [tuple(move) for move in moves]
        )
        return answer.arrays, records

    def devices(self, deadline_s: float) -> list[tuple[Device, int]]:
        """See `Connection`."""
        meta = {"op": "devices", "deadline_s": deadline_s}
        answer = self._ask(meta, deadline_s + _GRACE_S)
        return [
            (Device(Task.parse(task), kind, index), incarnation)
            for task, kind, index, incarnation in answer.meta["devices"]
        ]

    def waits(self, deadline_s: float) -> list[str]:
        """See `Connection`."""
        return [
            str(line) for line in self._ask({"op": "waits"}, deadline_s).meta["waits"]
        ]

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """See `Connection`."""
        meta = {"op": "cluster_reset", "names": list(containers)}
        self._plainly({**meta, "deadline_s": deadline_s}, deadline_s + _GRACE_S)

    def close(self) -> None:
        """See `Connection`."""
        self._is_closed = True
        with suppress(KitError):
            if self.late is not None:
                self.late.close()
        with suppress(KitError):  # if the target is gone, so is the session
            if self._number:
                self._plainly({"op": "close", "session": self._number}, _CLOSE_S)
        with self._quiet:  # runs under way get their CancelledError first
            self._quiet.wait_for(lambda: not self._running, _CLOSE_S)
        self._peers.close()

    def _ask(
        self, meta: dict[str, Any], deadline_s: float, arrays: Sequence[Array] = ()
    ) -> Message:
        def exchange(link: Link) -> Message:
            return ask(link, {**meta, "session": self._number}, deadline_s, arrays)

        return self._exchange(exchange, deadline_s)

    def _plainly(self, meta: dict[str, Any], deadline_s: float) -> Message:
        """Ask something that is not part of the session."""
        return self._peers.ask(_TARGET, meta, deadline_s)

    def _exchange(
        self, exchange: Callable[[Link], Message], deadline_s: float
    ) -> Message:
        with self._quiet:
            self._running += 1
        try:
            return good(self._answer(exchange, deadline_s))
        finally:
            with self._quiet:
                self._running -= 1
                self._quiet.notify_all()

    def _answer(
        self, exchange: Callable[[Link], Message], deadline_s: float
    ) -> Message:
        try:
            with self._peers.lent(_TARGET, deadline_s) as link:
                if not self._number:
                    self._create(link, deadline_s)
                return exchange(link)
        except (UnavailableError, DeadlineExceededError) as error:
            # All that is seen here is the end of a link. What this side did may explain
            # it, so that is checked before what the other side may have done.
            if self._is_closed:
                raise CancelledError(CLOSED) from error
            cancellation = current_cancellation()
            if cancellation is not None and cancellation.is_cancelled:
                raise CancelledError(_CANCELLED) from error
            if isinstance(error.__cause__, LinkLost) and error.task is not None:
                raise _lost(error) from error
            if isinstance(error, DeadlineExceededError):
                raise _silent(error, deadline_s) from error
            raise

    def _create(self, link: Link, deadline_s: float) -> None:
        # Threads whose first runs meet here must not make a session each.
        with self._creating:
            if not self._number:
                meta = {"op": "create", "options": self._options.to_plain()}
                answer = good(ask(link, meta, deadline_s))
                self._number = int(answer.meta["session"])
                if self._is_closed:  # since: `close` found no number to end
                    ask(link, {"op": "close", "session": self._number}, _CLOSE_S)
                    raise CancelledError(CLOSED)


def _ended_by(
    cancellation: Cancellation, exchange: Callable[[Link], Message]
) -> Callable[[Link], Message]:
    """Return an exchange whose link a cancellation closes: then the master aborts."""

    def ended(link: Link) -> Message:
        with cancellation.during(link.close):
            return exchange(link)

    return ended


def _lost(error: KitError) -> PeerLost:
    return PeerLost(
        f"the session's target failed during a run: {error.message} Its variables are "
        f"lost with it; start it again and make a new session.",
        task=error.task,
    )


def _silent(error: DeadlineExceededError, deadline_s: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the session's target did not answer within {deadline_s:g} s: {error.message}",
        task=error.task,
    )


# --------------------------------------------------------------------------------------
# Python functions on their way to other processes.
#
# A graph travels as plain data over links, which never carry code. A client that has a
# channel which may carry code registers it here. Functions are then sent ahead of the
# ops that call them.


# Takes functions by token to all processes that may have to call them.
Carrier: TypeAlias = Callable[[Mapping[str, Callable[..., Any]]], None]

_carry: Carrier | None = None


def set_function_carrier(carry: Carrier | None) -> None:
    """Set what carries functions from now on; None: nothing does."""
    global _carry  # the layer above registers itself here
    _carry = carry


def _carry_functions(nodes: Iterable[Node]) -> None:
    tokens = [token for node in nodes for token in tokens_in(node.attrs)]
    functions_of = {token: function_of(token) for token in tokens}
    functions = {
        token: function
        for token, function in functions_of.items()
        if function is not None
    }
    if functions and _carry is not None:
        _carry(functions)
