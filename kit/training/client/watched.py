"""What is known of members: how each is doing and its account, and the rows of all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kit.errors import (
    DeadlineExceededError,
    InternalError,
    KitError,
    PeerLost,
    UnavailableError,
    from_plain,
)
from kit.task import Task
from kit.trace.clock import ClockOffset
from kit.trace.log import Rows, rows
from kit.trace.named_rows import EpochRow, Kept, SaveRow
from kit.trace.traffic import MEASURE, STEP, TOTAL
from kit.trace.window import MeasureTable, Thinned, Thinning, Window
from kit.training.client.flight_recorder import Seen
from kit.training.client.telling import Teller
from kit.training.core.news import LOGS, unpack_news

_N_SAID = 50  # lines of hooks that are kept
_N_PRINTED = 200  # lines of a task that wait to be shown
_N_STEPS = 1024  # room at first


class Once:
    """Lets the rows of each step of a member pass once, however often it is done.

    Steps that are done again after a loss have the same loss and the same measures.
    Threads that watch two generations may use this at the same time.

    Attributes:
        differs_at: the first step that had another loss when it was done again; -1
            without one.
    """

    def __init__(self) -> None:
        # By step whether it was told, of each measure; b"" for the steps themselves.
        self._reported: dict[bytes, npt.NDArray[np.bool_]] = {}
        self._losses = np.zeros(_N_STEPS)
        self.differs_at = -1
        self._guard = threading.Lock()

    def new(self, table: Rows) -> Rows:
        """Return the rows of a table without those that were there before."""
        if table.dtype not in (STEP, MEASURE) or not len(table):
            return table
        is_step = table.dtype == STEP
        names = np.full(len(table), b"") if is_step else table["name"]
        is_new = np.zeros(len(table), bool)
        with self._guard:
            for name in np.unique(names).tolist():
                where = np.flatnonzero(names == name)
                steps = table["step"][where]
                is_reported = self._reported_of(name, int(steps.max()))
                is_new[where] = ~is_reported[steps]
                is_reported[steps] = True
            if is_step:
                self._compare(table, is_new)
        return table[is_new]

    def _compare(self, table: Rows, is_new: npt.NDArray[np.bool_]) -> None:
        more = int(table["step"].max()) + 1 - len(self._losses)
        if more > 0:
            room = np.zeros(more + len(self._losses))
            self._losses = np.concatenate([self._losses, room])
        first, again = table[is_new], table[~is_new]
        self._losses[first["step"]] = first["loss"]
        # As bits: a NaN equals itself, and rounding counts.
        was, now = self._losses[again["step"]], again["loss"].copy()
        differ = again["step"][was.view(np.int64) != now.view(np.int64)]
        if len(differ) and self.differs_at < 0:
            self.differs_at = int(differ.min())

    def _reported_of(self, name: bytes, step: int) -> npt.NDArray[np.bool_]:
        reported = self._reported.get(name, np.zeros(_N_STEPS, bool))
        if step >= len(reported):
            reported = np.concatenate([reported, np.zeros(step + 1, bool)])
        self._reported[name] = reported
        return reported


class News(NamedTuple):
    """New rows of one member, table by table, and how many before them were lost."""

    tables: Sequence[Rows]
    unread: Sequence[int]


@dataclass
class Watched:
    """State, news and account of one member, as far as they are known here."""

    state: str = "running"  # or done, failed, lost
    step: int = 0
    error: KitError | None = None
    epochs: list[EpochRow] = field(default_factory=list)
    leads: dict[str, Any] = field(default_factory=dict)  # what the coordinator says
    cursors: list[int] = field(default_factory=lambda: [0] * len(LOGS))
    totals: Rows = field(default_factory=lambda: rows(TOTAL))
    n_steps: dict[int, int] = field(default_factory=dict)  # of each epoch, exact
    more: bool = False  # is to be fetched at once
    is_caught_up: bool = False  # all that it had when it was asked last is here
    doing: dict[str, Any] = field(default_factory=dict)  # see `activity`
    heard_at: int = 0  # when it was heard last (ns, here)
    since: float = field(default_factory=time.monotonic)  # when we began to listen
    # Nothing more will come, nor a generation of an elastic training that follows.
    is_concluded: bool = False
    stuck: bool = False  # its step goes on though the training has ended
    teller: Teller | None = None
    # What it has printed, to be shown; and how many lines that have come from it.
    printed: deque[Sequence[Any]] = field(
        default_factory=lambda: deque(maxlen=_N_PRINTED)
    )
    n_printed: int = 0
    clock: ClockOffset = field(default_factory=ClockOffset)
    once: Once | None = None  # in an elastic training, which does steps again
    # What earlier processes of the member had reported.
    _earlier: Rows = field(default_factory=lambda: rows(TOTAL))
    _earlier_steps: Mapping[int, int] = field(default_factory=dict)
    # From earlier generations of an elastic training.
    _earlier_epochs: list[EpochRow] = field(default_factory=list)
    _earlier_said: list[Sequence[Any]] = field(default_factory=list)
    _n_epochs: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether the member has said anything of this generation."""
        return any(self.cursors)

    @property
    def ends(self) -> list[int]:
        """Where what is known of it ends: what to ask for news with."""
        return [*self.cursors, self.n_printed]

    @property
    def last_heard(self) -> float:
        """When it was heard last, or we began to listen (s, here)."""
        return max(self.heard_at * 1e-9, self.since)

    def silent_s(self, now: float) -> float:
        """Return how long it has not been heard; 0 for one that has said its last."""
        return 0.0 if self.is_concluded else now - self.last_heard

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state != "running"

    def take(self, reply: dict[str, Any], blob: bytes | bytearray) -> News:
        """Take the answer of a poll, and return the new rows in it."""
        *tables, totals = unpack_news(reply["counts"], blob)
        # By our clock first: all that follows is kept.
        tables = [self.clock.here(table) for table in tables]
        # A copy: else all of the blob would stay.
        self.totals = np.concatenate([self._earlier, self._counted(totals)])
        triples = zip(reply["cursors"], self.cursors, tables, strict=True)
        unread = [end - begin - len(new) for end, begin, new in triples]
        tables = [self._counted(table) for table in tables]
        if self.once is not None:
            tables = [self.once.new(table) for table in tables]
        news = News(tables, unread)
        self.cursors, self.leads = reply["cursors"], reply["leads"] or {}
        self.doing, self.heard_at = reply["doing"], time.monotonic_ns()
        if self.doing["since"]:
            self.doing["since"] -= self.clock.ahead
        # Never back: a member that begins anew, or does steps again, counts from below.
        self.step = max(self.step, int(reply["step"]))
        self.more, self.stuck = bool(reply["more"]), bool(reply.get("stuck"))
        n_steps = {int(e) + self._n_epochs: int(n) for e, n in reply["n_steps"]}
        self.n_steps = {**self._earlier_steps, **n_steps}
        epochs = [EpochRow(*row) for row in reply["epochs"]]
        ahead, n_epochs = self.clock.ahead, self._n_epochs
        self.epochs = self._earlier_epochs + [
            row._replace(at=row.at - ahead, number=row.number + n_epochs)
            for row in epochs
        ]
        if reply["error"]:
            self.error = from_plain(reply["error"])
        # While rows are missing it is not over: its watcher has to come back for them.
        if not self.more:
            self.state = reply["state"]
        if "printed" in reply:
            self.printed += reply["printed"]["lines"]
            self.n_printed = int(reply["printed"]["end"])
        self._tell()
        return news

    def _counted(self, table: Rows) -> Rows:
        """Return the rows with epochs that count on from the last generation's."""
        if self._n_epochs and "epoch" in (table.dtype.names or ()):
            table = table.copy()
            table["epoch"] += self._n_epochs
        return table

    @property
    def saves(self) -> tuple[SaveRow, ...]:
        """The newest attempts to write a checkpoint."""
        rows_saved = (self.leads.get("saves") or {}).get("rows", ())
        ahead = self.clock.ahead
        return tuple(
            SaveRow(step, begin - ahead, end - ahead, error)
            for step, begin, end, error in rows_saved
        )

    @property
    def said(self) -> list[Sequence[Any]]:
        """The newest lines of hooks: (number, kind, text) of each, given once."""
        lines = (*self._earlier_said, *self.leads.get("said", ()))
        return list({line[0]: line for line in lines}.values())[-_N_SAID:]

    def let_tell(self, teller: Teller) -> None:
        """Show the lines of hooks from now on, and those that have come already."""
        self.teller = teller
        self._tell()

    def _tell(self) -> None:
        if self.teller is not None and self.leads:
            self.teller.take(self.leads.get("said", ()), self.is_over)

    def move_on(self, n_epochs: int) -> Watched:
        """Return what is known when the next generation of the training begins.

        Its epochs count on from `n_epochs`.
        """
        return Watched(
            step=self.step,
            epochs=self.epochs,
            totals=self.totals,
            n_steps=self.n_steps,
            teller=self.teller,
            _earlier=self.totals,
            _earlier_steps=self.n_steps,
            _earlier_epochs=self.epochs,
            _earlier_said=self.said,
            _n_epochs=n_epochs,
            once=self.once,
        )

    def revive(self) -> None:
        """Note that the member is there again, and is to be asked for what follows."""
        self.state, self.error, self.since = "running", None, time.monotonic()

    def seen(self, name: str, *, is_worker: bool) -> Seen:
        """Return what a table of all members says of this one."""
        about = (self.state, self.doing, self.heard_at, self.error)
        return Seen(name, *about, is_worker=is_worker)

    def unheard(self, task: str, error: KitError, then: str = "") -> None:
        """Note with what the way to the member ended, and what follows from that."""
        if isinstance(error, UnavailableError | DeadlineExceededError):
            text = (
                f"{task} is gone, or the way to it is cut (step {self.step}): "
                f"{error.message}{then and f' {then}'}"
            )
            self.lose(PeerLost(text, task=task, step=self.step))
        else:  # it is there, so this is its own error
            text = f"{task} cannot tell how it is doing: {error.message}"
            self.fail(type(error)(text, task=task, step=self.step))

    def lose(self, error: KitError) -> None:
        """Note that the member cannot be reached any more."""
        self.state, self.error = "lost", error

    def fail(self, error: KitError) -> None:
        """Note that the member answers, but not how it is doing."""
        self.state, self.error = "failed", error


