"""Give operations to the compiled loop `hops.c`, if it was built and memory is shared.

With more tasks than cores, a hop of a ring takes ten microseconds this way and thirty
in the interpreter, whose data are no longer in the cache. The loop does what
`kit.exchange.execution.python_executor` does, to the same bits, messages and records.
It returns to Python for updates other than gradient descent, and when a wait lasts:
sleeping and giving up are left to Python.

`pip install` builds it where there is a C compiler; `KIT_NATIVE=0` leaves it out.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise, zip_longest
from struct import Struct

import numpy as np

from kit.exchange.execution.bound_operations import (
    BoundCopy,
    BoundOp,
    BoundUpdate,
    Descend,
    Post,
    Sum,
    Take,
)
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, address
from kit.exchange.ports.shared_port import SharedPort
from kit.native import library
from kit.trace.log import rows
from kit.trace.traffic import SPAN, TRANSFER, Meter, Phase

# How long a wait yields before it sleeps, where each task has a core and where they
# share them. Longer than in Python: the loop runs without the interpreter's lock, so it
# keeps no other thread of its process waiting. Waking up costs 50 us and more.
_PATIENCE_NS, _PATIENCE_SHARING_NS = 1_000_000, 300_000
# As in hops.c. The form is compared with the library's: one that was built from older
# source would read our tables wrongly, and is not used.
FORM = 5
_POST, _TAKE, _MOVE, _SUM_32, _SUM_64, _DESCEND_32, _DESCEND_64 = range(7)
_OP, _ADDRESSES = Struct("7q2d"), slice(4, 7)
_LAST, _WAITS, _COUNTS, _JOINED = 1, 2, 4, 8
_MOST_JOINED = 16
_CHANGES, _STAYS = Struct("8q"), Struct("5q")  # the two parts of the state
_SUMS = {np.dtype(np.float32): _SUM_32, np.dtype(np.float64): _SUM_64}
_DESCENTS = {np.dtype(np.float32): _DESCEND_32, np.dtype(np.float64): _DESCEND_64}

Loop = Callable[[int], None]
Account = tuple[list[int], int, int]


@cache
def loop() -> Loop | None:
    """Return the compiled loop; None where none fits this source and machine."""
    compiled = library("kit.exchange.execution._hops", FORM)
    if compiled is None:
        return None
    compiled.kit_run.argtypes, compiled.kit_run.restype = [ctypes.c_void_p], None
    run: Loop = compiled.kit_run
    return run


def suit(ops: Iterable[BoundOp], endpoint: Endpoint) -> bool:
    """Whether the compiled loop was built and can carry out these operations.

    It can if memory is shared or threads carry it, links are not shaped, the clock is
    the machine's (the loop reads no other), and numbers have 32 or 64 bits.
    """
    return (
        endpoint.native
        and endpoint.clock is time.monotonic_ns
        and endpoint.line_in is None
        and all(map(_suits, ops))
        and loop() is not None
    )


class NativeExecutor:
    """Some operations of one member, in order; the only update is gradient descent."""

    def __init__(
        self, ops: Sequence[BoundOp], endpoint: Endpoint, meter: Meter
    ) -> None:
        """Make the tables.

        They hold bare addresses, which keep nothing alive: `_ops` and `_ports` keep the
        arrays and words that they point to.
        """
        run = loop()
        assert run is not None
        ops = gathered(ops)
        self._loop, self._ops = run, ops
        self._endpoint, self._meter = endpoint, meter
        self._ports = list(dict.fromkeys(port for op in ops for port in _port(op)))
        self._takes = [op for op in ops if isinstance(op, Take) and op.due.range.size]
        self._known, self._account = (-1, -1), list[Account]()
        last = [op.phase != two.phase for op, two in pairwise(ops)] + [True]
        flags = [
            _LAST * item | _JOINED * two
            for item, two in zip(last, joins(ops, _MOST_JOINED), strict=True)
        ]
        # A row for each span and message, filled in with all that is the same in each
        # step; the loop writes step and times into them, and Python hands the bytes to
        # the log as they are. No row is made in a step.
        phases = [op.phase for op, ends in zip(ops, last, strict=True) if ends]
        self._spans = rows(SPAN, [(meter.task, phase, 0, 0, 0) for phase in phases])
        self._transfers = rows(
            TRANSFER,
            [
                (op.port.peer, meter.task, op.kind, 0, 0, op.due.range.size, 0, 0)
                for op in self._takes
            ],
        )
        self._span_bytes = self._spans.view(np.uint8).data
        self._transfer_bytes = self._transfers.view(np.uint8).data
        pairs = zip(ops, flags, strict=True)
        table = b"".join(_OP.pack(*self._row(op, flag)) for op, flag in pairs)
        self._table = np.frombuffer(bytearray(table), np.uint8)
        self._lent = list[tuple[Array, Array]]()
        self._words = np.array([_words(port) for port in self._ports], np.int64)
        self._state = np.zeros(_CHANGES.size + _STAYS.size, np.uint8).data
        patience = _PATIENCE_NS if endpoint.spins else _PATIENCE_SHARING_NS
        waits = endpoint.spins, patience
        tables = address(self._table), address(self._words)
        _STAYS.pack_into(self._state, _CHANGES.size, len(ops), *waits, *tables)
        logs, state = (self._spans, self._transfers), self._state
        self._places = *map(address, logs), address(state)

    def lend(self, arrays: Sequence[tuple[Array, Array]]) -> None:
        """Let the next runs use arrays of others, each in place of one of ours.

        Nothing keeps them alive: lend again before each run.
        """
        words = self._table.view(np.int64)
        if not self._lent:
            columns = words.reshape(len(self._ops), -1)[:, _ADDRESSES]
            self._lent = [_within(columns, own) for own, _ in arrays]
        for (places, offsets), (_, theirs) in zip(self._lent, arrays, strict=True):
            words[places] = offsets + address(theirs)

    def run(self, begun: int) -> tuple[int, int]:
        """Do them all; returns when they were done, and how long they waited (ns).

        `begun` is when what came before was done. Raises what `Endpoint.take` raises.
        """
        stamp = self._endpoint.stamp
        spans, transfers, where = self._places
        state, loop, n = self._state, self._loop, len(self._ops)
        says = stamp.step, stamp.halt, stamp.epoch
        now = (*says, begun, 0, spans, transfers, 0)
        _CHANGES.pack_into(state, 0, *now)
        try:
            loop(where)
            # Short of the end: the message at `place` did not come within the loop's
            # patience, or is not the one that is due. Python sleeps for it and compares
            # it, and the loop goes on where it stopped.
            while (index := _CHANGES.unpack_from(state)[-1]) < n:
                self._await(self._ops[index])
                loop(where)
        finally:
            # Also when a wait has failed: what was done until then is recorded.
            _, halt, _, begun, waited, span, transfer, _ = _CHANGES.unpack_from(state)
            if halt < stamp.halt:
                stamp.halt = halt
            self._record(span - spans, transfer - transfers)
        return begun, waited

    def _record(self, span_bytes: int, transfer_bytes: int) -> None:
        """Record the rows that were written: all of them, unless a wait has failed."""
        meter, epoch = self._meter, self._endpoint.stamp.epoch
        # What is added to the meter's totals is the same in each step of an epoch. It
        # is found anew with each epoch, and after a failed wait, when fewer messages
        # have come.
        settings = transfer_bytes // TRANSFER.itemsize, epoch
        if settings != self._known:
            self._known, self._transfers["epoch"] = settings, epoch
            self._account = _account(self._takes[: settings[0]], meter, epoch)
        for total, n_bytes, n_messages in self._account:
            total[0] += n_bytes
            total[1] += n_messages
        if meter.trace:
            meter.spans.extend_packed(self._span_bytes[:span_bytes])
            meter.transfers.extend_packed(self._transfer_bytes[:transfer_bytes])

    def _await(self, op: BoundOp) -> None:
        """Wait for a message; raise `ProtocolError` if it is not what is due."""
        assert isinstance(op, Take)
        (port,) = _port(op)
        self._endpoint.until_arrived(port)
        arrival = port.next()
        if arrival[4:] != (op.due.region, *op.due.range):
            raise self._endpoint.refusal(port, arrival, op.due)

    def _number(self, op: BoundOp) -> int:
        """Return the place of an operation's port in the table of ports."""
        (port,) = _port(op)
        return self._ports.index(port)

    def _row(self, op: BoundOp, flags: int) -> tuple[float, ...]:
        """Return an operation as hops.c reads it."""
        flags |= _WAITS * (op.phase == Phase.WAIT)
        match op:
            case Post(_, region, part):
                return _POST, flags, self._number(op), 0, region, *part, 0, 0
            case Take(_, _, due):
                flags |= _COUNTS * bool(due.range.size)
                words = due.region, *due.range
                return _TAKE, flags, self._number(op), 0, *words, 0, 0
            case BoundCopy(out, source):
                places = address(out), address(source), 0
                return _MOVE, flags, 0, out.nbytes, *places, 0, 0
            case Sum(out, a, b):
                places = address(out), address(a), address(b)
                return _SUMS[out.dtype], flags, 0, out.nbytes, *places, 0, 0
            case Descend(_, out, now, total, weight, rate):
                places = address(out), address(now), address(total)
                return _DESCENTS[out.dtype], flags, 0, out.nbytes, *places, weight, rate
            case BoundUpdate():
                raise TypeError("this update is not for the compiled loop.")


