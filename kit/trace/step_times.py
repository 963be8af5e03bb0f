"""Where the time of the newest steps went: on their critical path, and by worker.

Pure. `window_of` chooses whole steps of one configuration, `StepTimes` takes them
apart. `kit.trace.bottleneck` says what the times mean.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kit.trace.critical_path import UNKNOWN, CriticalPath, Hop, Walker
from kit.trace.log import Rows
from kit.trace.traffic import Phase
from kit.wire.shaping import LinkSettings

if TYPE_CHECKING:
    from kit.trace.named_rows import EpochRow
    from kit.trace.trace import Floats, Trace

LEAST_STEPS = 3
_MOST_ROWS, _LOOKED_AT = 10_000, 50_000
_SMALL = 32_768  # bytes; a smaller message is there with its first byte
_TINY = 0.005  # of a step; a shorter wait is not counted as one
_BUSY = 0.6  # of the time: the load of a server from which others often wait for it


@dataclass(frozen=True)
class StepWindow:
    """The rows of the steps from `first` to `last`, all of one epoch.

    `steps` also has those of the step before, at whose end the first one begins.
    """

    epoch: EpochRow
    first: int
    last: int
    steps: Rows
    spans: Rows
    transfers: Rows


def window_of(trace: Trace, most_steps: int) -> StepWindow | None:
    """Return the newest steps that all tasks have reported whole; None if too few.

    At most `most_steps`, and fewer if they have many spans. If there is only one step
    of the newest configuration, steps of the one before.
    """
    if not trace.epochs:
        return None
    steps = trace.steps[-_LOOKED_AT:]
    epoch, *before = sorted(trace.epochs, reverse=True)[:2]
    done = steps["step"][steps["epoch"] == epoch.number]
    if before and len(done) and done.min() == done.max():
        # A single step says nothing: it is the one that ends a training whose workers
        # did not agree.
        epoch = before[0]
    steps = steps[steps["epoch"] == epoch.number]
    if not len(steps):
        return None
    steps = steps[steps["step"] > int(steps["step"].max()) - most_steps]
    spans, transfers = trace.spans[-_LOOKED_AT:], trace.transfers[-_LOOKED_AT:]
    transfers = transfers[transfers["epoch"] == epoch.number]
    mine = [steps["step"][steps["task"] == task] for task in np.unique(steps["task"])]
    # Without the first step of a configuration, which binds the plan and is longer.
    first = max(trace.kept.details, epoch.first_step + 1, *(int(n.min()) for n in mine))
    if len(spans) == _LOOKED_AT:  # the oldest step may have been cut
        first = max(first, int(spans["step"].min()) + 1)
    last = min(int(n.max()) for n in mine)
    inside = spans[(spans["step"] >= first) & (spans["step"] <= last)]
    if len(inside) > _MOST_ROWS:
        last_rows = np.sort(inside["step"])[-_MOST_ROWS:]
        first = int(last_rows[0]) + 1
    if last - first + 1 < LEAST_STEPS:
        return None

    def within(table: Rows) -> Rows:
        return table[(table["step"] >= first) & (table["step"] <= last)]

    begun = steps[(steps["step"] >= first - 1) & (steps["step"] <= last)]
    return StepWindow(epoch, first, last, begun, within(inside), within(transfers))


# --------------------------------------------------------------------------------------
# Where the time of these steps went.


class Hops(NamedTuple):
    """Nanoseconds of messages on the path, by their link.

    `bandwidth` is for their bytes, `latency` for each message whatever its size. `late`
    is the time of some messages beyond twice that of the fastest one of their link and
    size: they had come, and their receiver had no core to notice it.
    """

    bandwidth: Counter[tuple[int, int]]
    latency: Counter[tuple[int, int]]
    late: int


class StepTimes:
    """The time of a window of steps: on the critical path, and by worker."""

    def __init__(self, trace: Trace, window: StepWindow) -> None:
        self.names, self.window = trace.names, window
        self.n_steps = window.last - window.first + 1
        works = window.steps["examples"] > 0
        self.workers = np.unique(window.steps["task"][works]).tolist()
        self.link = LinkSettings.parse(window.epoch.link)
        self.path, self.total = CriticalPath(), 0
        if not len(window.spans):
            return
        if window.epoch.is_asynchronous:
            self._add_updates(window.steps[works])
        else:
            self._walk(_stretches(window.steps[works], window.first))
            self._add_validation(trace, window.steps[works])

    def _add_validation(self, trace: Trace, steps: Rows) -> None:
        """Add the time in which all have met while the first worker validates.

        With a hook that may ask for the end no worker begins a step meanwhile, which
        looks as a pause does.
        """
        names = trace.measures["name"].astype(str)
        measured = {*trace.measures["step"][np.char.startswith(names, "validation_")]}
        ends, starts = dict[int, int](), dict[int, int]()
        for step, start, end in steps[["step", "start", "end"]].tolist():
            ends[step] = max(end, ends.get(step, 0))
            starts[step] = min(start, starts.get(step, start))
        gaps = [starts.get(step + 1, 0) - ends[step] for step in measured & ends.keys()]
        between = sum(gap for gap in gaps if gap > 0)
        self.total += between
        self.path.spent[self.workers[0], UNKNOWN] += between

    def _walk(self, stretches: list[tuple[int, int, int]]) -> None:
        window = self.window
        self.total = sum(end - begin for _, begin, end in stretches)
        walker = Walker(
            len(self.names),
            window.spans,
            window.transfers,
            least_ns=int(_TINY * self.total / self.n_steps),
            shaped=self.link.is_shaped,
        )
        for task, begin, end in stretches:
            walker.walk(self.path, task, end, begin)

    def _add_updates(self, steps: Rows) -> None:
        """Add up all workers' updates in asynchronous steps, which have no common path.

        A worker waits for its payloads, as long as the shaped link says, and otherwise
        for a server that is busy with others.
        """
        spent, window, table = self.path.spent, self.window, self.window.transfers
        self.n_steps = len(steps)
        self.total = int((steps["end"] - steps["start"]).sum())
        for phase in (Phase.LOAD, Phase.COMPUTE, Phase.QUEUE):
            for worker, ns in zip(self.workers, self.own(phase).sum(0), strict=True):
                spent[worker, phase] += int(ns)
        moving = 0
        for row in table.tolist() if self.link.is_shaped else ():
            source, target, _, _, _, n_bytes, start, end = row
            self.path.hops.append(Hop(source, target, n_bytes, end - start))
            moving += end - start
        # What is left is waiting for a server. It is the server's if that is busy most
        # of the time, else it is the waiting itself: noticing answers.
        rest = max(0, self.total - sum(spent.values()) - moving)
        serves = np.isin(
            window.spans["phase"], (Phase.SEND, Phase.RECEIVE, Phase.APPLY)
        )
        serving = window.spans[serves & ~np.isin(window.spans["task"], self.workers)]
        busy = int((serving["end"] - serving["start"]).sum())
        elapsed = int(steps["end"].max() - steps["start"].min())
        for server in np.unique(serving["task"]).tolist():
            spent[server, Phase.APPLY] += rest if busy > _BUSY * elapsed else 0
            rest = 0 if busy > _BUSY * elapsed else rest
        spent[self.workers[0], Phase.WAIT] += rest

    def ms(self, ns: float) -> float:
        """Return nanoseconds of all steps as milliseconds of one."""
        return ns / self.n_steps / 1e6

    def own(self, *phases: int) -> Floats:
        """Return the nanoseconds that each worker spent in phases: (steps, workers)."""
        spans, size = self.window.spans, len(self.workers)
        table = np.zeros((self.n_steps, size))
        chosen = np.isin(spans["phase"], phases) & np.isin(spans["task"], self.workers)
        spans = spans[chosen]
        column = np.searchsorted(self.workers, spans["task"])
        lengths = spans["end"] - spans["start"]
        np.add.at(table, (spans["step"] - self.window.first, column), lengths)
        return table

    def queueing(self) -> Counter[int]:
        """Return the part of each task's computing on the path in which it had no core.

        The kernel is not asked in every short step: the share is that of the steps in
        which it was.
        """
        spans, queued_ns = self.window.spans, Counter[int]()
        queues = spans[spans["phase"] == Phase.QUEUE]
        computes = spans[spans["phase"] == Phase.COMPUTE]
        on_path = self.path.of(Phase.COMPUTE, Phase.QUEUE)
        for task, ns in on_path.items():
            asked = queues[queues["task"] == task]
            mine = computes[computes["task"] == task]
            mine = mine[np.isin(mine["step"], asked["step"])]
            queued = int((asked["end"] - asked["start"]).sum())
            whole = queued + int((mine["end"] - mine["start"]).sum())
            queued_ns[task] = round(ns * queued / whole) if whole else 0
        return queued_ns

    def is_slow_alone(self, task: int, other: int) -> bool:
        """Whether payloads between two tasks take far longer than those of others.

        At least three times as many nanoseconds per byte, over all transfers.
        """
        table = self.window.transfers
        ends = np.sort(np.stack([table["source"], table["destination"]]), axis=0)
        is_theirs = (ends[0] == min(task, other)) & (ends[1] == max(task, other))
        if is_theirs.all():
            return True

        def pace(rows: Rows) -> float:
            n_bytes = max(1, int(rows["bytes"].sum()))
            return float((rows["end"] - rows["start"]).sum()) / n_bytes

        return pace(table[is_theirs]) > 3 * pace(table[~is_theirs])

    def hops(self) -> Hops:
        """Return the time of the path's messages, by link and by what it is due to."""
        bandwidth, latency = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        late, delay = 0, self.link.latency + self.link.jitter / 2
        least: dict[tuple[int, int, int], int] = {}
        for source, target, n_bytes, ns in self.path.hops:
            key = source, target, n_bytes
            least[key] = min(ns, least.get(key, ns))
        for source, target, n_bytes, ns in self.path.hops:
            if self.link.is_shaped:
                real, fixed = ns, round(1e9 * delay)
            else:
                # The fastest message of its kind shows what the link takes. What is far
                # beyond is the receiver's lateness: it is no slower on the link.
                real = min(ns, 2 * least[source, target, n_bytes])
                fixed = real if n_bytes < _SMALL else 0
            latency[source, target] += min(real, fixed)
            bandwidth[source, target] += real - min(real, fixed)
            late += ns - real
        return Hops(bandwidth, latency, late)


def _stretches(steps: Rows, first_step: int) -> list[tuple[int, int, int]]:
    """Return (last worker, begin, end) of stretches of time in which steps go on.

    Between two of them no worker is in a step: the training paused, or saved. The first
    begins at the end of the step before, if a worker had begun by then.
    """
    order = np.lexsort((steps["end"], steps["step"]))
    stretches: list[tuple[int, int, int]] = []
    numbers, first = np.unique(steps["step"][order], return_index=True)
    edges = [*first.tolist(), len(order)]
    for index in range(len(numbers)):
        rows = steps[order[edges[index] : edges[index + 1]]]
        begin, end, task = int(rows["start"].min()), int(rows["end"][-1]), rows["task"]
        # Steps that overlap or touch make one stretch, which ends with its last worker.
        if stretches and begin <= stretches[-1][2]:
            begin, end = stretches[-1][1], max(end, stretches[-1][2])
            stretches.pop()
        if numbers[index] < first_step:
            begin = end
        stretches.append((int(task[-1]), begin, end))
    return stretches
