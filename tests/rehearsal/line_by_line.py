"""A step played without numpy, one operation of one member after the other.

With the lines of a real training (`kit.wire.shaping`) and its plans as they are.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Mapping

from kit.exchange.pipeline import pipelined
from kit.exchange.plan import Add, Apply, Op, Receive, Send
from kit.exchange.topologies.time_model import Rates
from kit.exchange.topologies.topology import by_name
from kit.training.core.job import Job
from kit.wire.shaping import LineIn, LineOut, LinkSettings


class PlayedMember:
    """A member with its clock and its lines."""

    def __init__(
        self, job: Job, me: int, compute_s: float, rates: Rates, within: str
    ) -> None:
        self.job, self.me, self.now, self.rates = job, me, 0, rates
        self.compute_s = compute_s if me in job.workers else 0.0
        self.links = LinkSettings.parse(job.link), LinkSettings.parse(within)
        dice = random.Random(me).random
        self.lines_out = [LineOut(link, dice) for link in self.links]
        self.lines_in = [LineIn(link) for link in self.links]
        self.added = 0

    def line(self, peer: int) -> int:
        hosts = self.job.group.hosts
        return int(len(set(hosts)) > 1 and hosts[peer] == hosts[self.me])

    def is_slow(self, peer: int) -> bool:
        return self.links[self.line(peer)].is_shaped

    def begin(self) -> deque[Op]:
        job = self.job
        plan = job.plan(by_name(job.topology), self.me)
        if plan is None:
            return deque()
        base_s = self.rates.base if self.me in job.workers else 0.0
        self.now += round((base_s + self.compute_s) * 1e9)
        if not job.stage_specs:  # else they are woven as they are made
            plan = pipelined(plan, job.layout, early=not job.slots)
        return deque(plan.ops)

    def do(self, op: Op, mail: Mapping[tuple[int, int], deque[int]]) -> bool:
        """Do one operation; False if its message has not been sent."""
        rates, seconds = self.rates, 0.0
        if isinstance(op, Send | Receive | Apply):  # what is added in a row is one work
            self.now += round(self.added * rates.gamma * 1e9)
            self.added = 0
        if isinstance(op, Send):
            reached = self.now
            if self.is_slow(op.to):
                reached = self.lines_out[self.line(op.to)].reaches_at(
                    self.now, op.range.size
                )
            mail[self.me, op.to].append(reached)
        elif isinstance(op, Receive):
            if not mail[op.source, self.me]:
                return False
            usable = mail[op.source, self.me].popleft()
            if self.is_slow(op.source):
                usable = self.lines_in[self.line(op.source)].arrives_at(
                    usable, op.range.size
                )
            if usable > self.now and op.range.size:
                usable += round(rates.alpha * 1e9)
            self.now = max(self.now, usable)
            seconds = op.range.size * rates.beta
        elif isinstance(op, Add):
            self.added += (len(op.terms) - 1) * op.range.size
        elif isinstance(op, Apply):
            seconds = op.range.size * rates.gamma
        self.now += round(seconds * 1e9)
        return True


def play(
    job: Job, compute: Mapping[int, float], rates: Rates, steps: int, within: str = ""
) -> list[list[int]]:
    """Return when each member has done each step, in nanoseconds."""
    members = [
        PlayedMember(job, me, compute[me], rates, within) for me in job.group.members
    ]
    ends = []
    for _ in range(steps):
        mail: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        left = [member.begin() for member in members]
        moved = True
        while moved:
            moved = False
            for member, ops in zip(members, left, strict=True):
                while ops and member.do(ops[0], mail):
                    ops.popleft()
                    moved = True
        assert not any(left), "somebody waits for ever"
        ends.append([member.now for member in members])
    return ends