def _suits(op: BoundOp) -> bool:
    match op:
        case Post(port) | Take(port):
            return isinstance(port, SharedPort) and port.line_out is None
        case Sum(out):
            return out.dtype in _SUMS and op.combine is np.add
        case Descend(_, out):
            return out.dtype in _SUMS
        case BoundCopy() | BoundUpdate():
            return True


def _port(op: BoundOp) -> tuple[SharedPort, ...]:
    """Return the port that an operation uses, if it uses one."""
    match op:
        case Post(SharedPort() as port) | Take(SharedPort() as port):
            return (port,)
    return ()


def _words(port: SharedPort) -> tuple[int, ...]:
    return *map(address, port.words()), port.mask


def _within(columns: Array, own: Array) -> tuple[Array, Array]:
    """Return which words of a table are addresses in an array, and how far in it."""
    low = address(own)
    rows, at = np.nonzero((columns >= low) & (columns < low + own.nbytes))
    places = rows * (_OP.size // 8) + _ADDRESSES.start + at
    return places, columns[rows, at] - low


def _account(takes: Iterable[Take], meter: Meter, epoch: int) -> list[Account]:
    """Return totals of the meter, and the bytes and messages to add to each."""
    sums_by_peer: dict[tuple[int, int], list[int]] = {}
    for take in takes:
        sums = sums_by_peer.setdefault((take.port.peer, take.kind), [0, 0])
        sums[0] += take.due.range.size  # the loop has compared it with what came
        sums[1] += 1
    return [
        (meter.total(source, kind, epoch), n_bytes, n_messages)
        for (source, kind), (n_bytes, n_messages) in sums_by_peer.items()
    ]


# --------------------------------------------------------------------------------------
# Which operations of a member may be done together, piece by piece.
#
# A mesh's owner adds, updates and hands out the same range, one operation after the
# other. Done for 16 KiB at a time instead of half a mebibyte, each finds in the nearest
# cache what the one before left there, and the result is the same: no element depends
# on one in another place. The times of each operation are kept apart.


def gathered(ops: Iterable[BoundOp]) -> list[BoundOp]:
    """Bring together operations on ranges of one size; posts between them come after.

    A post may only be delayed, never moved forward, so what it announces is complete.
    No wait is passed over: other members wait longer by the work in between, no more.
    """
    done: list[BoundOp] = []
    posts: list[BoundOp] = []
    size = 0
    for op in ops:
        if isinstance(op, Post):
            posts.append(op)
            continue
        n_bytes = sum(array.nbytes for array in _arrays(op)[:1])
        if not n_bytes or n_bytes != size:
            done += posts
            posts = []
        size = n_bytes
        done.append(op)
    return done + posts


def joins(ops: Sequence[BoundOp], most: int) -> list[bool]:
    """Return for each operation whether it and the next may be done piece by piece.

    At most `most` in a row.
    """
    result: list[bool] = []
    group: list[BoundOp] = []
    for op, two in zip_longest(ops, ops[1:]):
        group = [*group, op] if result and result[-1] else [op]
        fits = two is not None and len(group) < most
        result.append(fits and all(_are_alike(first, two) for first in group))
    return result


def _arrays(op: BoundOp) -> tuple[Array, ...]:
    """Return what an operation writes, and then what it reads."""
    match op:
        case BoundCopy(out, source):
            return out, source
        case Sum(out, a, b):
            return out, a, b
        case Descend(_, out, now, total):
            return out, now, total
    return ()


def _are_alike(first: BoundOp, two: BoundOp) -> bool:
    """Whether two operations may be interleaved piece by piece.

    What one writes must be the very range that the other uses, or not overlap it. If it
    is shifted, a piece would read elements that its turn has not reached yet.
    """
    mine, theirs = _arrays(first), _arrays(two)
    if not mine or not theirs or mine[0].nbytes != theirs[0].nbytes:
        return False
    pairs = [(mine[0], array) for array in theirs]
    pairs += [(array, theirs[0]) for array in mine]
    return all(address(a) == address(b) or not np.shares_memory(a, b) for a, b in pairs)