def take_gathered(
    coordinator: Watched,
    others: Mapping[int, Watched],
    reply: dict[str, Any],
    blob: bytes | bytearray,
) -> Iterator[News]:
    """Take a member's answer with those that it has gathered, and yield the new rows.

    What it gathered was asked and heard by its own clock.
    """
    statuses, ahead = reply.get("others", ()), coordinator.clock.ahead
    start = len(blob) - sum(n_bytes for *_, n_bytes, _ in statuses)
    yield coordinator.take(reply, blob[:start])
    for number, asked, heard, n_bytes, status in statuses:
        member, end = others[number], start + n_bytes
        member.clock.hear(asked - ahead, int(status["now"]), heard - ahead)
        yield member.take(status, blob[start:end])
        start = end


def unwatchable(task: Task, step: int, error: Exception) -> InternalError:
    """Return what a failure of our own, or of the way to a task, ends with."""
    text = (
        f"{task} cannot be watched any more (step {step}): "
        f"{type(error).__name__}: {error}"
    )
    internal = InternalError(text, task=str(task), step=step)
    internal.__cause__ = error
    return internal


def cause(members: Sequence[Watched], trusted: int) -> KitError:
    """Return the error of the trusted member, else of a lost one, else of any."""
    first = members[trusted]
    by_state = sorted(
        (member for member in members if member.error is not None),
        key=lambda member: (member is not first, member.state != "lost"),
    )
    error = by_state[0].error if by_state else None
    return error or PeerLost("the training was lost.")


