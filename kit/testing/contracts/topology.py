"""What every topology must do, as one check that can be run on yours.

The plans are read, their messages are carried, and their operations are done in random
orders, as by members that run ahead or fall behind; then a step is carried out over
real ports, in threads. No process is started.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, product
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from kit.errors import InvalidArgumentError
from kit.exchange.execution.program import Program
from kit.exchange.layout import ITEMSIZE, Bucket, Layout, Range, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import (
    NEXT,
    SPARE,
    Add,
    Apply,
    Copy,
    Group,
    Op,
    Plan,
    Receive,
    Send,
)
from kit.exchange.ports.memory import Memory
from kit.exchange.topologies.counting import (
    counted_hops,
    counted_loads,
    counted_messages,
    counted_traffic,
)
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import (
    Topology,
    is_served,
    per_member,
    steps_to_all,
)
from kit.testing.contracts.group_algorithm import check_as_algorithm
from kit.testing.contracts.interleaving import InterleavedMembers
from kit.testing.contracts.wanted_sums import WantedSums
from kit.testing.group import LocalMember, local_group, run_together

Array = npt.NDArray[Any]
MODELS: tuple[tuple[Spec, ...], ...] = (
    (Spec("w", (24,), "float32"),),
    (Spec("w", (3,), "float32"),),  # fewer elements than some groups have workers
    (Spec("w", (0,), "float32"),),  # nothing at all, and still a step
    (
        Spec("a", (5, 7), "float32"),
        Spec("b", (11,), "float64"),
        Spec("c", (), "float32"),
    ),
)
_STEPS = 2  # one with each place of the parameters
_MOST_TASKS = 6  # of a group that calls it
_EVEN = 5040  # elements that any few workers and servers share evenly


def check_topology(
    topology: Topology,
    *,
    workers: Iterable[int] = (1, 2, 3, 5),
    servers: Iterable[int] = (0, 1, 2),
    models: Iterable[Sequence[Spec]] = MODELS,
    bucket_bytes: int = 64,
    seed: int = 0,
    exact: bool = True,
) -> None:
    """Raise `AssertionError` for the first rule that a topology breaks.

    For each number of workers and servers and each model, with the workers on one host,
    on two or three, and dealt out to two in turn, it checks that

    * plans are the same whenever they are made, name members of the group, never the
      member itself, and ranges that lie in one bucket;
    * each message is the one that its receiver expects, and nobody waits for ever;
    * every parameter is updated by those that `owners` says, and by nobody else, and
      by the servers that hold it if asynchronous steps or backup workers are allowed;
    * every worker ends with the sum of all gradients, added chunk by chunk in its
      `order`, by default `kit.exchange.plan.chain`, however far some members run ahead
      of others;
    * where not all agree, nobody updates, every worker ends with the sum of its
      `neighbourhood` in that order, and the mean of all workers stays what it was;
    * `traffic`, `n_messages`, `hops` and `loads` say what the plans do, and `rows`
      names members of the group; `turns`, if it says so, holds;
    * where all agree and no server is needed, it serves a group of two to six tasks as
      ``all_reduce(algorithm=...)``: for all dtypes and ops the bits of its `order` and
      the bytes of its `traffic`, in split groups too; a wrong call and a task that has
      gone end on all tasks with their names.

    Parameters
    ----------
    topology : Topology
        An instance of your class. It need not be registered.
    workers : iterable of int, default (1, 2, 3, 5)
        Numbers of workers to try.
    servers : iterable of int, default (0, 1, 2)
        Numbers of parameter servers to try; 0 is left out for a topology that needs
        one.
    models : iterable of sequences of Spec
        Parameters to try. The last ones are also exchanged over real ports.
    bucket_bytes : int, default 64
        Size of the buckets into which the parameters are cut.
    seed : int, default 0
        Decides the gradients and the orders in which members take turns.
    exact : bool, default True
        Whether sums have to have the bits of the documented order. False lets a
        topology add in any order; then a training with it has other last bits than
        with the others, and may not be switched to from them without a change of these.

    Raises
    ------
    AssertionError
        With the group that was tried, what the topology says and what its plans do.
    InvalidArgumentError
        There is no model or no number of servers to try.

    Notes
    -----
    The defaults take some seconds.

    Examples
    --------
    >>> from kit.exchange.topologies.ring import Ring
    >>> from kit.testing import check_topology
    >>> check_topology(Ring(), workers=[2, 3])
    >>> class Boastful(Ring):
    ...     def traffic(self, layout, group):
    ...         return {}
    >>> check_topology(Boastful(), workers=[2])
    Traceback (most recent call last):
    AssertionError: ...: traffic says nothing of REDUCE from worker:0 to worker:1, ...
    """
    chosen = [n for n in servers if n or not topology.needs_ps]
    tried = [tuple(model) for model in models]
    if not (tried and chosen):
        raise InvalidArgumentError(
            f"there is nothing to try topology {topology.name!r} with: {len(tried)} "
            f"models, and the numbers of servers {chosen}; give one of each."
        )
    sizes = [*workers]
    for n, n_ps in product(sizes, chosen):
        for hosts in _placements(n, n_ps):
            for model in tried:
                layout = lay_out(model, n, bucket_bytes)
                group = _group(layout, n, n_ps, hosts)
                trial = _Trial(topology, layout, group, exact).check(seed)
            trial.check_on_ports(seed)
        _check_loads(topology, n, n_ps)
    if topology.agrees and not topology.needs_ps:
        some = sorted(set(sizes) & {*range(2, _MOST_TASKS + 1)})
        check_as_algorithm(topology, some, seed, exact=exact)


def carry_messages(plans: Mapping[int, Plan]) -> None:
    """Carry all messages of a step, without memory or links.

    Raises `AssertionError` for a message that is not the one its receiver expects, for
    members that wait for ever, and for a message that nobody takes.
    """
    ops = {member: deque(plan.ops) for member, plan in plans.items()}
    sent: dict[tuple[int, int], deque[Send]] = defaultdict(deque)
    moving = True
    while moving:
        moving = False
        for member, own in ops.items():
            while own and _has_carried(member, own[0], sent):
                own.popleft()
                moving = True
    waiting = [f"member {member} for {own[0]}" for member, own in ops.items() if own]
    if waiting:
        raise AssertionError(f"these wait for ever: {'; '.join(waiting)}.")
    for (member, _), left in sent.items():
        if left:
            raise AssertionError(f"nobody takes what member {member} sends: {left[0]}.")


def _has_carried(
    member: int, op: Op, sent: Mapping[tuple[int, int], deque[Send]]
) -> bool:
    if isinstance(op, Send):
        sent[member, op.to].append(op)
    if isinstance(op, Receive):
        if not sent[op.source, member]:
            return False
        message = sent[op.source, member].popleft()
        if message[1:] != op[1:]:
            raise AssertionError(
                f"member {op.source} sends {message}, where member {member} expects "
                f"{op}."
            )
    return True


def _group(layout: Layout, n: int, n_ps: int, hosts: tuple[int, ...] = ()) -> Group:
    servers, workers = tuple(range(n_ps)), tuple(range(n_ps, n_ps + n))
    return Group(servers, workers, shards_of(layout, n_ps), hosts)


def _placements(n: int, n_ps: int) -> Iterator[tuple[int, ...]]:
    """Yield the hosts of all members: one, two or three in order, two in turn."""
    yield ()
    for n_hosts in range(2, min(n, 3) + 1):
        yield (0,) * n_ps + tuple(rank * n_hosts // n for rank in range(n))
    if n > 2:
        yield (0,) * n_ps + tuple(rank % 2 for rank in range(n))


@dataclass(frozen=True)
class _Trial:
    """One topology, one group, one model."""

    topology: Topology
    layout: Layout
    group: Group
    exact: bool = True

    def check(self, seed: int) -> _Trial:
        """Check everything that depends on them, the cheap things first; return it."""
        self._check_plans()
        if not self.topology.agrees:
            self._check_weights()
        try:
            carry_messages(self.plans)
        except AssertionError as error:
            self.fail(str(error))
        self._check_turns()
        self._check_owners()
        self._check_served()
        self._check_formulas()
        self._check_rows()
        self._check_sums(random.Random(seed))
        return self

    def fail(self, text: str) -> NoReturn:
        """Raise the error, with what was tried."""
        raise AssertionError(
            f"topology {self.topology.name!r} with {len(self.group.workers)} workers, "
            f"{len(self.group.ps) or 'no'} servers and {self.layout.payload_bytes} "
            f"bytes in {len(self.layout.buckets)} buckets{self._where}: {text}"
        )

    @property
    def _where(self) -> str:
        hosts = ", ".join(map(str, self.group.hosts))
        return f", the members on hosts {hosts}" if hosts else ""

    def name(self, member: int) -> str:
        """Return what a member is called."""
        for job, members in (("ps", self.group.ps), ("worker", self.group.workers)):
            if member in members:
                return f"{job}:{members.index(member)}"
        return f"member {member}"

    @cached_property
    def plans(self) -> dict[int, Plan]:
        """The plans of those that do something."""
        return self.topology.plans(self.layout, self.group)

    # -- what the plans say -----------------------------------------------------------

    def _check_plans(self) -> None:
        again = self.topology.plans(self.layout, self.group)
        for member, plan in self.plans.items():
            name, n_buckets = self.name(member), len(self.layout.buckets)
            if again.get(member) != plan:
                self.fail(f"{name} gets another plan each time that it is made.")
            if len(plan.reduce) != n_buckets:
                self.fail(
                    f"the plan of {name} reduces {len(plan.reduce)} buckets; there "
                    f"must be one list of operations for each of the {n_buckets}."
                )
            for bucket, ops in zip(self.layout.buckets, plan.reduce, strict=True):
                for op in ops:
                    self._check_op(member, op, [bucket])
            for op in plan.finish:
                self._check_op(member, op, self.layout.buckets)

    def _check_op(self, member: int, op: Op, buckets: Sequence[Bucket]) -> None:
        name, part = self.name(member), op.range
        if part.size and not any(_is_in(part, bucket) for bucket in buckets):
            self.fail(f"{name} does {op}: its range is not whole items of one bucket.")
        for other in _partners(op):
            if other == member:
                self.fail(f"{name} does {op} with itself; use SELF in a term.")
            if other not in self.group.members:
                self.fail(f"{name} does {op}: there is no member {other}.")
        for region in _regions(op):
            if not 0 <= region < SPARE + self.layout.n_chunks:
                self.fail(f"{name} does {op}: there is no region {region}.")

    def _check_turns(self) -> None:
        n_chunks = len(self.layout.buckets) * self.layout.n_chunks
        is_full = self.layout.n_full_chunks == n_chunks  # else chunks look alike
        if not (is_full and vars(type(self.topology)).get("turns", False)):
            return
        workers = self.group.workers
        first, *others = (self._seen_from(seat) for seat in range(len(workers)))
        for worker, seen in zip(workers[1:], others, strict=True):
            if seen != first:
                self.fail(
                    f"{self.name(worker)} does something else than "
                    f"{self.name(workers[0])} would do in its place; leave out turns."
                )

    def _seen_from(self, seat: int) -> list[Any]:
        """Return a worker's operations, with others and chunks counted from it."""
        workers = self.group.workers
        plan, n = self.plans.get(workers[seat]), len(workers)
        chunks = {
            part: (number, (chunk - seat) % n)
            for number, bucket in enumerate(self.layout.buckets)
            for chunk, part in enumerate(bucket.chunks)
        }
        seen = [
            (
                type(op).__name__,
                [(workers.index(who) - seat) % n for who in _partners(op)],
                str(chunks.get(op.range, op.range)),
            )
            for op in (plan.ops if plan is not None else ())
        ]
        runs = groupby(seen, key=lambda row: row[0] == Add.__name__)
        return [sorted(run) if adds else [*run] for adds, run in runs]

    def _check_owners(self) -> None:
        owned = self.topology.owners(self.layout, self.group)
        held = np.zeros(self.layout.n_bytes, int)
        for owned_part in owned:
            held[slice(*owned_part.range)] += 1
        wanted = np.zeros(self.layout.n_bytes, int)
        for bucket in self.layout.buckets:
            wanted[slice(*bucket.range)] = 1
        for at in np.flatnonzero(held != wanted)[:1].tolist():
            self.fail(f"byte {at} is in {held[at]} ranges of owners, not {wanted[at]}.")
        says = {
            (m, item.range) for item in owned for m in item.members if item.range.size
        }
        does = {
            (member, op.range)
            for member, plan in self.plans.items()
            for op in plan.ops
            if isinstance(op, Apply) and op.range.size
        }
        if not self.topology.agrees:  # slots may have owners, but nobody updates
            says = set()
        for member, part in sorted(_bytes_of(says) ^ _bytes_of(does))[:1]:
            self.fail(
                f"owners and plans disagree about whether {self.name(member)} updates "
                f"byte {part}."
            )

    def _check_served(self) -> None:
        topology = self.topology
        says = [
            name
            for name in ("may_be_asynchronous", "may_have_backups")
            if getattr(topology, name)
        ]
        if says and not is_served(topology, self.layout, self.group):
            self.fail(
                f"it says {' and '.join(says)}, where workers meet at the servers; but "
                f"these do not own what they hold, or others own some of it."
            )

    def _check_weights(self) -> None:
        """Check that every worker weighs as much in the means as it has itself."""
        group, weights = self.group, dict.fromkeys(self.group.workers, 0.0)
        for worker in group.workers:
            others = self.topology.neighbourhood(group, worker)
            if worker not in others or not {*others} <= {*group.workers}:
                self.fail(
                    f"the neighbourhood of {self.name(worker)} is {others}; it has the "
                    f"worker itself and others of {group.workers}."
                )
            for other in others:
                weights[other] += 1 / len(others)
        for worker, weight in weights.items():
            if not math.isclose(weight, 1):
                self.fail(
                    f"{self.name(worker)} weighs {weight:g} in all means together, not "
                    f"1: the mean of all workers would not stay what it was."
                )
        try:
            steps_to_all(self.topology, group)
        except InvalidArgumentError as error:
            self.fail(error.message)

    def _check_formulas(self) -> None:
        said = self.topology.traffic(self.layout, self.group)
        counted = counted_traffic(self.plans)
        for source, target, kind in sorted(said.keys() | counted.keys()):
            key = source, target, kind
            if said.get(key, 0) == counted.get(key, 0):
                continue
            self.fail(
                f"traffic says {said.get(key, 'nothing')} of {kind.name} from "
                f"{self.name(source)} to {self.name(target)}, where the plans move "
                f"{counted.get(key, 0)} bytes."
            )
        n, does = (
            self.topology.n_messages(self.layout, self.group),
            counted_messages(self.plans),
        )
        if n != does:
            self.fail(f"n_messages is {n}, and the plans send {does} with contents.")
        said_hops = self.topology.hops(self.layout, self.group)
        hops = counted_hops(self.plans, self.group)
        if said_hops != hops:
            self.fail(
                f"hops is {said_hops}, and {hops} messages between hosts follow on "
                f"each other in the plans."
            )

    def _check_rows(self) -> None:
        shown = [task for row in self.topology.rows(self.group) for task in row]
        if len(set(shown)) < len(shown) or not set(shown) <= set(self.group.members):
            self.fail(
                f"rows are {self.topology.rows(self.group)}; give each member that has "
                f"a part once, of {self.group.members}."
            )

    # -- what the plans do ------------------------------------------------------------

    def _check_sums(self, dice: random.Random) -> None:
        ways = {
            "bucket by bucket": self.plans,
            "with its buckets woven together": self._woven(early=False),
            "updated bucket by bucket": self._woven(early=True),
        }
        is_spent = all(plan.overwrites for plan in self.plans.values())
        for way, plans in ways.items():
            for overwrites in (False, True)[: 1 + is_spent]:
                self._check_sum(way, plans, dice, overwrites=overwrites)

    def _woven(self, *, early: bool) -> dict[int, Plan]:
        made = {
            m: pipelined(p, self.layout, early=early) for m, p in self.plans.items()
        }
        carry_messages(made)
        return made

    def _check_sum(
        self,
        way: str,
        plans: Mapping[int, Plan],
        dice: random.Random,
        *,
        overwrites: bool,
    ) -> None:
        # One number for each byte: what a range contains does not matter here.
        values = np.random.default_rng(dice.getrandbits(32))
        size, workers = self.layout.n_bytes, self.group.workers
        start = values.standard_normal(size)
        gradients = [
            {worker: _uneven(values, size) for worker in workers} for _ in range(_STEPS)
        ]
        stays = not self.topology.agrees
        members = InterleavedMembers(plans, start, overwrites=overwrites, stays=stays)
        sums = members.run(gradients, dice)
        wanted = self._sums.after(start, gradients)
        for worker in workers:
            want, scale = wanted[worker], sum(map(_size, gradients))
            self._compare(worker, way, sums[worker], want, scale)

    def _compare(
        self, worker: int, way: str, total: Array, want: Array, size: Any
    ) -> None:
        used = np.zeros(total.size, bool)  # between two dtypes there may be a gap
        for bucket in self.layout.buckets:
            used[slice(*bucket.range)] = True
        wrong = np.flatnonzero(used & (total != want))
        if not wrong.size:
            return
        name, at = self.name(worker), int(wrong[0])
        if (np.abs(total - want) <= 1e-9 * (size + np.abs(want)))[used].all():
            if not self.exact:
                return
            order = "chunk c of n workers is added in the order that order(n, c) says"
            if not self.topology.agrees:
                order = "a sum is added in the order of the neighbourhood"
            self.fail(
                f"{way}, {name} has the sum of byte {at}, added in another order; "
                f"{order}."
            )
        self.fail(
            f"{way}, {name} has a wrong number at byte {at}: a gradient is missing or "
            f"counted twice, or a range was written before its reader had read it."
        )

    @cached_property
    def _sums(self) -> WantedSums:
        return WantedSums(self.topology, self.layout, self.group)

    # -- over real ports --------------------------------------------------------------

    def check_on_ports(self, seed: int) -> None:
        """Carry a step out over real ports, each member in a thread."""
        for in_place in (True, False) if not self.group.hosts else (False,):
            self._check_on_ports(seed, in_place=in_place)

    def _check_on_ports(self, seed: int, *, in_place: bool) -> None:
        layout, group = self.layout, self.group
        how = "in shared memory" if in_place else "over streams"
        hosts = group.hosts
        filled = {worker: Memory(layout) for worker in group.workers}
        for worker, memory in filled.items():
            _fill(memory, seed, worker)
        wanted = self._sums.step(filled)
        n = len(group.members)
        with local_group(
            layout, n, in_place=in_place, hosts=hosts, trace_rows=100
        ) as members:
            run_together(members, lambda item: self._step(item, seed))
            for worker in group.workers:
                want = wanted[worker].leaves(NEXT)
                for name, value in members[worker].memory.leaves(NEXT).items():
                    is_near = np.allclose(value, want[name], 1e-5, 1e-6)
                    if not (
                        is_near if not self.exact else np.array_equal(value, want[name])
                    ):
                        self.fail(
                            f"{how}, {self.name(worker)} has other bits of {name!r}."
                        )
            formula = self.topology.traffic(layout, group)
            for member in members:
                moved = sum(int(row["bytes"]) for row in member.meter.totals())
                said = per_member(formula, member.number)[1]
                if moved != said:
                    self.fail(
                        f"{how}, {self.name(member.number)} received {moved} bytes, "
                        f"where traffic says {said}."
                    )

    def _step(self, member: LocalMember, seed: int) -> None:
        if member.number not in self.plans:
            return
        if member.number in self.group.workers:
            _fill(member.memory, seed, member.number)
        ports = member.endpoint, member.memory, member.meter
        member.endpoint.stamp.stays = not self.topology.agrees
        Program(self.plans[member.number], *ports, update=_descend).step()


