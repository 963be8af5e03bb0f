"""Carry out bound operations in Python: each becomes one call without arguments.

The loop over the calls is all that happens in a step. The clock is read between phases,
and one phase begins where the last ended, so the spans of a task have no gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from operator import attrgetter

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
from kit.trace.traffic import Meter, Phase

_WAIT = int(Phase.WAIT)  # an enum's member is slower to compare


class PythonExecutor:
    """Some operations of one member, in order."""

    def __init__(
        self, ops: Iterable[BoundOp], endpoint: Endpoint, meter: Meter
    ) -> None:
        """Bind them; neighbours of one phase become one stretch, with one span."""
        self._endpoint, self._meter = endpoint, meter
        self._stretches = [
            (int(phase), tuple(map(self._call, group)))
            for phase, group in groupby(ops, key=attrgetter("phase"))
        ]

    def run(self, begun: int) -> tuple[int, int]:
        """Do them all; returns when they were done, and how long they waited (ns).

        `begun` is when what came before was done. Raises what `Endpoint.take` raises.
        """
        clock, meter = self._endpoint.clock, self._meter
        task, step = meter.task, self._endpoint.stamp.step
        spans, waited = [], 0
        for phase, calls in self._stretches:
            for call in calls:
                call()
            at = clock()
            if phase == _WAIT:
                waited += at - begun
            spans.append((task, phase, step, begun, at))
            begun = at
        if meter.trace:
            meter.spans.extend(spans)
        return begun, waited

    def _call(self, op: BoundOp) -> Callable[[], object]:
        match op:
            case Post(port, region, part):
                return partial(port.post, region, part)
            case Take():
                return self._taker(op)
            case Sum(out, a, b):
                if op.combine is np.add:
                    return partial(np.add, a, b, out)
                return partial(op.combine, a, b, out=out)  # numpy wants it by name
            case BoundCopy(out, source):
                return partial(np.copyto, out, source)
            case BoundUpdate(call) | Descend(call):
                return call

    def _taker(self, op: Take) -> Callable[[], None]:
        # All attributes are looked up here, not in each step; the stamp's are not,
        # since they change.
        endpoint, received = self._endpoint, self._meter.received
        take, clock, stamp = endpoint.take, endpoint.clock, endpoint.stamp
        port, kind, due = op.port, op.kind, op.due
        source = port.peer

        def receive() -> None:
            posted, usable, _, _, _, lo, hi = take(port, due)
            if size := hi - lo:
                now = clock()
                # On a shaped link a payload has arrived when its line has carried it,
                # by arithmetic; if we were late to take it, it arrived when we did.
                end = now if now > usable else usable
                received(source, kind, stamp.epoch, stamp.step, size, posted, end)

        return receive
