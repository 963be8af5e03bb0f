"""A training at one moment, as plain data: what the board's picture and numbers show.

Pure: it reads no clock. `rates` measures how fast bytes move now from the newest rows;
`numbers` the rest. Both look at whole steps or at a fixed stretch of time, so that two
boards on one training say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kit.trace.bottleneck import Bottleneck
from kit.trace.log import Rows
from kit.trace.trace import STEP_KINDS, Trace
from kit.training.elastic.generation import Change
from kit.wire.shaping import LinkSettings
from widgets.board.hosting import Hosting
from widgets.board.hosting import Link as Link

WINDOW_NS = 1_000_000_000  # of time, over which a rate is a mean
LATE_NS = 250_000_000  # how far one task's news may be behind another's


@dataclass(frozen=True)
class Numbers:
    """The row of numbers; None for what is not known (yet).

    `measured` and `formula` are bytes of a step over all links (of an update, when the
    training is asynchronous); `waiting` is the share of the workers' time.
    """

    step_rate: float | None = None
    measured: float | None = None
    formula: int | None = None
    waiting: float | None = None
    staleness: int | None = None


@dataclass(frozen=True)
class Moment:
    """Everything about a training at one moment that is not a curve.

    `topology` is as the epochs name it (`ps-async` when asynchronous). `rates` are
    bytes a second for each link (source, destination) that has carried anything or
    should; `scale` is the rate that fills a bar or the widest arrow, `limit` whether
    that is the speed of the links. `switching` is what is requested and does not hold
    yet; `halting` is pausing or stopping until that is so. `lost` has what was said of
    tasks that are gone, `kept` what is left of the trace of a long training, if not
    all. `hosts` has the host of each task where there are several. `bottleneck` is what
    the newest steps waited for, as it was known at most two seconds ago.

    Of an elastic training `tasks` are those whose processes take part or have done so,
    and rates are between processes; `hosting` says who hosts which member.
    """

    tasks: tuple[str, ...]
    state: str = "running"
    step: int = 0
    steps: int = 0
    topology: str = "ps"
    link: str = ""
    loss: float | None = None
    accuracy: float | None = None
    rates: Mapping[Link, float] = field(default_factory=dict)
    scale: float = 1.0
    limit: bool = False
    numbers: Numbers = field(default_factory=Numbers)
    switching: str = ""
    halting: str = ""
    refused: str = ""
    error: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)
    kept: str = ""
    hosts: tuple[str, ...] = ()
    hosting: Hosting | None = None
    bottleneck: Bottleneck | None = None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What an elastic training has lost, taken in and let go."""
        return self.hosting.generation.changes if self.hosting else ()

    def is_far(self, link: Link) -> bool:
        """Whether a link leads from one host to another."""
        return bool(self.hosts) and self.hosts[link[0]] != self.hosts[link[1]]

    def where(self, task: int) -> str:
        """Return a task's short name, with its host where there are several."""
        name = self.names[task]
        return f"{name} on {self.hosts[task]}" if self.hosts else name

    @property
    def is_synchronous(self) -> bool:
        """Whether a step is made of the gradients of all workers."""
        return not self.topology.endswith("-async")

    @property
    def plain_topology(self) -> str:
        """The topology alone, without "-async"."""
        return self.topology.removesuffix("-async")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The short names of the tasks: `worker:1`."""
        return Trace(self.tasks).names

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed")

    def sent(self, task: int) -> float:
        """Return the bytes a second that a task sends."""
        return sum(rate for (source, _), rate in self.rates.items() if source == task)

    def received(self, task: int) -> float:
        """Return the bytes a second that a task receives."""
        return sum(rate for (_, target), rate in self.rates.items() if target == task)

    def peak(self) -> float:
        """Return the bytes a second that the busiest task sends, or receives."""
        all_tasks = range(len(self.tasks))
        return max((max(self.sent(i), self.received(i)) for i in all_tasks), default=0)


def rates(recent: Trace, now: int) -> dict[Link, float]:
    """Return the bytes a second of each link in the second before `now` (ns).

    A transfer counts at its end. `now` should be so far back that all tasks' news of it
    are there, see `LATE_NS`.

    >>> from kit.trace.traffic import TRANSFER, rows
    >>> table = rows(TRANSFER, [(1, 0, 1, 1, 7, 500, 10, 20)])
    >>> rates(Trace(("ps:0", "worker:0"), transfers=table), now=100)
    {(1, 0): 500.0}
    """
    table, n = recent.transfers, len(recent.tasks)
    end = table["end"]
    inside = (end > now - WINDOW_NS) & (end <= now)
    # Columns, not rows: to choose among whole rows takes ten times as long.
    code = table["source"][inside].astype(np.int64) * n + table["destination"][inside]
    amount = np.bincount(code, table["bytes"][inside]) * (1e9 / WINDOW_NS)
    links = np.flatnonzero(np.bincount(code)).tolist()
    return {divmod(link, n): float(amount[link]) for link in links}


def of_generation(recent: Trace, number: int) -> Trace:
    """Return a trace with the transfers of one generation and those after it alone.

    What members sent each other before they were placed anew was sent elsewhere.
    """
    epochs = [row.number for row in recent.epochs if row.generation >= number]
    table = recent.transfers
    first = min(epochs, default=np.iinfo(np.int64).max)
    return replace(recent, transfers=table[table["epoch"] >= first])


def mean_rates(trace: Trace) -> dict[Link, float]:
    """Return the bytes a second of each link over the steps of the last epoch.

    Exact totals over the time of the kept steps' share: for a training that is over.
    """
    if not trace.epochs or not len(trace.steps):
        return {}
    epoch = max(trace.epochs)
    elapsed = int(trace.steps["end"].max()) - epoch.at
    table = trace.totals[trace.totals["epoch"] == epoch.number]
    table = table[np.isin(table["kind"], STEP_KINDS)]
    found: dict[Link, float] = {}
    for row in table if elapsed > 0 else ():
        link = int(row["source"]), int(row["destination"])
        found[link] = found.get(link, 0.0) + float(row["bytes"]) * 1e9 / elapsed
    return found


def numbers(recent: Trace, formula: int | None) -> Numbers:
    """Return the numbers of the newest epoch's complete steps among recent rows."""
    if not recent.epochs:
        return Numbers(formula=formula)
    epoch, table = max(recent.epochs).number, recent.steps
    works = (table["epoch"] == epoch) & (table["examples"] > 0)
    if not works.any():
        return Numbers(formula=formula)
    start, end = table["start"][works], table["end"][works]
    elapsed, spent = int(end.max()) - int(start.min()), int((end - start).sum())
    n_steps = len(np.unique(table["step"][works]))
    return Numbers(
        step_rate=n_steps * 1e9 / elapsed if elapsed > 0 else None,
        measured=_bytes_of_a_step(recent, epoch),
        formula=formula,
        waiting=float(table["wait"][works].sum()) / spent if spent > 0 else None,
        staleness=int(table["staleness"][works].max()),
    )


