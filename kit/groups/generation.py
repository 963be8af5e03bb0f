"""The links of a group, from one failure to the next: compare calls, carry out plans.

Theory of operation. Before a byte of a call moves, all tasks compare what they call:

    each task   two digests of its call --> each hub         8 bytes each, not counted
    a hub       the same?  -- yes --> verdict to all others; the plan is carried out
                           -- the values differ, and may --> a table of all forms
                           -- no --> the first task asks for all calls, and all raise

In a group of up to four all tasks are hubs, and the wait is that for one message; in a
larger one the first task is the only one. The verdict also says that everybody has
finished the call before, so the memory is free for the next one. Links are opened when
a plan first needs them: those to the hubs before the first call, a ring's before the
first all-reduce, and they stay.

A failure of any kind ends a generation on all tasks: what was under way is left in the
old links and memory, and the next call begins with new ones.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from kit.errors import InvalidArgumentError, KitError
from kit.exchange.execution.bound_operations import Update
from kit.exchange.execution.program import Program
from kit.exchange.group.linked_member import LinkedMember, shape
from kit.exchange.group.links import partners_of
from kit.exchange.layout import Layout, Range, Spec, lay_out
from kit.exchange.plan import GRAD, Op, Plan, Receive, Send
from kit.exchange.ports.memory import Array
from kit.exchange.topologies.counting import Traffic
from kit.groups.lending import Lent, lending
from kit.groups.values import Form, packed, unpacked
from kit.settings import Settings
from kit.task import Task
from kit.trace.traffic import Meter, TransferKind
from kit.wire.shaping import LinkSettings
from kit.wire.stream import Stream

_MOST_HUBS = 4
_DESK = 4096  # a task's digests and its form, in memory of its own behind the values
_SAME, _TABLE = 1, 2
_TOO_LONG = 0xFFFFFFFF
LEAST_CAPACITY = 64 << 20  # pages that are never touched cost nothing
_MOST_BOUND = 64
_MORE_S = 5.0  # the watch ends a call in time, and says who is missing
_REDUCE = TransferKind.REDUCE


class CallsDiffer(Exception):
    """The calls of the tasks differ; the group says how."""


@dataclass(frozen=True)
class Members:
    """Who is in a group, and how it exchanges: the same on all tasks but `me`."""

    id: str
    tasks: tuple[Task, ...]
    me: int
    hosts: tuple[int, ...]
    link: LinkSettings
    settings: Settings
    timeout_s: float

    def same_clock(self, rank: int) -> bool:
        """Whether another task's clock is ours: it is on the same host."""
        return not self.hosts or self.hosts[rank] == self.hosts[self.me]

    def run(self, generation: int, growth: int) -> str:
        """Return what the data links of a generation are known by."""
        return uuid5(NAMESPACE_URL, f"{self.id}/{generation}/{growth}").hex


class GroupServices(Protocol):
    """What the task's server does for a group."""

    @property
    def cluster_number(self) -> int:
        """What frames carry to distinguish clusters."""

    def streams(
        self,
        run: str,
        tasks: Sequence[Task],
        check: Callable[[], None],
        dialled: Sequence[int],
        awaited: Sequence[int],
        deadline: float,
    ) -> dict[int, Stream]:
        """Return data streams to other tasks: to some that we dial, and to others."""

    def forget(self, run: str) -> None:
        """Close the data links of a run that nobody took."""


@dataclass
class Recipe:
    """A call's plan, where its values lie, and what it costs."""

    plan: Plan
    traffic: Traffic
    places: list[tuple[int, Range, str]] = field(default_factory=list)  # to copy in
    results: list[tuple[int, Range, str]] = field(default_factory=list)
    size: int = 0  # bytes of a region that it uses
    layout: Layout | None = None
    update: Update | None = None
    combine: np.ufunc = np.add
    topology: str = ""  # whose plan it is
    n_bytes: int = field(init=False)  # that it moves, by the formula

    def __post_init__(self) -> None:
        self.n_bytes = sum(self.traffic.values())

    def lent(self, into: int) -> Recipe | None:
        """Return the same for a caller's own array, with its result in region `into`.

        None where the plan does not allow it.
        """
        plan = lending(self.plan, into)
        return plan and replace(self, plan=plan, places=[], results=[])


@dataclass
class Bound:
    """A recipe, bound to memory and links."""

    recipe: Recipe
    program: Program
    places: list[Array]
    results: list[Array]
    is_lent: bool = False  # works on the caller's own arrays, so it has none
    waited: int = 0  # ns that the newest run of it waited