def _descend(
    now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
) -> None:
    np.subtract(now, total, out=out)


def _fill(memory: Memory, seed: int, worker: int) -> None:
    """Write the gradient of a worker; the parameters are zeros."""
    for gradient in memory.gradients().values():
        gradient[...] = np.random.default_rng([seed, worker]).random(gradient.shape)


def _check_loads(topology: Topology, n: int, n_ps: int) -> None:
    """Compare the cost model's numbers with the plans of an evenly divided model."""
    n_buckets = max(2, n_ps)
    layout = lay_out([Spec("w", (_EVEN,), "float32")], n, 4 * _EVEN // n_buckets)
    trial = _Trial(topology, layout, _group(layout, n, n_ps))
    _, said = topology.loads(n, n_ps, 4 * _EVEN, n_buckets)
    _, does = counted_loads(trial.plans, trial.group)
    for name, value, other in zip(does._fields, said, does, strict=True):
        if not math.isclose(value, other):
            trial.fail(
                f"loads says {name}={value:g} of all tasks; the plans have {other}."
            )


def _uneven(values: np.random.Generator, size: int) -> Array:
    """Return numbers of very different sizes: another order gives another sum."""
    scale = 10.0 ** values.integers(-6, 6, size)
    return np.asarray(values.standard_normal(size) * scale)


def _size(gradients: Mapping[int, Array]) -> Any:
    return sum(np.abs(gradient) for gradient in gradients.values())


def _is_in(part: Range, bucket: Bucket) -> bool:
    lo, hi = bucket.range
    is_whole = not (part.lo - lo) % ITEMSIZE[bucket.dtype]
    return (
        lo <= part.lo <= part.hi <= hi
        and is_whole
        and not (part.size % ITEMSIZE[bucket.dtype])
    )


def _partners(op: Op) -> Iterator[int]:
    match op:
        case Send(to=other) | Receive(source=other):
            yield other
        case Add(terms=terms):
            yield from (term.member for term in terms if term.member >= 0)
        case Copy(source=term) if term.member >= 0:
            yield term.member


def _regions(op: Op) -> Iterator[int]:
    match op:
        case Send(region=region) | Receive(region=region):
            yield region
        case Add(terms=terms):
            yield from (term.region for term in terms)
        case Copy(source=term, into=into):
            yield from (term.region, into)


def _bytes_of(parts: Iterable[tuple[int, Range]]) -> set[tuple[int, int]]:
    return {(member, at) for member, part in parts for at in range(*part)}