def _bytes_of_a_step(recent: Trace, epoch: int) -> float | None:
    """Return the mean over the steps that all receivers have told of as a whole."""
    table = recent.transfers
    kept = (table["epoch"] == epoch) & np.isin(table["kind"], STEP_KINDS)
    step = table["step"][kept]
    low, high = whole_steps(table["destination"][kept], step)
    if high < low:
        return None
    inner = (step >= low) & (step <= high)
    return float(table["bytes"][kept][inner].sum()) / (high - low + 1)


def whole_steps(task: Rows, step: Rows) -> tuple[int, int]:
    """Return the first and last step of which no task's newest rows are missing.

    The rows of a task begin and end anywhere within a step, so its outermost steps are
    left out. (0, -1) when there is no such step.

    >>> whole_steps(np.array([0, 0, 0, 1, 1, 1]), np.array([4, 5, 6, 4, 5, 7]))
    (5, 5)
    """
    mine = [step[task == one] for one in np.unique(task)]
    if not mine:
        return 0, -1
    low = max(int(some.min()) for some in mine) + 1
    high = min(int(some.max()) for some in mine) - 1
    return (low, high) if low <= high else (0, -1)


def capacity(link: str, peak: float) -> tuple[float, bool]:
    """Return the bytes a second that fill a bar, and whether the links set it.

    >>> capacity("1gbit,5ms", 4e6)
    (125000000.0, True)
    >>> capacity("", 4e6)
    (4000000.0, False)
    """
    bandwidth = LinkSettings.parse(link).bandwidth
    return (bandwidth / 8, True) if bandwidth else (max(peak, 1.0), False)
