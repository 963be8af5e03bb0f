"""Follows one training for all its boards: a thread asks for news and calls them.

A training has one follower, however many boards show it, so that they agree and cost no
more than one. Its thread runs while somebody listens. It asks at most ten times a
second, and less often if a beat is costly (`pause_after`): the training needs the
processors more.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from kit.errors import KitError
from kit.exchange.topologies.topology import by_name, per_link
from kit.trace.bottleneck import Bottleneck, bottleneck
from kit.trace.trace import Trace
from kit.training.client.recorded import Cursors
from kit.training.client.run import Run
from widgets.board import run_state
from widgets.board.history import TrainingHistory
from widgets.board.hosting import Hosting
from widgets.board.run_state import LATE_NS, WINDOW_NS, Link, Measured, Moment
from widgets.drawing.words import listed

Listener = Callable[["Beat"], None]
Request = Callable[[Run], None]

BEAT_S = 0.1
# The share of one processor for all that a beat does here. What it wakes takes as much
# again: the kernel's thread for output, and the page's server.
SHARE, MOST = 0.01, 0.05
STEADY_S, SLOWEST_S = 0.5, 2.0
# To find what steps wait for takes some milliseconds, to read it takes some seconds.
BOTTLENECK_S, BOTTLENECK_STEPS = 2.0, 50
_IDLE_S = 0.25  # between two checks whether a training that nobody watches is over
# How far back the newest rows go: three windows, or half of that once they are many. If
# steps are long, as far as the numbers need, unless those are too many.
_KEEP_NS, _LESS_NS = 3 * WINDOW_NS, 3 * WINDOW_NS // 2
_MANY, _MOST = 10_000, 100_000


@dataclass(frozen=True)
class Beat:
    """What boards draw: the moment, the whole training in columns, the newest rows."""

    moment: Moment
    history: TrainingHistory
    recent: Trace
    is_last: bool
    n_rows: int = 0  # that are known: by this a figure knows that it is up to date


class RunFollower:
    """Follows one training. Every method may be called from any thread."""

    def __init__(self, run: Run, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._clock = run, clock
        tasks = tuple(map(str, run.job.tasks))
        self.history = TrainingHistory(tasks)
        self._tasks = tasks
        self._formulas: dict[str, dict[Link, int]] = {}  # by topology
        self._cursors: Cursors = ()
        # For each piece of news: when its last row ended, and where it began.
        self._pieces: deque[tuple[int, Cursors]] = deque()
        self._newest, self._needed, self._heard_at = 0, 0, clock()
        self._peak = 0.0
        self._refusal = ""
        self._troubles: set[tuple[Any, ...]] = set()  # lines that raised something
        self._bottleneck: Bottleneck | None = None
        self._looked = (-math.inf, -1)  # when that was found, and from how many rows
        self._listeners: dict[Listener, bool] = {}  # and whether each is visible
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._guard = threading.Lock()  # of the listeners and the thread
        self._looking = threading.Lock()  # news are taken in by one thread at a time
        self._thread: threading.Thread | None = None

    # -- for boards ---------------------------------------------------------------

    def listen(self, listener: Listener, *, is_shown: bool = True) -> None:
        """Call `listener` with each beat, on the follower's thread, until it leaves.

        One that is not shown gets only the last beat, and costs nothing until then. To
        change that, call this again.
        """
        with self._guard:
            self._listeners[listener] = is_shown
            if self._thread is None:
                name = f"kit-board-{self._run.job.run[:8]}"
                self._thread = threading.Thread(target=self._go, name=name, daemon=True)
                self._thread.start()
        self._requests.put(None)  # wakes the thread

    def leave(self, listener: Listener) -> None:
        """Stop calling; without any listener the thread ends."""
        with self._guard:
            self._listeners.pop(listener, None)
        self._requests.put(None)  # wakes the thread, so that it sees that it is alone

    def request(self, request: Request) -> None:
        """Have the thread make a request soon; errors are shown, not raised."""
        self._requests.put(request)

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

    # -- the thread -----------------------------------------------------------------

    def _go(self) -> None:
        while self._has_listeners():
            if not any(self._listeners.values()) and not self._run.done:
                self._rest(_IDLE_S)
                continue
            begin = time.thread_time()
            try:
                beat = self.look()
            except Exception as error:
                self._trouble(error)
                if self._run.done:  # the next one would be the same
                    with self._guard:
                        self._listeners.clear()  # so that the thread ends
                self._rest(STEADY_S)
                continue
            listeners = list(self._listeners.items())
            for listener, is_shown in listeners:
                if is_shown or beat.is_last:
                    self._tell(listener, beat)
            if beat.is_last:
                with self._guard:  # one that came meanwhile is called next
                    for listener, _ in listeners:
                        self._listeners.pop(listener, None)
                continue
            self._rest(pause_after(time.thread_time() - begin))

    def _has_listeners(self) -> bool:
        """Return whether to go on; if not, the next listener starts another thread."""
        # Under the lock of `listen`: else that could come in between, and leave its
        # listener to a thread that is about to end.
        with self._guard:
            if not self._listeners:
                self._thread = None
            return bool(self._listeners)

    def _tell(self, listener: Listener, beat: Beat) -> None:
        try:
            listener(beat)
        except Exception as error:  # the other boards go on
            self._trouble(error)

    def _trouble(self, error: Exception) -> None:
        """Print an error, once; the next beat is tried all the same.

        If the thread ended here, boards would report that the kernel is gone.
        """
        place = tuple(traceback.extract_tb(error.__traceback__)[-1][:2])
        if place not in self._troubles:  # not by its text, which may differ each time
            self._troubles.add(place)
            traceback.print_exception(error)

    def _rest(self, seconds: float) -> None:
        """Wait for the next beat, or make a request that comes before it."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            with suppress(Empty):
                request = self._requests.get(timeout=left)
                if request is None:
                    return
                self._refusal = ""
                try:
                    request(self._run)
                except KitError as error:
                    self._refusal = error.message
                except Exception as error:  # whatever it is: the thread goes on
                    self._refusal = f"{type(error).__name__}: {error}"
                return  # shown at once

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
        is_told = state in ("paused", "done") and not run.halting
        found = run_state.measured(
            heard,
            self.formula(topology),
            now=None if run.done else self._newest + since_ns - LATE_NS,
            is_complete=is_told or since_ns > WINDOW_NS,
            is_standing=state == "paused" and not run.halting,
        )
        links = self._formula(topology)
        rates = dict.fromkeys(links, 0.0) | _alive(found.rates, self._tasks, run.lost)
        per_step = _alive(found.per_step, self._tasks, run.lost)
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
            _known(recent, found, link, self._peak),
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
        now, known = self._clock(), sum(self._cursors)
        if known != n_rows and (self._run.done or now - at >= BOTTLENECK_S):
            self._looked = now, known
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
    generation = run.newest_job.generation
    if generation is None:
        return None
    return Hosting(tuple(task.short for task in run.job.tasks), generation)