def gone(
    members: Sequence[Watched], said: Mapping[str, str], *, is_done: bool = False
) -> dict[int, str]:
    """Return the members that are gone, and why.

    They cannot be reached from here, or the coordinator says so: `said` is, by a
    member's number, what it says of those that it goes on without. Such a member may
    still be there and say itself why it gave up. When the training `is_done` all others
    took part until its end, and may have left since.
    """
    return {
        number: member.error.message if member.error else said.get(str(number), "lost")
        for number, member in enumerate(members)
        if str(number) in said or (member.state == "lost" and not is_done)
    }


# --------------------------------------------------------------------------------------
# The rows of all members.


#: How much of each table somebody has seen.
Cursors = tuple[int, ...]


class Tables(NamedTuple):
    """Transfers, spans, steps and measures, what they lack, and where they end."""

    tables: tuple[Rows, ...]
    kept: Kept
    cursors: Cursors


class RunRows:
    """The rows of all members, in memory of a bounded size.

    They are folded in as they come, so to read costs the same however long the training
    is: the tables are views, and the loss of the newest step is at hand. Every method
    may be called from any thread.
    """

    def __init__(self, limit: int) -> None:
        self._thinning = Thinning()
        self._transfers, self._spans = (Window(dtype, limit) for dtype in LOGS[:2])
        self._tables: tuple[Window, ...] = (
            self._transfers,
            self._spans,
            Thinned(STEP, limit, self._thinning),
            MeasureTable(MEASURE, limit, self._thinning),
        )
        self._unread = 0
        self._latest = rows(STEP)  # the workers' rows of the newest step
        self._lock = threading.Lock()

    def add(self, news: News) -> None:
        """Take what one member has reported; the cost is that of the new rows."""
        with self._lock:
            for table, new, unread in zip(self._tables, *news, strict=True):
                if unread and len(new):
                    table.lack(int(new["step"][0]))
                self._unread += unread
                table.add(new)
            self._look_at(news.tables[LOGS.index(STEP)])

    def since(self, cursors: Cursors = ()) -> Tables:
        """Return what came after `cursors`, by default all that is kept: views."""
        with self._lock:
            begun = cursors or (0,) * len(self._tables)
            parts = [
                table.since(at) for table, at in zip(self._tables, begun, strict=True)
            ]
            news, ends = zip(*parts, strict=True)
            return Tables(news, self._kept(), ends)

    @property
    def kept(self) -> Kept:
        """What is left of all that was reported."""
        with self._lock:
            return self._kept()

    @property
    def loss(self) -> float:
        """The mean loss over the examples of the newest step; NaN before the first."""
        latest = self._latest
        if not len(latest):
            return float("nan")
        latest = latest[np.argsort(latest["task"], kind="stable")]
        weight = latest["examples"].astype(np.float64)
        # In the order and by the means of `Trace.losses`: both are equal to the bit.
        total, count = (
            float(np.bincount(np.zeros(len(latest), np.intp), column)[0])
            for column in (latest["loss"] * weight, weight)
        )
        return total / count

    def _look_at(self, steps: Rows) -> None:
        steps = steps[steps["examples"] > 0]
        if not len(steps):
            return
        # Members report at different times: keep the rows of the newest step so far.
        newest = int(steps["step"].max())
        newest_before = int(self._latest["step"][0]) if len(self._latest) else -1
        if newest < newest_before:
            return
        before = [self._latest] if newest == newest_before else []
        self._latest = np.concatenate([*before, steps[steps["step"] == newest]])

    def _kept(self) -> Kept:
        details = max(self._transfers.whole, self._spans.whole)
        thinning = self._thinning
        whole = thinning.whole if thinning.stride > 1 else 0
        return Kept(thinning.stride, whole, details, self._unread)
