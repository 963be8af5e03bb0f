"""The stages in which compressed gradients travel, how, and how many bytes that is.

Pure. Each stage of a compressor has its own layout, which a topology sums up as it does
gradients. To apply then only means that the sum is complete, and the sum is what is
handed out. So the bytes of a step are those of the topology's formula for these
layouts, and no topology needs to know about compression.

    reduce   stage 0: sum, hand out the sums    stage 1: sum, hand out the sums    ...
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
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import Topology, Traffic

StageSpecs = tuple[tuple[Spec, ...], ...]  # the arrays of each stage


class Stage(NamedTuple):
    """What one stage sums up: its layout, and who holds what of it."""

    layout: Layout
    group: Group


def checked_specs(stages: Sequence[Sequence[Spec]], who: str) -> StageSpecs:
    """Return what a compressor's `stages` gave; `InvalidArgumentError` if it is wrong.

    >>> checked_specs([[Spec("w", (3,), "float16")]], "Own")
    ((Spec(name='w', shape=(3,), dtype='float16'),),)
    """
    try:
        result = tuple(
            tuple(
                Spec(str(name), tuple(int(length) for length in shape), str(dtype))
                for name, shape, dtype in stage
            )
            for stage in stages
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{who}.stages() gave {stages!r}; give a list of stages, each a list of "
            f"kit.exchange.Spec(name, shape, dtype)."
        ) from error
    if not result or not all(result):
        raise InvalidArgumentError(
            f"{who}.stages() gave {len(result)} stages with {[*map(len, result)]} "
            f"arrays. Give at least one stage, and each at least one array."
        )
    for number, stage in enumerate(result):
        names = [spec.name for spec in stage]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgumentError(
                f"{who}.stages() gave {twice[0]!r} twice in stage {number}; give each "
                f"array of a stage a name of its own."
            )
        for spec in stage:
            if spec.dtype not in ITEMSIZE or min(spec.shape, default=0) < 0:
                raise InvalidArgumentError(
                    f"{who}.stages() gave {spec} in stage {number}; dtypes are "
                    f"{', '.join(ITEMSIZE)}, and no length is below 0."
                )
    return result


def lay_out_stages(
    specs: StageSpecs, n_workers: int, bucket_bytes: int = 0
) -> tuple[Layout, ...]:
    """Return the layout of each stage, see `lay_out`."""
    return tuple(lay_out(stage, n_workers, bucket_bytes) for stage in specs)


def stages_of(layout: Layout, group: Group, placement: str) -> tuple[Stage, ...]:
    """Return the stages of a layout that has any; `group` is that of the parameters."""
    return tuple(
        Stage(stage, Group(group.ps, group.workers, shards, group.hosts))
        for stage in layout.stages
        for shards in [shards_of(stage, len(group.ps), placement)]
    )


def plan_of(
    topology: Topology, layout: Layout, stages: Sequence[Stage], member: int
) -> Plan | None:
    """Return what a member does in a step, one stage after the other.

    Each stage is what the plan calls a bucket. None if the member does nothing.
    """
    plans = [topology.plan(stage.layout, stage.group, member) for stage in stages]
    if any(plan is None for plan in plans):
        return None
    # Early, whatever the optimizer: a stage only hands out sums, so a step that is
    # refused has changed no parameters.
    moved = [
        (pipelined(plan, stage.layout, early=True), start)
        for plan, stage, start in zip(plans, stages, layout.edges, strict=False)
        if plan is not None
    ]
    return Plan(
        tuple(tuple(_moved(op, by) for op in plan.ops) for plan, by in moved),
        (),
        placed=all(plan.placed for plan, _ in moved),
        overwrites=all(plan.overwrites for plan, _ in moved),
    )


def traffic_of(topology: Topology, stages: Sequence[Stage]) -> Traffic:
    """Return the bytes of a step: the topology's formula for each stage, added up."""
    total: Traffic = {}
    for stage in stages:
        for key, size in topology.traffic(stage.layout, stage.group).items():
            total[key] = total.get(key, 0) + size
    return total


def hand_out(
    now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
) -> None:
    """Hand out the sum itself: the `Update` of a stage, as of a plain all-reduce."""
    if not np.shares_memory(out, total):
        np.copyto(out, total)


def _moved(op: Op, by: int) -> Op:
    """Return the same operation on a range that is `by` bytes further on."""
    part = Range(op.range.lo + by, op.range.hi + by)
    match op:
        case Send() | Receive() | Add() | Copy() | Apply():
            return op._replace(range=part)
