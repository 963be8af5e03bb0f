"""Follows one training for all its boards (see `widgets.board.follower`)."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kit.exchange.topologies.topology import by_name, per_link
from kit.trace.bottleneck import Bottleneck, bottleneck
from kit.trace.trace import Trace
from kit.training.client.run import Run
from kit.training.client.watched import Cursors
from widgets.board import group_moment, run_state
from widgets.board.follower import Beat, Follower
from widgets.board.history import TrainingHistory
from widgets.board.hosting import Hosting
from widgets.board.run_state import LATE_NS, WINDOW_NS, Link, Measured, Moment
from widgets.drawing.words import listed

# To find what steps wait for takes some milliseconds, to read it takes some seconds.
BOTTLENECK_S, BOTTLENECK_STEPS = 2.0, 50
# How far back the newest rows go: three windows, or half of that once they are many. If
# steps are long, as far as the numbers need, unless those are too many.
_KEEP_NS, _LESS_NS = 3 * WINDOW_NS, 3 * WINDOW_NS // 2
_MANY, _MOST = 10_000, 100_000


class RunFollower(Follower):
    """Follows one training."""

    def __init__(self, run: Run, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(run, f"kit-board-{run.job.run[:8]}", clock)
        self._run = run
        tasks = tuple(map(str, run.job.tasks))
        self.history = TrainingHistory(tasks)
        self._tasks = tasks
        self._formulas: dict[str, dict[Link, int]] = {}  # by topology
        self._cursors: Cursors = ()
        # For each piece of news: when its last row ended, and where it began.
        self._pieces: deque[tuple[int, Cursors]] = deque()
        self._newest, self._needed, self._heard_at = 0, 0, clock()
        self._peak = 0.0
        self._bottleneck: Bottleneck | None = None
        self._looked = (-math.inf, -1)  # when that was found, and from how many rows

    @property
    def is_over(self) -> bool:
        """See `Follower`."""
        return self._run.done

    def look(self) -> Beat:
        """Return the present state. Costs as much as there is news since the last."""
        with self._looking:
            is_last = self._run.done  # asked first: what comes now is then complete
            begin = self._cursors
            news, self._cursors = self._run.news(begin)
            self.history.add(news)
            self._keep(news, begin)
            recent, _ = self._run.news(self._pieces[0][1])
            self._needed = run_state.needed_from(recent)
            n_rows = sum(self._cursors)
            return Beat(self._moment(recent), self.history, recent, is_last, n_rows)

    # -- the present state ------------------------------------------------------------

    def _keep(self, news: Trace, begin: Cursors) -> None:
        last = [int(t["end"].max()) for t in (news.steps, news.transfers) if len(t)]
        if last:
            self._newest, self._heard_at = max(self._newest, *last), self._clock()
        elif self._pieces:
            return
        self._pieces.append((news.bounds()[1], begin))
        while len(self._pieces) > 2:
            n_rows = sum(self._cursors) - sum(self._pieces[1][1])
            from_ns = self._newest - (_LESS_NS if n_rows > _MANY else _KEEP_NS)
            if n_rows <= _MOST:
                from_ns = min(from_ns, self._needed)
            if self._pieces[0][0] >= from_ns:
                break
            self._pieces.popleft()

    def _moment(self, recent: Trace) -> Moment:
        run, history = self._run, self.history
        state, epochs = run.state, history.epochs
        row = epochs[-1] if epochs else None
        since_ns = int((self._clock() - self._heard_at) * 1e9)
        hosting, heard = _hosting(run), recent
        if hosting is not None:
            heard = run_state.of_generation(recent, hosting.generation.n_changes)
        topology = row.topology if row else run.job.topology
        # In a pause nothing more comes, nor when all tasks have been silent for long:
        # the newest step is then as complete as it will be.
        is_final = state in ("paused", "done") and not run.halting
        numbers = run_state.measured(
            heard,
            self.formula(topology),
            now=None if run.done else self._newest + since_ns - LATE_NS,
            is_complete=is_final or since_ns > WINDOW_NS,
            is_standing=state == "paused" and not run.halting,
        )
        links = self._formula(topology)
        rates = dict.fromkeys(links, 0.0) | _alive(numbers.rates, self._tasks, run.lost)
        per_step = _alive(numbers.per_step, self._tasks, run.lost)
        if hosting is not None:
            rates, per_step = hosting.between(rates), hosting.between(per_step)
        # The scale never shrinks while it runs, so that bars compare from beat to beat.
        # At the end it is what a board that is opened later would find.
        before = 0.0 if run.done else self._peak
        tasks = hosting.tasks if hosting is not None else self._tasks
        self._peak = max(Moment(tasks, rates=rates).peak(), before)
        slowest = self._slowest_part()
        link, error = row.link if row else run.job.link, run.error
        return replace(
            _moment_of(recent, numbers, link, self._peak),
            tasks=tasks,
            rates=rates,
            per_step=per_step,
            state=state,
            step=run.step,
            steps=run.job.steps,
            hosts=_hosts(run, hosting),
            hosting=hosting,
            bottleneck=slowest,
            topology=topology,
            switching=requested_words(run.requested, topology, row.link if row else ""),
            halting=run.halting,
            refused=self._refusal or run.refused,
            error=f"{type(error).__name__}: {error.message}" if error else "",
            lost=hosting.lost(run.lost) if hosting is not None else run.lost,
        )

    def _slowest_part(self) -> Bottleneck | None:
        """Return what the newest steps waited for, computed anew once in a while."""
        at, n_rows = self._looked
        now, n_seen = self._clock(), sum(self._cursors)
        if n_seen != n_rows and (self._run.done or now - at >= BOTTLENECK_S):
            self._looked = now, n_seen
            self._bottleneck = bottleneck(self._run.news()[0], BOTTLENECK_STEPS)
        return self._bottleneck

    def formula(self, topology: str) -> int | None:
        """Return the bytes of a step; an asynchronous one is of a single worker."""
        job = self._run.job
        shares = len(job.workers) if topology.endswith("-async") else 1
        return sum(self._formula(topology).values()) // shares or None

    def _formula(self, topology: str) -> dict[Link, int]:
        """Return the bytes of a step on each link, as the topology's formula says."""
        job, plain = self._run.job, topology.removesuffix("-async")
        if plain not in self._formulas:  # some topologies go through all their plans
            self._formulas[plain] = per_link(job.traffic(by_name(plain)))
        return self._formulas[plain]


