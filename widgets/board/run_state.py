"""A training at one moment, as plain data: what the board's picture and numbers show.

Pure: it reads no clock. All numbers are of the same whole steps (`measured`), so they
agree with each other, and so do two boards on one training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kit.trace.bottleneck import Bottleneck
from kit.trace.log import Rows
from kit.trace.named_rows import CallRow, Change
from kit.trace.trace import STEP_KINDS, Trace
from kit.wire.shaping import LinkSettings
from widgets.board.hosting import Hosting
from widgets.board.hosting import Link as Link

WINDOW_NS = 1_000_000_000  # of time, over which a rate is a mean
LATE_NS = 250_000_000  # how far the news of one task may lag behind another's


@dataclass(frozen=True)
class Numbers:
    """The row of numbers; None for what is not known, or not yet.

    `measured` and `formula` are bytes of a step over all links (of an update, when the
    training is asynchronous); `waiting` is the share of the workers' time. They are
    means over `n_steps` steps, which took `step_s` seconds each.
    """

    n_steps: int = 0
    step_s: float | None = None
    step_rate: float | None = None
    measured: float | None = None
    formula: int | None = None
    waiting: float | None = None
    staleness: int | None = None


@dataclass(frozen=True)
class GroupFacts:
    """What is known of a group of tasks, which makes calls instead of steps.

    `measured` and `formula` are bytes of everything so far, `formulas` those of each
    link; `call` is the newest one, and `doing` has the call in which a task is now.
    With `is_of_calls`, in a page that plays, the picture has the bytes of a call.
    """

    n_calls: int
    n_messages: int
    measured: int
    formula: int | None = None
    call: CallRow | None = None
    formulas: Mapping[Link, int] = field(default_factory=dict)
    doing: Mapping[str, str] = field(default_factory=dict)
    is_of_calls: bool = False


@dataclass(frozen=True)
class Moment:
    """Everything about a training at one moment that is not a curve.

    `topology` is named as in the epochs (`ps-async` if asynchronous). `rates` are bytes
    per second for each link (source, destination) that carries anything or should,
    `per_step` bytes per step, both of the same steps as `numbers`. `scale` is the rate
    of a full bar and of the widest arrow, `limit` whether that is the links' speed.
    `switching` says what is requested and not in force yet; `halting` is "pausing" or
    "stopping" until the training does. `lost` has a sentence for each lost task, `kept`
    what is left of the trace of a long training, if not all. `hosts` has the host of
    each task if there are several. `bottleneck` is what the newest steps waited for, at
    most two seconds ago. `stretch` names the steps that all this is of, if they are not
    those of the last second. `insecure` says that the links are not encrypted.

    Of a group of tasks (`group`) a step is a call, and `per_step` has the bytes of
    everything so far.

    In an elastic training `tasks` are those whose processes take part or once did, and
    rates are between processes; `hosting` says which process hosts which member.
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
    per_step: Mapping[Link, float] = field(default_factory=dict)
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
    stretch: str = ""
    insecure: bool = False
    group: GroupFacts | None = None

    @property
    def unit(self) -> str:
        """What a row of the steps is: a step, an update or a call."""
        if self.group is not None:
            return "call"
        return "step" if self.is_synchronous else "update"

    @property
    def what(self) -> str:
        """What the bytes at arrows are of: "a step", "an update" or "in all"."""
        if self.group is not None and not self.group.is_of_calls:
            return "in all"
        return f"{'an' if self.unit == 'update' else 'a'} {self.unit}"

    @property
    def changes(self) -> tuple[Change, ...]:
        """The processes that an elastic training lost, took in and let go."""
        return self.hosting.generation.changes if self.hosting else ()

    def is_far(self, link: Link) -> bool:
        """Whether a link leads from one host to another."""
        return bool(self.hosts) and self.hosts[link[0]] != self.hosts[link[1]]

    def where(self, task: int) -> str:
        """Return a task's short name, with its host if there are several."""
        name = self.names[task]
        return f"{name} on {self.hosts[task]}" if self.hosts else name

    @property
    def is_synchronous(self) -> bool:
        """Whether each step uses the gradients of all workers."""
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

    @property
    def is_complete(self) -> bool:
        """Whether all news of the newest step have come."""
        return self.state in ("paused", "done") and not self.halting

    @property
    def window(self) -> str:
        """Which steps the rates and numbers are of, in words.

        >>> Moment((), numbers=Numbers(n_steps=26)).window
        'in the last second'
        """
        if not self.numbers.n_steps:
            return ""
        if self.stretch:
            return self.stretch
        if self.numbers.n_steps == 1:
            return f"of the last {self.unit}"
        return "in its last second" if self.is_over else "in the last second"

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


