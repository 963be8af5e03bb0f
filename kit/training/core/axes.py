"""The axes of a training: which gradients make a step, what travels, own work, hosts.

Pure. Each axis is an object that is asked, in place of a flag that is tested.

| schedule      | a step is made of      | workers meet                          |
|---------------|------------------------|---------------------------------------|
| Synchronous   | all workers' gradients | by the plan of a topology             |
| FirstArrivals | the first R gradients  | at the servers, each when it is ready |
| Asynchronous  | one gradient           | at the servers, each when it is ready |

A *payload* is what a topology sums up. Plain, these are the gradients, and the owner of
a range updates it and hands it out. Compressed, they are what the compressor makes of
them, stage by stage; each worker decodes the sums and updates all parameters by itself.

*Own work* is what a worker does by itself before each exchange: a gradient in one piece
or several, or steps on parameters of its own.

*Generations* say which processes host the members: here each its own task's, from the
beginning to the end. Others follow each other (`kit.training.features.elastic`).

Each names what carries it out (`kit.features.load`): the schedule and the payload a
member's part (`kit.training.core.part`), own work a class of `kit.training.worker`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from kit.exchange.compression import stages
from kit.exchange.compression.stages import Stage, hand_out
from kit.exchange.execution.bound_operations import Update
from kit.exchange.group.links import partners_of
from kit.exchange.layout import Layout, Range
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import Group, Owned, Plan
from kit.exchange.topologies.topology import Topology, Traffic
from kit.task import Task
from kit.trace.named_rows import Change
from kit.training.optimizers.rule import MeanUpdate, Optimizer


@dataclass(frozen=True)
class Schedule:
    """Which gradients make a step. Members are given by their numbers.

    Attributes:
        in_step: whether all members do the same numbered steps, so that they hold the
            same parameters before each.
        is_served: whether workers meet at the servers, each when it is ready; the order
            in which the servers took what came then decides the bits.
        server, worker: where the parts of members are that carry it out.
    """

    workers: tuple[int, ...]
    ps: tuple[int, ...]

    in_step: ClassVar[bool] = True
    is_served: ClassVar[bool] = True
    server: ClassVar[str]
    worker: ClassVar[str]

    def partners(self, plan: Plan | None, me: int) -> set[int]:
        """Return the members with which one deals in a step; here at the servers."""
        return {*self.workers} if me in self.ps else {*self.ps}

    def spares(self, lost: Collection[int], *, is_elastic: bool = False) -> bool:
        """Whether steps go on when these members are lost."""
        return False


class Synchronous(Schedule):
    """Each step is made of the gradients of all workers."""

    is_served = False
    server = "kit.training.core.part:SyncServer"
    worker = "kit.training.core.part:SyncWorker"

    def partners(self, plan: Plan | None, me: int) -> set[int]:
        """See `Schedule`: those that the plan names."""
        return {*partners_of(plan)}


@dataclass(frozen=True)
class FirstArrivals(Schedule):
    """Each step is made of the gradients that come first; the others are dropped."""

    n_awaited: int

    server = "kit.training.features.backup_workers.steps:QuorumServer"
    worker = "kit.training.features.backup_workers.steps:QuorumWorker"

    def partners(self, plan: Plan | None, me: int) -> set[int]:
        """See `Schedule`; the servers tell each other whose turn it is."""
        return super().partners(plan, me) | {*self.ps}

    def spares(self, lost: Collection[int], *, is_elastic: bool = False) -> bool:
        """See `Schedule`: workers but the first, if enough are left."""
        is_enough = len(self.workers) - len({*lost}) >= self.n_awaited
        return is_enough and {*lost} <= {*self.workers[1:]}


class Asynchronous(Schedule):
    """Each gradient is a step; a worker goes on with what the servers have by then."""

    in_step = False
    server = "kit.training.features.asynchronous.async_steps:AsyncServer"
    worker = "kit.training.features.asynchronous.async_steps:AsyncWorker"

    def spares(self, lost: Collection[int], *, is_elastic: bool = False) -> bool:
        """See `Schedule`: in an elastic training all workers but the first."""
        # They have steps of their own: the others go on until all copy, and lose none
        # of theirs.
        return is_elastic and {*lost} <= {*self.workers[1:]}


def schedule_of(
    workers: tuple[int, ...], ps: tuple[int, ...], aggregate: int, synchronous: bool
) -> Schedule:
    """Return the schedule of epochs that are synchronous, or not.

    `aggregate`: how many gradients make a step; 0 for those of all workers.
    """
    if not synchronous:
        return Asynchronous(workers, ps)
    if 0 < aggregate < len(workers):
        return FirstArrivals(workers, ps, aggregate)
    return Synchronous(workers, ps)


# --------------------------------------------------------------------------------------
# The payload, and own work.


@dataclass(frozen=True)
class Payload:
    """What travels; here the gradients themselves.

    Attributes:
        encodes: whether something else than the gradients travels.
        worker: where a worker's part is, if it is not that of the schedule.
    """

    layout: Layout
    group: Group
    optimizer: Optimizer
    placement: str

    encodes: ClassVar[bool] = False
    worker: ClassVar[str] = ""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What is summed up one after the other, and who holds what of it."""
        return (Stage(self.layout, self.group),)

    def range_of(self, stage: int) -> Range:
        """Return where a stage lies in the flat buffers."""
        return Range(0, self.layout.n_bytes)

    def owners(self, topology: Topology) -> tuple[Owned, ...]:
        """Return who updates which part of the parameters."""
        return topology.owners(self.layout, self.group)

    def plan(self, topology: Topology, member: int) -> Plan | None:
        """Return what a member does in a synchronous step; None if nothing at all."""
        return topology.plan(self.layout, self.group, member)

    def woven(self, plan: Plan) -> Plan:
        """Return a plan as it is carried out, see `kit.exchange.pipeline`."""
        return pipelined(plan, self.layout, early=not self.optimizer.slots)

    def update(self) -> Update:
        """Return what is done with a sum that is complete."""
        return MeanUpdate(self.optimizer, len(self.group.workers))

    def traffic(self, topology: Topology) -> Traffic:
        """Return the bytes of a step by the topology's formula."""
        return topology.traffic(self.layout, self.group)


