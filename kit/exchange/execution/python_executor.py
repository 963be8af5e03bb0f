"""Carry out acts in Python: each becomes one bound call.

The loop over the calls is all that happens in a step. Time is noted between the calls,
so the spans of a task tell without a gap what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from operator import attrgetter

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
from kit.trace.traffic import Meter, Phase

_WAIT = int(Phase.WAIT)  # an enum's member is slower to compare


class PythonExecutor:
    """Some acts of one member, in their order."""

    def __init__(self, acts: Iterable[Act], endpoint: Endpoint, meter: Meter) -> None:
        """Bind them; neighbours of one phase become one stretch."""
        self._endpoint, self._meter = endpoint, meter
        self._stretches = [
            (int(phase), tuple(map(self._call, group)))
            for phase, group in groupby(acts, key=attrgetter("phase"))
        ]

    def run(self, begun: int) -> tuple[int, int]:
        """Do them all; returns when that was done, and how long they waited (ns).

        `begun` is when whatever came before was done. Raises what `Endpoint.take` does.
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

    def _call(self, act: Act) -> Callable[[], object]:
        match act:
            case Post(port, region, part):
                return partial(port.post, region, part)
            case Take():
                return self._taker(act)
            case Sum(out, a, b):
                return partial(np.add, a, b, out)
            case CopyAct(out, source):
                return partial(np.copyto, out, source)
            case UpdateAct(call) | Descend(call):
                return call

    def _taker(self, act: Take) -> Callable[[], None]:
        endpoint, received = self._endpoint, self._meter.received
        take, clock, stamp = endpoint.take, endpoint.clock, endpoint.stamp
        port, kind, size = act.port, act.kind, act.size
        source = port.peer

        def receive() -> None:
            posted, usable, _, _ = take(port, size)
            if size:
                now = clock()
                end = now if now > usable else usable
                received(source, kind, stamp.epoch, stamp.step, size, posted, end)

        return receive