def of_generation(recent: Trace, number: int) -> Trace:
    """Return a trace with only the transfers of one generation and of later ones.

    Before that the members were in other processes, so their bytes took other links.
    """
    epochs = [row.number for row in recent.epochs if row.generation >= number]
    table = recent.transfers
    first = min(epochs, default=np.iinfo(np.int64).max)
    return replace(recent, transfers=table[table["epoch"] >= first])


class Measured(NamedTuple):
    """The newest steps: numbers, and for each link bytes per second and per step."""

    numbers: Numbers
    rates: Mapping[Link, float]
    per_step: Mapping[Link, float]
    loss: float | None
    accuracy: float | None


def measured(
    recent: Trace,
    formula: int | None = None,
    *,
    now: int | None = None,
    is_complete: bool = False,
    is_standing: bool = False,
) -> Measured:
    """Return the numbers of the newest whole steps of the newest epoch.

    These are the steps that ended within a second of the last one, so that all numbers
    are of the same steps: a link's rate is its bytes per step times the steps per
    second. Asynchronous updates overlap, so their time counts from the end of the last
    one before that second. If no step ended for long before `now` (ns), nothing moves.
    `is_complete` says that all news have come, so that the newest step is whole too,
    `is_standing` that the training is paused: nothing moves, and all numbers are of the
    last step. Until the newest epoch has a whole step, the loss is of the one before.

    >>> from kit.trace.named_rows import EpochRow
    >>> from kit.trace.traffic import STEP, TRANSFER, rows
    >>> epochs = (EpochRow(1, "ps", 7, 0, ""),)
    >>> steps = rows(STEP, [(1, 7, 1, 0.5, 8, 0, 500_000_000, 0, 0, 0)])
    >>> moved = rows(TRANSFER, [(1, 0, 1, 1, 7, 600, 10, 20)])
    >>> trace = Trace(("ps:0", "worker:0"), epochs, transfers=moved, steps=steps)
    >>> measured(trace, is_complete=True).rates
    {(1, 0): 1200.0}
    """
    nothing = Measured(Numbers(formula=formula), {}, {}, None, None)
    if not recent.epochs:
        return nothing
    newest = max(recent.epochs)
    epoch = newest.number
    steps = recent.steps[(recent.steps["epoch"] == epoch)]
    steps = steps[steps["examples"] > 0]
    table = recent.transfers
    moved = (table["epoch"] == epoch) & np.isin(table["kind"], STEP_KINDS)
    # From columns: selecting whole rows takes ten times as long.
    step, target = table["step"][moved], table["destination"][moved]
    # A task counts twice, as one that computes steps and as one that receives: the rows
    # of both come separately, and a step is whole when none of them is missing.
    low, high = whole_steps(
        np.concatenate([steps["task"], len(recent.tasks) + target.astype(np.int64)]),
        np.concatenate([steps["step"], step]),
        is_complete=is_complete,
    )
    inside = steps[(steps["step"] >= low) & (steps["step"] <= high)]
    if not len(inside):
        loss, accuracy = learned(recent, _whole_before(recent, epoch))
        return nothing._replace(loss=loss, accuracy=accuracy)
    last = int(inside["end"].max())
    ended = np.unique(inside["step"][inside["end"] > last - WINDOW_NS])
    ended = ended[-1:] if is_standing else ended
    used = inside[np.isin(inside["step"], ended)]
    begin = int(used["start"].min())
    if newest.is_asynchronous:
        before = inside["end"][inside["end"] <= last - WINDOW_NS]
        begin = int(before.max(initial=begin)) if not is_standing else begin
    elapsed = max(1, last - begin)
    silent = 0 if now is None else now - last
    # Long without news: longer than the window, and than steps have been taking.
    is_still = is_standing or silent > max(WINDOW_NS, 2 * elapsed)
    code = table["source"][moved].astype(np.int64) << 16 | target
    chosen = np.isin(step, ended)
    numbers = means(
        used,
        code[chosen],
        table["bytes"][moved][chosen],
        formula,
        begin,
        has_moved=bool(len(step)),
        is_still=is_still,
    )
    loss, accuracy = learned(recent, high)
    return numbers._replace(loss=loss, accuracy=accuracy)