class GroupLinks:
    """One task's links and memory for a group; a thread uses it, any may abort it."""

    def __init__(
        self, members: Members, number: int, services: GroupServices, meter: Meter
    ) -> None:
        """Make it without links; `open` has to follow."""
        self.members, self.number, self._services = members, number, services
        self._meter = meter
        self._uncounted = Meter(members.me, limit=64, trace=False)
        self._growth, self._capacity = 0, LEAST_CAPACITY
        self.error: KitError | None = None
        self._stack = ExitStack()
        self._linked: LinkedMember | None = None
        self._bound: OrderedDict[str, Bound] = OrderedDict()

    # -- links -----------------------------------------------------------------

    def open(self) -> None:
        """Open the links to those who compare the calls."""
        members, n = self.members, len(self.members.tasks)
        size = self._capacity + (n + 1) * _DESK
        layout = lay_out([Spec("bytes", (size,), "uint8")], n)
        self._linked = linked = LinkedMember(
            [str(task) for task in members.tasks],
            members.me,
            layout,
            label=f"group-{members.tasks[members.me].short}",
            meter=self._meter,
            streams=self._streams,
            cluster=self._services.cluster_number,
            deadline_s=members.timeout_s + _MORE_S,
            checksum=members.settings.checksum,
            native=members.settings.native,
            hosts=members.hosts,
            most_bytes=0,
            stack=self._stack,
        )
        linked.endpoint.stamp.epoch = self.number + 1
        self.check()  # it may have been aborted before there was anything to abort
        hubs = _hubs(n)
        self._require(range(n) if members.me in hubs else hubs)
        self._comparing = _Comparing(linked, self._capacity, self._uncounted)

    def _streams(
        self, dialled: Sequence[int], awaited: Sequence[int], deadline: float
    ) -> dict[int, Stream]:
        members, run = self.members, self.members.run(self.number, self._growth)
        return self._services.streams(
            run, members.tasks, self.check, dialled, awaited, deadline
        )

    def _require(self, partners: Sequence[int] | range | set[int]) -> None:
        linked = self._linked
        assert linked is not None
        missing = set(partners) - {self.members.me} - set(linked.endpoint.ports)
        if missing:
            deadline = time.monotonic() + self.members.timeout_s + _MORE_S
            linked.links.open(missing, deadline)
            self.check()
            shape(linked.endpoint, self.members.link, self.members.hosts)

    def _grow(self, size: int) -> None:
        """Begin again with more memory; all tasks do so in the same call."""
        while self._capacity < size:
            self._capacity *= 2
        self._let_go()
        self._growth += 1
        self.open()

    def abort(self, error: KitError) -> None:
        """End every wait, now and later; from any thread."""
        self.error = self.error or error
        linked = self._linked
        if linked is not None:
            linked.abort(self.error)

    def check(self) -> None:
        """Raise what it was aborted with."""
        if self.error is not None:
            raise self.error

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The tasks that a wait for a message is for, if it lasts."""
        wait = self._linked.endpoint.waits_for if self._linked is not None else None
        return wait.members if wait is not None else ()

    def close(self) -> None:
        """Close the links and let go of the memory."""
        self._let_go()

    def _let_go(self) -> None:
        self._bound.clear()
        self._stack.close()
        self._services.forget(self.members.run(self.number, self._growth))
        if self._linked is not None:
            self._linked.release()
            self._linked = None

    # -- calls -----------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the links to those who compare are there."""
        return self._linked is not None

    def compare(
        self, step: int, strict: int, loose: int, form: Form
    ) -> list[Form] | None:
        """Return when all tasks are in this call; the forms of all, if they differ.

        Raises `CallsDiffer` on the first task, before anything else has moved.
        """
        linked = self._linked
        assert linked is not None
        linked.endpoint.stamp.step = step
        linked.endpoint.stamp.overwrites = False
        if self._comparing.verdict(step, strict, loose) == _SAME:
            return None
        return self._comparing.table(form)

    def carry_out(
        self,
        key: str,
        recipe: Callable[[], Recipe],
        put: Callable[[Bound], None],
        lent: Lent | None = None,
    ) -> Bound:
        """Carry out a plan; `put` copies the values in. Returns where results lie.

        It works on what is `lent` instead, if it can.
        """
        if lent is not None:
            key += f"|lent {lent.into}"
        bound = self._bound.get(key) or self._bind(key, recipe(), lent)
        linked = self._linked
        assert linked is not None
        plan = bound.recipe.plan
        linked.endpoint.stamp.overwrites = plan.overwrites
        if bound.is_lent and lent is not None:
            bound.program.lend(lent.regions)
        else:
            put(bound)
        bound.program.expect()
        before = bound.program.waited_ns
        bound.program.step()
        bound.waited = bound.program.waited_ns - before
        return bound

    def _bind(self, key: str, recipe: Recipe, lent: Lent | None) -> Bound:
        if recipe.size > self._capacity:
            self._grow(recipe.size)
        linked = self._linked
        assert linked is not None
        if linked.joining.suit(recipe.size):  # what was bound has other ports
            self._bound.clear()
            self._comparing = _Comparing(linked, self._capacity, self._uncounted)
        self._require(set(partners_of(recipe.plan)))
        stamp = linked.endpoint.stamp
        stamp.overwrites = recipe.plan.overwrites

        def views(places: list[tuple[int, Range, str]]) -> list[Array]:
            return [
                linked.memory.typed(stamp.where(region), part).view(dtype)
                for region, part, dtype in places
            ]

        def program(recipe: Recipe) -> Program:
            return linked.program(
                recipe.plan,
                recipe.update,
                layout=recipe.layout,
                combine=recipe.combine,
                expects=False,
                once=True,
            )

        bound = None
        if lent is not None and (other := recipe.lent(lent.into)) is not None:
            bound = Bound(other, program(other), [], [], is_lent=True)
            if not bound.program.lend(lent.regions):
                bound = None
        if bound is None:
            arrays = views(recipe.places), views(recipe.results)
            bound = Bound(recipe, program(recipe), *arrays)
        self._bound[key] = bound
        if len(self._bound) > _MOST_BOUND:
            self._bound.popitem(last=False)
        return bound