def _alive(
    rates: Mapping[Link, float], tasks: tuple[str, ...], lost: Collection[str]
) -> dict[Link, float]:
    """Return the rates without those of lost tasks.

    >>> tasks = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
    >>> _alive({(1, 0): 5.0, (2, 0): 7.0}, tasks, ["worker:1"])
    {(1, 0): 5.0}
    """
    gone = {number for number, name in enumerate(Trace(tasks).names) if name in lost}
    return {link: rate for link, rate in rates.items() if not gone & {*link}}


def _hosting(run: Run) -> Hosting | None:
    """Return which processes host the members now; None if it is not elastic."""
    job = run.newest_job
    if not job.is_elastic:
        return None
    return Hosting(tuple(task.short for task in job.tasks), job.generation)


def _hosts(run: Run, hosting: Hosting | None) -> tuple[str, ...]:
    """Return the host of each task that is drawn, if there are several.

    The host of a task that joined later is not known; then all are drawn as on one.
    """
    if hosting is None or not run.job.hosts:
        return run.job.hosts
    host_of = dict(zip(run.job.generation.places, run.job.hosts, strict=True))
    hosts = [host_of.get(process, "") for process in hosting.processes]
    return tuple(hosts) if all(hosts) else ()


def requested_words(request: Mapping[str, Any], topology: str, link: str) -> str:
    """Return what is requested and does not hold yet, in words.

    >>> request = {"topology": "ring", "link": "1gbit", "synchronous": True}
    >>> requested_words(request, "ps-async", "")
    'ring, synchronous steps and links at 1gbit'
    """
    if not request:
        return ""
    plain, was_synchronous = topology.removesuffix("-async"), topology[-6:] != "-async"
    parts = [request["topology"]] * (request["topology"] != plain)
    if request["synchronous"] != was_synchronous:
        parts.append(f"{'' if request['synchronous'] else 'a'}synchronous steps")
    if request["link"] != link:
        parts.append(f"links at {request['link'] or 'full speed'}")
    return listed(parts)


# By the training's `id`: a follower refers to its training, so while it lives no other
# training can have that.
_pulses: weakref.WeakValueDictionary[int, RunFollower] = weakref.WeakValueDictionary()
_pulses_guard = threading.Lock()


def pulse_of(run: Run) -> RunFollower:
    """Return the one `RunFollower` of a training; it lives while it is referred to."""
    with _pulses_guard:
        return _pulses.setdefault(id(run), RunFollower(run))


# --------------------------------------------------------------------------------------
# A beat from a saved trace: what a board shows of a training that is long over.


def beat_of(trace: Trace) -> Beat:
    """Return the one and last beat of a trace."""
    if trace.calls is not None:
        return group_moment.beat(trace, is_last=True)
    history = TrainingHistory(trace.tasks)
    history.add(trace)
    epoch = max(trace.epochs, default=None)
    recent = newest(trace, 3 * WINDOW_NS)
    numbers = run_state.measured(recent, is_complete=True)
    link = epoch.link if epoch else ""
    peak = Moment(trace.tasks, rates=numbers.rates).peak()
    end = replace(
        _moment_of(recent, numbers, link, peak),
        state="done",
        step=history.n_steps,
        steps=history.n_steps,
        topology=epoch.topology if epoch else "ps",
        bottleneck=bottleneck(trace, BOTTLENECK_STEPS),
    )
    return Beat(end, history, recent, is_last=True)


def _moment_of(recent: Trace, numbers: Measured, link: str, peak: float) -> Moment:
    """Return what is known of a live training and of a trace alike."""
    scale, limit = run_state.capacity(link, peak)
    return Moment(
        recent.tasks,
        link=link,
        loss=numbers.loss,
        accuracy=numbers.accuracy,
        rates=numbers.rates,
        per_step=numbers.per_step,
        scale=scale,
        limit=limit,
        numbers=numbers.numbers,
        kept=str(recent.kept),
        insecure=recent.insecure,
    )


def newest(trace: Trace, length_ns: int) -> Trace:
    """Return a trace with only the rows that ended in its last `length_ns`."""
    tables = (trace.transfers, trace.spans, trace.steps)
    last = max((int(t["end"].max()) for t in tables if len(t)), default=0)
    kept = (table[table["end"] > last - length_ns] for table in tables)
    transfers, spans, steps = kept
    measures = trace.measures[np.isin(trace.measures["step"], steps["step"])]
    return replace(
        trace, transfers=transfers, spans=spans, steps=steps, measures=measures
    )
