"""What compressed gradients travel in, how, and how many bytes that is.

Pure. Each stage of a compressor has a *wire*: a layout of its own, which a topology
sums up as it does gradients. To apply then only means that the sum is complete; what is
handed out is the sum. So the bytes of a step are those of the topology's formula for
these layouts, and nothing else is known of any topology.

    reduce   wire 0: sum, hand out the sums    wire 1: sum, hand out the sums    ...
    finish   nothing: each worker decodes, and updates all parameters
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kit.errors import InvalidArgumentError
from kit.exchange.layout import ITEMSIZE, Layout, Range, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import (
    Add,
    Apply,
    Copy,
    Group,
    Op,
    Plan,
    Receive,
    Send,
)
from kit.exchange.ports.memory import Array
from kit.exchange.topologies.parameter_placement import place
from kit.exchange.topologies.topology import Topology, Traffic

WireSpecs = tuple[tuple[Spec, ...], ...]  # of each stage


class Wire(NamedTuple):
    """What one stage sums up: its layout, and who holds what of it."""

    layout: Layout
    group: Group


def checked_specs(given: Sequence[Sequence[Spec]], who: str) -> WireSpecs:
    """Return what a compressor's `wires` gave; `InvalidArgumentError` if it is wrong.

    >>> checked_specs([[Spec("w", (3,), "float16")]], "Own")
    ((Spec(name='w', shape=(3,), dtype='float16'),),)
    """
    try:
        found = tuple(
            tuple(
                Spec(str(name), tuple(int(length) for length in shape), str(dtype))
                for name, shape, dtype in stage
            )
            for stage in given
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{who}.wires() gave {given!r}; give a list of stages, each a list of "
            f"kit.exchange.Spec(name, shape, dtype)."
        ) from error
    if not found or not all(found):
        raise InvalidArgumentError(
            f"{who}.wires() gave {len(found)} stages with {[*map(len, found)]} arrays; "
            f"give at least one stage, and each at least one array."
        )
    for number, stage in enumerate(found):
        names = [spec.name for spec in stage]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgumentError(
                f"{who}.wires() gave {twice[0]!r} twice in stage {number}; give each "
                f"array of a stage a name of its own."
            )
        for spec in stage:
            if spec.dtype not in ITEMSIZE or min(spec.shape, default=0) < 0:
                raise InvalidArgumentError(
                    f"{who}.wires() gave {spec} in stage {number}; dtypes are "
                    f"{', '.join(ITEMSIZE)}, and no length is below 0."
                )
    return found


def lay_out_wires(
    specs: WireSpecs, n_workers: int, bucket_bytes: int = 0
) -> tuple[Layout, ...]:
    """Return the layout of each stage, see `lay_out`."""
    return tuple(lay_out(stage, n_workers, bucket_bytes) for stage in specs)


def wires_of(layout: Layout, group: Group, placement: str) -> tuple[Wire, ...]:
    """Return the wires of a layout that has some; `group` is that of the parameters."""
    return tuple(
        Wire(one, Group(group.ps, group.workers, shards, group.hosts))
        for one in layout.wires
        for shards in [place(one, len(group.ps), placement)]
    )


def plan_of(
    topology: Topology, layout: Layout, wires: Sequence[Wire], member: int
) -> Plan | None:
    """Return what a member does in a step, one stage after the other.

    Each stage is what the plan calls a bucket. None if the member does nothing.
    """
    plans = [topology.plan(wire.layout, wire.group, member) for wire in wires]
    if any(plan is None for plan in plans):
        return None
    stages = [
        (pipelined(plan, wire.layout, early=True), start)
        for plan, wire, start in zip(plans, wires, layout.edges, strict=False)
        if plan is not None
    ]
    return Plan(
        tuple(tuple(_moved(op, by) for op in plan.ops) for plan, by in stages),
        (),
        placed=all(plan.placed for plan, _ in stages),
        overwrites=all(plan.overwrites for plan, _ in stages),
    )


def traffic_of(topology: Topology, wires: Sequence[Wire]) -> Traffic:
    """Return the bytes of a step: the topology's formula for each wire, added up."""
    total: Traffic = {}
    for wire in wires:
        for key, size in topology.traffic(wire.layout, wire.group).items():
            total[key] = total.get(key, 0) + size
    return total


def hand_out(
    now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
) -> None:
    """Hand out the sum itself: the `Update` of a wire."""
    if not np.shares_memory(out, total):
        np.copyto(out, total)


def _moved(op: Op, by: int) -> Op:
    """Return the operation on what lies so many bytes further on."""
    part = Range(op.range.lo + by, op.range.hi + by)
    match op:
        case Send() | Receive() | Add() | Copy() | Apply():
            return op._replace(range=part)
