"""Give acts to the compiled loop `hops.c`, where it was built and all memory is shared.

With more tasks than cores a hop of a ring costs ten microseconds so, where it costs the
interpreter thirty, whose data are no longer in the cache. The loop does what
`kit.exchange.execution.python_executor` does, to the same bits, messages and records.
It is left for updates other than gradient descent, and for a wait that lasts: to sleep
and to give up are Python's.

`pip install` builds it where there is a C compiler; `KIT_NATIVE=0` leaves it out.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise, zip_longest
from struct import Struct
from typing import Any

import numpy as np

from kit.exchange.execution.bound_operations import (
    Act,
    CopyAct,
    Descend,
    Post,
    Sum,
    Take,
    UpdateAct,
)
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array
from kit.exchange.ports.shared_port import SharedPort
from kit.native import library
from kit.trace.log import rows
from kit.trace.traffic import SPAN, TRANSFER, Meter, Phase

# How long a wait yields before it sleeps, where each task has a core and where they
# share them: longer than Python's, which keeps the other threads of its process from
# the interpreter meanwhile. Waking up costs 50 us and more.
_PATIENCE_NS, _PATIENCE_SHARING_NS = 1_000_000, 300_000
# As in hops.c.
_FORM = 3
_POST, _TAKE, _MOVE, _SUM_32, _SUM_64, _DESCEND_32, _DESCEND_64 = range(7)
_ACT = Struct("7q2d")
_LAST, _WAITS, _COUNTS, _JOINED = 1, 2, 4, 8
_MOST_JOINED = 16
_CHANGES, _STAYS = Struct("7q"), Struct("5q")  # the two parts of the state
_SUMS = {np.dtype(np.float32): _SUM_32, np.dtype(np.float64): _SUM_64}
_DESCENTS = {np.dtype(np.float32): _DESCEND_32, np.dtype(np.float64): _DESCEND_64}

Loop = Callable[[int], None]
Account = tuple[list[int], int, int]


@cache
def loop() -> Loop | None:
    """Return the compiled loop; None where none fits this source and machine."""
    found = library("kit.exchange.execution._hops", _FORM)
    if found is None:
        return None
    found.kit_run.argtypes, found.kit_run.restype = [ctypes.c_void_p], None
    run: Loop = found.kit_run
    return run


def suit(acts: Iterable[Act], endpoint: Endpoint) -> bool:
    """Whether the compiled loop is there and can carry out these acts.

    It can where all memory is shared, links have no speed of their own, the clock is
    the machine's, and numbers are of 32 or 64 bits.
    """
    return (
        endpoint.native
        and endpoint.clock is time.monotonic_ns
        and endpoint.line_in is None
        and all(map(_suits, acts))
        and loop() is not None
    )


class NativeExecutor:
    """Some acts of one member, in their order, with no update but gradient descent."""

    def __init__(self, acts: Sequence[Act], endpoint: Endpoint, meter: Meter) -> None:
        """Make the tables. They hold addresses, so what lies there is kept as well."""
        run = loop()
        assert run is not None
        acts = gathered(acts)
        self._loop, self._acts = run, acts
        self._endpoint, self._meter = endpoint, meter
        self._ports = list(dict.fromkeys(port for act in acts for port in _port(act)))
        self._takes = [act for act in acts if isinstance(act, Take) and act.size]
        self._known, self._account = (-1, -1), list[Account]()
        last = [one.phase != two.phase for one, two in pairwise(acts)] + [True]
        flags = [
            _LAST * one | _JOINED * two
            for one, two in zip(last, joins(acts, _MOST_JOINED), strict=True)
        ]
        phases = [act.phase for act, ends in zip(acts, last, strict=True) if ends]
        self._spans = rows(SPAN, [(meter.task, phase, 0, 0, 0) for phase in phases])
        self._transfers = rows(
            TRANSFER,
            [
                (act.port.peer, meter.task, act.kind, 0, 0, act.size, 0, 0)
                for act in self._takes
            ],
        )
        self._span_bytes = self._spans.view(np.uint8).data
        self._transfer_bytes = self._transfers.view(np.uint8).data
        pairs = zip(acts, flags, strict=True)
        table = b"".join(_ACT.pack(*self._row(act, flag)) for act, flag in pairs)
        self._table = np.frombuffer(table, np.uint8)
        self._words = np.array([_words(port) for port in self._ports], np.int64)
        self._state = np.zeros(_CHANGES.size + _STAYS.size, np.uint8).data
        patience = _PATIENCE_NS if endpoint.spins else _PATIENCE_SHARING_NS
        waits = endpoint.spins, patience
        tables = address(self._table), address(self._words)
        _STAYS.pack_into(self._state, _CHANGES.size, len(acts), *waits, *tables)
        logs, state = (self._spans, self._transfers), self._state
        self._places = *map(address, logs), address(state)

    def run(self, begun: int) -> tuple[int, int]:
        """Do them all; returns when that was done, and how long they waited (ns).

        `begun` is when whatever came before was done. Raises what `Endpoint.take` does.
        """
        endpoint, stamp = self._endpoint, self._endpoint.stamp
        spans, transfers, where = self._places
        state, loop, n = self._state, self._loop, len(self._acts)
        now = (stamp.step, stamp.halt, begun, 0, spans, transfers, 0)
        _CHANGES.pack_into(state, 0, *now)
        try:
            loop(where)
            while (place := _CHANGES.unpack_from(state)[-1]) < n:
                endpoint.until_arrived(*_port(self._acts[place]))
                loop(where)
        finally:
            _, halt, begun, waited, span, transfer, _ = _CHANGES.unpack_from(state)
            if halt < stamp.halt:
                stamp.halt = halt
            self._record(span - spans, transfer - transfers)
        return begun, waited

    def _record(self, span_bytes: int, transfer_bytes: int) -> None:
        """Note the rows that were written: all, unless a wait has failed."""
        meter, epoch = self._meter, self._endpoint.stamp.epoch
        known = transfer_bytes // TRANSFER.itemsize, epoch
        if known != self._known:
            self._known, self._transfers["epoch"] = known, epoch
            self._account = _account(self._takes[: known[0]], meter, epoch)
        for total, n_bytes, n_messages in self._account:
            total[0] += n_bytes
            total[1] += n_messages
        if meter.trace:
            meter.spans.extend_packed(self._span_bytes[:span_bytes])
            meter.transfers.extend_packed(self._transfer_bytes[:transfer_bytes])

    def _number(self, act: Act) -> int:
        """Return the place of an act's port in the table of ports."""
        (port,) = _port(act)
        return self._ports.index(port)

    def _row(self, act: Act, flags: int) -> tuple[float, ...]:
        """Return an act as hops.c reads it."""
        flags |= _WAITS * (act.phase == Phase.WAIT)
        match act:
            case Post():
                return _POST, flags, self._number(act), 0, 0, 0, 0, 0, 0
            case Take():
                flags |= _COUNTS * bool(act.size)
                return _TAKE, flags, self._number(act), 0, 0, 0, 0, 0, 0
            case CopyAct(out, source):
                places = address(out), address(source), 0
                return _MOVE, flags, 0, out.nbytes, *places, 0, 0
            case Sum(out, a, b):
                places = address(out), address(a), address(b)
                return _SUMS[out.dtype], flags, 0, out.nbytes, *places, 0, 0
            case Descend(_, out, now, total, weight, rate):
                places = address(out), address(now), address(total)
                return _DESCENTS[out.dtype], flags, 0, out.nbytes, *places, weight, rate
            case UpdateAct():
                raise TypeError("this update is not for the compiled loop.")


