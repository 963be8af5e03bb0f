"""An axis of a training: what travels in a step, and who updates the parameters.

Pure. A topology sums up arrays, whatever they are. Plain, these are the gradients, and
the owner of a range updates it and hands it out. Compressed, they are what the
compressor makes of them, stage by stage; each worker decodes the sums and updates all
parameters by itself (`kit.training.member.compressed_steps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kit.exchange.compression import stages
from kit.exchange.compression.stages import Stage, hand_out
from kit.exchange.execution.bound_operations import Update
from kit.exchange.layout import Layout, Range
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import Group, Owned, Plan
from kit.exchange.topologies.topology import Topology, Traffic
from kit.training.optimizers.rule import MeanUpdate, Optimizer


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
    worker = "kit.training.member.compressed_steps:CompressedWorker"

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