def _hubs(n: int) -> range:
    return range(n if n <= _MOST_HUBS else 1)


class _Comparing:
    """How the calls of all tasks are compared: programs of their own, not counted."""

    def __init__(self, linked: LinkedMember, capacity: int, meter: Meter) -> None:
        n, me = len(linked.endpoint.names), linked.me
        self._linked, self._n, self._me, self._hubs = linked, n, me, _hubs(n)
        self._is_hub = me in self._hubs
        # Two, in turn: who is quick may be in the next call while another task still
        # reads what it has put down for this one.
        desks = [Range(capacity + at, capacity + at + 16) for at in (0, 128)]
        word = Range(capacity + 64, capacity + 72)
        slots = [
            Range(capacity + (1 + rank) * _DESK, capacity + (2 + rank) * _DESK)
            for rank in range(n)
        ]
        whole = Range(slots[0].lo, slots[-1].hi)
        ports, memory = linked.endpoint.ports, linked.memory
        self._own = [memory.typed(GRAD, desk).view(np.uint64) for desk in desks]
        self._table = memory.typed(GRAD, whole).reshape(n, _DESK)
        others = [rank for rank in range(n) if rank != me]

        def theirs(rank: int, part: Range) -> Array:
            return ports[rank].window(GRAD, part, separate=True)

        if self._is_hub:
            self._word = memory.typed(GRAD, word).view(np.uint64)
            self._words = [
                [theirs(rank, desk).view(np.uint64) for rank in others]
                for desk in desks
            ]
            self._slots = {rank: theirs(rank, slots[rank]) for rank in others}
        else:
            self._word = theirs(0, word).view(np.uint64)
            self._all = theirs(0, whole).reshape(n, _DESK)
        plans = [self._plan(others, [desk] * n, word) for desk in desks]
        plans.append(self._plan(others, slots, whole))
        self._programs = [
            Program(plan, linked.endpoint, memory, meter, expects=False, once=True)
            for plan in plans
        ]

    def _plan(
        self, others: Sequence[int], asked: Sequence[Range], answer: Range
    ) -> Plan:
        hubs, mine = self._hubs, asked[self._me]
        asking: list[Op] = [
            Send(rank, GRAD, mine, _REDUCE) for rank in others if rank in hubs
        ]
        if not self._is_hub:
            return Plan(((*asking, Receive(0, GRAD, answer, _REDUCE)),), ())
        asking += [Receive(rank, GRAD, asked[rank], _REDUCE) for rank in others]
        telling = [
            Send(rank, GRAD, answer, _REDUCE) for rank in others if rank not in hubs
        ]
        return Plan((tuple(asking), tuple(telling)), ())

    def verdict(self, number: int, strict: int, loose: int) -> int:
        """Return whether all tasks are in the same call, or one whose values differ."""
        if self._n == 1:
            return _SAME
        desk = number % 2
        program = self._programs[desk]
        program.expect()
        self._own[desk][:] = strict, loose
        if not self._is_hub:
            program.step()
            return int(self._word[0])
        program.reduce(0)
        words = [(int(word[0]), int(word[1])) for word in self._words[desk]]
        if all(theirs == strict for theirs, _ in words):
            self._word[0] = _SAME
        elif all(theirs == loose for _, theirs in words):
            self._word[0] = _TABLE
        elif self._me == 0:
            raise CallsDiffer
        else:  # the first task says who is where, and so ends this wait
            self._linked.endpoint.until(lambda: False)
        self._tell(program)
        return int(self._word[0])

    def _tell(self, program: Program) -> None:
        program.reduce(1)
        self._linked.endpoint.flush()

    def table(self, form: Form) -> list[Form]:
        """Return the forms of all tasks' values."""
        data = packed(form)
        mine = self._table[self._me]
        is_long = len(data) > _DESK - 4
        mine[:4].view(np.uint32)[0] = _TOO_LONG if is_long else len(data)
        if not is_long:
            mine[4 : 4 + len(data)] = np.frombuffer(data, np.uint8)
        program = self._programs[-1]
        program.expect()
        if not self._is_hub:
            program.step()
            return [_read(row) for row in self._all]
        program.reduce(0)
        for rank, slot in self._slots.items():
            self._table[rank] = slot
        self._tell(program)
        return [_read(row) for row in self._table]


def _read(row: Array) -> Any:
    length = int(row[:4].view(np.uint32)[0])
    if length == _TOO_LONG:
        raise InvalidArgumentError(
            "a value has too many parts to be different on each task; make one array "
            "of them, or give all tasks values of the same form."
        )
    return unpacked(row[4 : 4 + length].tobytes())
