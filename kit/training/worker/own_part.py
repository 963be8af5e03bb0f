"""Where the time of a worker's own part of a step goes: data, computing, queueing.

Where more threads want to compute than there are cores, a step takes longer although
its function does not. The kernel counts that time for each thread. It is asked for
steps at least `_LEAST_NS` apart, since that costs two system calls.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.machine import run_delay_ns
from kit.trace.traffic import Meter, Phase

_LEAST_NS = 20_000_000


class OwnPart:
    """Times one worker's own part of its steps. One thread writes, any may read.

    Attributes:
        begun: when the part under way has begun, nanoseconds; 0 between two parts.
        loaded: when it had its mini-batch; 0 until then.
        clock: gives the time in nanoseconds.
    """

    def __init__(
        self,
        meter: Meter,
        clock: Callable[[], int],
        delay: Callable[[], int | None] = run_delay_ns,
    ) -> None:
        """`delay` gives how long this thread has waited for a core so far (ns)."""
        self.begun = self.loaded = 0
        self._meter, self.clock, self._delay = meter, clock, delay
        self._due = 0  # when the kernel is to be asked again
        self._before: int | None = None

    def begin(self) -> int:
        """Begin the part of a step; returns when."""
        is_due = self._meter.trace and self.clock() >= self._due
        self._before = self._delay() if is_due else None
        self.loaded = 0
        self.begun = begun = self.clock()
        return begun

    def load(self, since: int) -> None:
        """Note that a mini-batch is here, and since when it was loaded.

        The times of several local steps' mini-batches are added.
        """
        self.loaded = (self.loaded or self.begun) + self.clock() - since

    def end(self, step: int) -> int:
        """End the part and record its spans; returns when.

        A span of queueing is recorded whenever the kernel was asked, even of no length.
        """
        begun, loaded, end = self.begun, self.loaded, self.clock()
        # 0 before the spans: another thread may ask what is done now (`doing`).
        self.begun, span = 0, self._meter.span
        computed = end
        if self._before is not None and (delay := self._delay()) is not None:
            # Queueing is put at the end: when it was, within the part, is not known.
            computed -= min(delay - self._before, end - loaded)
            self._due = end + _LEAST_NS
        span(Phase.LOAD, step, begun, loaded)
        span(Phase.COMPUTE, step, loaded, computed)
        if self._before is not None:
            span(Phase.QUEUE, step, computed, end)
        return end