class CompressedPayload(Payload):
    """What a compressor makes of the gradients, stage by stage."""

    encodes = True
    worker = "kit.training.features.compressed_steps:CompressedWorker"

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """See `Payload`."""
        return stages.stages_of(self.layout, self.group, self.placement)

    def range_of(self, stage: int) -> Range:
        """See `Payload`: behind the parameters."""
        lo = self.layout.edges[stage]
        return Range(lo, lo + self.stages[stage].layout.n_bytes)

    def owners(self, topology: Topology) -> tuple[Owned, ...]:
        """See `Payload`: each worker updates all."""
        parts = (bucket.range for bucket in self.layout.buckets)
        return tuple(Owned(part, self.group.workers) for part in parts)

    def plan(self, topology: Topology, member: int) -> Plan | None:
        """See `Payload`."""
        return stages.plan_of(topology, self.layout, self.stages, member)

    def woven(self, plan: Plan) -> Plan:
        """See `Payload`: it is woven as it is made."""
        return plan

    def update(self) -> Update:
        """See `Payload`: the sum is handed out as it is."""
        return hand_out

    def traffic(self, topology: Topology) -> Traffic:
        """See `Payload`."""
        return stages.traffic_of(topology, self.stages)


def writers_of(owners: Iterable[Owned], coordinator: int) -> tuple[int, ...]:
    """Return the members that own something; the coordinator if nobody owns a byte.

    >>> writers_of([Owned(Range(0, 8), (2, 3)), Owned(Range(8, 8), (4,))], 0)
    (2,)
    """
    first = {owned.members[0] for owned in owners if owned.range.size}
    return tuple(sorted(first)) or (coordinator,)


def ranges_of(owners: Iterable[Owned], member: int) -> tuple[Range, ...]:
    """Return the ranges that a member is the first to own."""
    return tuple(
        owned.range
        for owned in owners
        if owned.range.size and owned.members[0] == member
    )


@dataclass(frozen=True)
class OwnWork:
    """It computes a gradient, in one piece or in several.

    Attributes:
        hands_over: whether a gradient may leave before all are computed.
        may_keep: whether it may carry on something of its own from step to step.
        optimizers: for each optimizer of `kit.train`, the field of the job.
        by: where what carries it out is.
    """

    n_pieces: int

    hands_over: ClassVar[bool] = True
    may_keep: ClassVar[bool] = False
    optimizers: ClassVar[Mapping[str, str]] = {"optimizer": "optimizer"}
    by: ClassVar[str] = "kit.training.worker.accumulation:OwnGradient"

    def keeps(self, topology: Topology) -> bool:
        """Whether it carries on something in a training that begins with a topology."""
        return False


@dataclass(frozen=True)
class LocalTraining(OwnWork):
    """It makes steps on parameters of its own; how far they came is what travels."""

    n_steps: int
    optimizer: Optimizer

    hands_over = False
    may_keep = True
    optimizers: ClassVar[Mapping[str, str]] = {
        "outer": "optimizer",
        "optimizer": "inner",
    }
    by = "kit.training.features.local_steps:LocalSteps"

    def keeps(self, topology: Topology) -> bool:
        """See `OwnWork`: the optimizer's slots, or parameters that differ."""
        return len(self.optimizer.slots) > 0 or not topology.agrees


# --------------------------------------------------------------------------------------
# Which processes host the members.


@dataclass(frozen=True)
class OneGeneration:
    """The only generation of a training: the process of each member is its own task's.

    Attributes:
        origin: the run by which all generations belong together; "" for the job's.
        number: the higher the later.
        places: for each member, the task whose process hosts it, "" for none; empty
            where each is at home.
        standby: the processes that host no member.
        addresses: where each member's server listens; empty: as the cluster says.
        changes: why there were generations before this one.
        n_changes: how many.
        resumes: whether it begins with copies, which its members read.
        rehosts: whether other processes take over the members of one that is lost.
        is_followed: whether another generation may follow.
    """

    origin: str = ""
    number: int = 0
    places: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    n_changes: int = 0
    resumes: bool = False
    rehosts: bool = False
    placing: Any = None  # how members are to be spread; None if that cannot change

    is_followed: ClassVar[bool] = False

    @property
    def reached(self) -> int:
        """How many steps the generations before this one have committed."""
        return max((change.step for change in self.changes), default=0)

    def is_at_home(self, tasks: Sequence[Task]) -> bool:
        """Whether the process of each member is that of its own task."""
        return self.places in ((), tuple(task.short for task in tasks))

    def about(self, epoch: int) -> tuple[str, int, bool]:
        """Return what an `EpochRow` says of the generation of its epoch.

        Who takes part again, how many generations there were before, and whether it
        begins with copies.
        """
        comes_back = epoch == 1 and self.changes and not self.rehosts
        joined = ",".join(self.changes[-1].joined) if comes_back else ""
        return joined, self.n_changes, self.resumes

    def check(self, n_members: int) -> None:
        """Raise `InvalidArgumentError` unless it fits this number of members."""

    def to_plain(self) -> dict[str, Any] | None:
        """Return it as data that JSON can carry: here nothing."""
        return None
