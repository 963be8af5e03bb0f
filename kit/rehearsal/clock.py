"""Play steps of a communication schedule on a simulated clock.

Pure arithmetic: nothing sleeps and no clock is read. Links are those of
`kit.wire.shaping`: each member has one line out and one line in, which its messages
occupy one after the other, and between them the latency; and two more of these to the
members of its own host, where those links have a speed too. So when a message leaves
depends only on what its sender did before, and when it may be used only on that and on
what its receiver took before. Members can therefore be played in any order that keeps a
message's sending before its taking, and no list of events is needed.

Computing costs what `kit.exchange.topologies.time_model` says: `Rates`, for each
message that is waited for, byte taken, and byte added or updated. A message that has
come before it is taken costs only its bytes: nobody has to wake up for it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kit.errors import InvalidArgumentError
from kit.exchange.plan import Group
from kit.exchange.topologies.time_model import CACHE_BYTES, Floats, Rates, spilled
from kit.rehearsal.schedule import READY, RECEIVE, SEND, Array, CommunicationSchedule
from kit.wire.shaping import FULL_SPEED, LinkSettings


@dataclass
class Played:
    """The times of a step, in nanoseconds since the first step began.

    `begin`, `computed` and `end` are each member's, `compute` is how long it computed.
    `done` is when each row was done, `arrived` when what a row takes could be used (NaN
    for other rows), `posted` when each message was handed over.
    """

    begin: Floats
    compute: Floats
    computed: Floats
    end: Floats
    done: Floats
    arrived: Floats
    posted: Floats


class SimulatedClock:
    """Plays step after step; between steps members do not wait for each other."""

    def __init__(
        self,
        schedule: CommunicationSchedule,
        group: Group,
        link: LinkSettings,
        rates: Rates,
        compute_s: Sequence[float],
        *,
        n_bytes: int,
        within: LinkSettings = FULL_SPEED,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Begin at 0, with all lines free.

        Where there are several hosts, `link` is between them, and `within` that of the
        tasks of one; each task has a line of its own for either.

        `compute_s` has the seconds for which each member of the schedule computes;
        `n_bytes` is the size of the parameters, of which `cache_bytes` stay in a cache.
        """
        self._schedule, self._group = schedule, group
        # Of the links between hosts, and of those within one.
        self._is_shaped, self._ns_per_byte, self._latency, self._jitters = (
            np.array(values)
            for values in (
                [link.is_shaped, within.is_shaped],
                [link.ns_per_byte, within.ns_per_byte],
                [link.latency, within.latency],
                [link.jitter, within.jitter],
            )
        )
        n = len(schedule.members)
        self._now = np.zeros(n)
        self._free_out, self._free_in = np.zeros((2, n)), np.zeros((2, n))
        computes = np.array(compute_s, np.float64)
        base = np.where(np.isin(schedule.number, group.workers), rates.base, 0.0)
        self._compute = np.rint(computes * 1e9)
        self._begins_after = np.rint((base + computes) * 1e9) - self._compute
        per_worked = rates.gamma + rates.delta * spilled(n_bytes, cache_bytes)
        rows = schedule.rows
        cost = rows.amount * np.where(rows.code == RECEIVE, rates.beta, per_worked)
        cost[(rows.code == SEND) | (rows.code == READY)] = 0.0
        # Whole nanoseconds: whether a member has to wait, which costs a wake-up, must
        # not depend on a rounding error.
        self._cost, self._wakes = np.rint(cost * 1e9), np.rint(rates.alpha * 1e9)
        # One generator per member, with its number as seed, as a training has: the same
        # jitter is drawn whatever the order in which members are played.
        self._dice = [random.Random(member) for member in schedule.members]

    @cached_property
    def _line(self) -> Array:
        """Which of its sender's and receiver's two lines each row's message takes."""
        group, rows = self._group, self._schedule.rows
        if len(set(group.hosts)) < 2:
            return np.zeros(len(rows.code), np.uint8)
        hosts = np.array(group.hosts, np.uint16)
        own = hosts[self._schedule.number[self._schedule.owner]]
        is_near: Array = hosts[rows.peer] == own
        return is_near.astype(np.uint8)

    @cached_property
    def _is_slow(self) -> Array:
        """Whether each row is one end of a message over a shaped link."""
        code = self._schedule.rows.code
        is_slow: Array = self._is_shaped[self._line]
        is_slow &= (code == SEND) | (code == RECEIVE)
        return is_slow

    def _occupied(self, rows: Array) -> Floats:
        """For how many nanoseconds each row's message occupies a line."""
        n_bytes = self._schedule.rows.amount[rows]
        occupied: Floats = n_bytes * self._ns_per_byte[self._line[rows]]
        return occupied

    def step(self) -> Played:
        """Play the next step.

        Raises `InvalidArgumentError` if members would wait for each other for ever.
        """
        schedule, n_rows = self._schedule, len(self._schedule.rows.code)
        begin = self._now.copy()
        self._now = begin + self._begins_after
        computed = self._now + self._compute
        done, arrived = np.zeros(n_rows), np.full(n_rows, np.nan)
        posted = np.full(schedule.n_messages, np.nan)
        self._reached = np.zeros(schedule.n_messages)
        self._played = Played(
            begin, self._compute, computed, begin, done, arrived, posted
        )
        self._jitter = self._draws()
        at, last = schedule.first[:-1].copy(), schedule.first[1:]
        active = np.flatnonzero(at < last)
        # Each round does the next row of every member that can go on, whatever the time
        # on its own clock: see the module's docstring for why the order does not
        # matter.
        while len(active):
            moved = self._round(active, at[active])
            if not len(moved):
                raise self._stuck(active, at)
            at[moved] += 1
            active = active[at[active] < last[active]]
        self._played.end = self._now.copy()
        return self._played

    def _round(self, who: Array, rows: Array) -> Array:
        """Do the next row of each of these members that can; return those members."""
        code, played = self._schedule.rows.code[rows], self._played
        can = (code != RECEIVE) | self._is_there(rows)
        who, rows, code = who[can], rows[can], code[can]
        for what, do in (
            (READY, self._wait_for_gradients),
            (SEND, self._send),
            (RECEIVE, self._take),
        ):
            chosen = code == what
            if chosen.any():
                do(who[chosen], rows[chosen])
        self._now[who] += self._cost[rows]
        played.done[rows] = self._now[who]
        return who

    def _is_there(self, rows: Array) -> Array:
        """Whether each row's message was sent; means nothing for rows without one."""
        posted = self._played.posted
        if not len(posted):
            return np.zeros(len(rows), bool)
        there: Array = ~np.isnan(posted[self._schedule.message[rows]])
        return there

    def _wait_for_gradients(self, who: Array, rows: Array) -> None:
        self._now[who] = np.maximum(self._now[who], self._played.computed[who])

    def _send(self, who: Array, rows: Array) -> None:
        message, now = self._schedule.message[rows], self._now[who]
        self._played.posted[message] = self._reached[message] = now
        slow = self._is_slow[rows]
        if not slow.any():
            return
        who, rows, message, now = who[slow], rows[slow], message[slow], now[slow]
        line = self._line[rows]
        leaves = np.maximum(now, self._free_out[line, who]) + self._occupied(rows)
        self._free_out[line, who] = leaves
        delay = self._latency[line]
        if self._jitter is not None:
            delay = delay + self._jitter[rows]
        self._reached[message] = np.rint(leaves + delay * 1e9)

    def _take(self, who: Array, rows: Array) -> None:
        usable = self._reached[self._schedule.message[rows]]
        slow = self._is_slow[rows]
        if slow.any():
            at, line = usable[slow], (self._line[rows[slow]], who[slow])
            occupied = self._occupied(rows[slow])
            # As `LineIn` of `kit.wire.shaping`: the first byte came as much earlier as
            # the payload occupies the line.
            free = np.maximum(at - occupied, self._free_in[line]) + occupied
            self._free_in[line] = free
            usable[slow] = np.rint(np.maximum(free, at))
        self._played.arrived[rows] = usable
        now, size = self._now[who], self._schedule.rows.amount[rows]
        has_waited = (usable > now) & (size > 0)
        self._now[who] = np.maximum(now, usable) + has_waited * self._wakes

    def _draws(self) -> Floats | None:
        """Return the seconds of jitter of each row, drawn as in a training."""
        if not self._jitters.any():
            return None
        schedule, drawn = self._schedule, np.zeros(len(self._is_slow))
        jitter = self._jitters[self._line]
        late = np.flatnonzero((jitter > 0) & (schedule.rows.code == SEND))
        counts = np.bincount(schedule.owner[late], minlength=len(self._dice))
        draws = [
            dice.random()
            for dice, count in zip(self._dice, counts.tolist(), strict=True)
            for _ in range(count)
        ]
        drawn[late] = jitter[late] * np.array(draws)
        return drawn

    def _stuck(self, active: Array, at: Array) -> InvalidArgumentError:
        me = int(active[0])
        row = int(at[me])
        return InvalidArgumentError(
            f"the plans never end: member {self._schedule.members[me]} waits for a "
            f"message of member {int(self._schedule.rows.peer[row])} that cannot be "
            f"sent before, and so do {len(active) - 1} others. Mend the topology's "
            f"plan; kit.testing.check_topology tries it."
        )