def _hosts(run: Run, hosting: Hosting | None) -> tuple[str, ...]:
    """Return the host of each task that is drawn, if there are several.

    The host of a task that joined later is not known; then all are drawn as on one.
    """
    first = run.job.generation
    if hosting is None or first is None or not run.job.hosts:
        return run.job.hosts
    known = dict(zip(first.places, run.job.hosts, strict=True))
    found = [known.get(one, "") for one in hosting.processes]
    return tuple(found) if all(found) else ()


def pause_after(cost_s: float) -> float:
    """Return the seconds until the next beat, after one of so many seconds of CPU time.

    With these, beats take `SHARE` of a processor. But there are two in a second as long
    as that takes no more than `MOST`.

    >>> [pause_after(cost_s) for cost_s in (0.001, 0.002, 0.02, 0.05, 0.5)]
    [0.1, 0.2, 0.5, 1.0, 2.0]
    """
    steady = max(STEADY_S, cost_s / MOST)
    return min(max(BEAT_S, cost_s / SHARE), steady, SLOWEST_S)


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
    history = TrainingHistory(trace.tasks)
    history.add(trace)
    epoch = max(trace.epochs, default=None)
    recent = newest(trace, 3 * WINDOW_NS)
    found = run_state.measured(recent, is_complete=True)
    link = epoch.link if epoch else ""
    peak = Moment(trace.tasks, rates=found.rates).peak()
    end = replace(
        _known(recent, found, link, peak),
        state="done",
        step=history.n_steps,
        steps=history.n_steps,
        topology=epoch.topology if epoch else "ps",
        bottleneck=bottleneck(trace, BOTTLENECK_STEPS),
    )
    return Beat(end, history, recent, is_last=True)


def _known(recent: Trace, found: Measured, link: str, peak: float) -> Moment:
    """Return what is known of a live training and of a trace alike."""
    scale, limit = run_state.capacity(link, peak)
    return Moment(
        recent.tasks,
        link=link,
        loss=found.loss,
        accuracy=found.accuracy,
        rates=found.rates,
        per_step=found.per_step,
        scale=scale,
        limit=limit,
        numbers=found.numbers,
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