def _whole_before(recent: Trace, epoch: int) -> int:
    """Return the newest step before an epoch that all tasks reported; -1 if none."""
    steps = recent.steps[recent.steps["epoch"] < epoch]
    steps = steps[steps["epoch"] == steps["epoch"].max(initial=0)]
    return whole_steps(steps["task"], steps["step"], is_complete=True)[1]


def needed_from(recent: Trace) -> int:
    """Return when the oldest rows that `measured` needs ended (ns); 0 if it needs all.

    It leaves out the first and the last step of each task, and tasks may be a step
    apart: so among four steps of each task there is one that is whole.
    """
    steps = recent.steps
    steps = steps[steps["epoch"] == steps["epoch"].max(initial=0)]
    mine = (steps["end"][steps["task"] == task] for task in np.unique(steps["task"]))
    return min((int(np.sort(ends)[-4:][0]) for ends in mine), default=0)


def means(
    used: Rows,
    code: npt.NDArray[np.int64],
    n_bytes: Rows,
    formula: int | None = None,
    begin: int | None = None,
    *,
    has_moved: bool = True,
    is_still: bool = False,
) -> Measured:
    """Return the means over the whole steps that have the rows `used`; not the loss.

    `n_bytes` are the bytes that moved in them, and `code` says on which links: the
    source times 2^16 plus the destination. Rates count from `begin` (ns), by default
    the start of the first step. With `is_still` nothing moves any more.
    """
    n_steps = len(np.unique(used["step"]))
    first, last = int(used["start"].min()), int(used["end"].max())
    elapsed = max(1, last - (first if begin is None else begin))
    amount = _sums(code, n_bytes)
    a_second = 0.0 if is_still else 1e9 / elapsed
    spent = int((used["end"] - used["start"]).sum())
    numbers = Numbers(
        n_steps=n_steps,
        step_s=(last - first if n_steps == 1 else elapsed) / n_steps / 1e9,
        step_rate=None if is_still else n_steps * a_second,
        measured=sum(amount.values()) / n_steps if has_moved else None,
        formula=formula,
        waiting=float(used["wait"].sum()) / spent if spent > 0 else None,
        staleness=int(used["staleness"].max()),
    )
    return Measured(
        numbers,
        {link: moved * a_second for link, moved in amount.items()},
        {link: moved / n_steps for link, moved in amount.items()},
        None,
        None,
    )


def _sums(code: npt.NDArray[np.int64], n_bytes: Rows) -> dict[Link, float]:
    """Return the bytes of each link; `code` has the links as numbers."""
    if not len(code):
        return {}
    # Counting is faster than sorting: a beat has tens of thousands of rows.
    source, target = code >> 16, code & 0xFFFF
    n_tasks = int(max(source.max(), target.max())) + 1
    pair = source * n_tasks + target
    links = np.flatnonzero(np.bincount(pair)).tolist()
    sums = np.bincount(pair, n_bytes)
    return {divmod(link, n_tasks): float(sums[link]) for link in links}


def learned(recent: Trace, step: int) -> tuple[float | None, float | None]:
    """Return the loss and the accuracy of a step, means over its examples."""
    measures = recent.measures[recent.measures["step"] == step]
    shares = measures[measures["name"] == b"accuracy"]
    values: list[float | None] = []
    for table, name in ((recent.steps, "loss"), (shares, "value")):
        mine = table[(table["step"] == step) & (table["examples"] > 0)]
        weights = mine["examples"].astype(np.float64)
        values.append(
            float(np.average(mine[name], weights=weights)) if len(mine) else None
        )
    return values[0], values[1]


def whole_steps(
    task: Rows, step: Rows, *, is_complete: bool = False
) -> tuple[int, int]:
    """Return the first and last step of which no task's rows are missing.

    The rows of a task begin and end anywhere within a step, so its first and its last
    step do not count; with `is_complete` the last one does. (0, -1) if none is left.

    >>> whole_steps(np.array([0, 0, 0, 1, 1, 1]), np.array([4, 5, 6, 4, 5, 7]))
    (5, 5)
    >>> whole_steps(np.array([0, 1]), np.array([9, 9]), is_complete=True)
    (9, 9)
    """
    mine = [step[task == number] for number in np.unique(task)]
    if not mine:
        return 0, -1
    low = max(int(some.min()) for some in mine) + 1
    high = min(int(some.max()) for some in mine) - (not is_complete)
    if is_complete:  # all that is known of a training may be one step
        low = min(low, high)
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