def _suits(act: Act) -> bool:
    match act:
        case Post(port) | Take(port):
            return isinstance(port, SharedPort) and port.line_out is None
        case Sum(out) | Descend(_, out):
            return out.dtype in _SUMS
        case CopyAct() | UpdateAct():
            return True


def _port(act: Act) -> tuple[SharedPort, ...]:
    """Return the port that an act uses, if it uses one."""
    match act:
        case Post(SharedPort() as port) | Take(SharedPort() as port):
            return (port,)
    return ()


def _words(port: SharedPort) -> tuple[int, ...]:
    return *map(address, port.words()), port.mask


def _account(takes: Iterable[Take], meter: Meter, epoch: int) -> list[Account]:
    """Return totals of the meter, and the bytes and messages to add to each."""
    found: dict[tuple[int, int], list[int]] = {}
    for take in takes:
        sums = found.setdefault((take.port.peer, take.kind), [0, 0])
        sums[0] += take.size
        sums[1] += 1
    return [
        (meter.total(source, kind, epoch), n_bytes, n_messages)
        for (source, kind), (n_bytes, n_messages) in found.items()
    ]


# --------------------------------------------------------------------------------------
# Which acts of a member may be done together, piece by piece.
#
# A mesh's owner adds, updates and hands out the same range, one act after the other.
# Done for 16 KiB at a time instead of half a mebibyte, each act finds in the nearest
# cache what the one before left there, and the result is the same: no element depends
# on one in another place. The times of each act are kept apart.


def gathered(acts: Iterable[Act]) -> list[Act]:
    """Bring together what works on ranges of one size: posts in between come after.

    Nobody waits for anything in between, so no member waits longer than that work
    takes, and what is posted is as complete as before.
    """
    done: list[Act] = []
    posts: list[Act] = []
    size = 0
    for act in acts:
        if isinstance(act, Post):
            posts.append(act)
            continue
        found = sum(array.nbytes for array in _arrays(act)[:1])
        if not found or found != size:
            done += posts
            posts = []
        size = found
        done.append(act)
    return done + posts


def joins(acts: Sequence[Act], most: int) -> list[bool]:
    """Tell of each act whether it and the next one may be done piece by piece.

    At most so many in a row.
    """
    found: list[bool] = []
    group: list[Act] = []
    for one, two in zip_longest(acts, acts[1:]):
        group = [*group, one] if found and found[-1] else [one]
        fits = two is not None and len(group) < most
        found.append(fits and all(_are_alike(first, two) for first in group))
    return found


def address(array: Any) -> int:
    """Return where an array lies, or the words of a memoryview."""
    if isinstance(array, memoryview):
        array = np.frombuffer(array, np.uint8)
    return int(array.__array_interface__["data"][0])


def _arrays(act: Act) -> tuple[Array, ...]:
    """Return what an act writes, and then what it reads."""
    match act:
        case CopyAct(out, source):
            return out, source
        case Sum(out, a, b):
            return out, a, b
        case Descend(_, out, now, total):
            return out, now, total
    return ()


def _are_alike(one: Act, two: Act) -> bool:
    """Whether what one act writes and the other uses is the same range, or apart."""
    mine, theirs = _arrays(one), _arrays(two)
    if not mine or not theirs or mine[0].nbytes != theirs[0].nbytes:
        return False
    pairs = [(mine[0], array) for array in theirs]
    pairs += [(array, theirs[0]) for array in mine]
    return all(address(a) == address(b) or not np.shares_memory(a, b) for a, b in pairs)
