"""In which order servers took pushes, and whose were late: what a replay must be told.

Pure. Where a server serves workers in their turn, the order decides the bits, and it is
recorded. In asynchronous steps each server has an order of its own. Of a training that
lost tasks meanwhile it is more: a lost worker may have pushed without reporting it.
With one server there is still one order: that of the steps that workers were told of,
and, for a step that nobody was told of, that of the pushes that the server took. With
several servers a push may have reached only some of them. Steps that were done again,
in another order, are recorded twice. With backup workers a step is made of the pushes
that counted, in the canonical order of their workers, so a set is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kit.errors import FailedPreconditionError, UnimplementedError
from kit.recording.recomputing.stretches import Stretch
from kit.trace.log import Rows
from kit.trace.named_rows import Change
from kit.training.core.job import Job

#: By asynchronous epoch and server, the workers whose pushes it took, in order.
Orders = Mapping[tuple[int, int], Sequence[int]]


class Pushed(NamedTuple):
    """The workers that pushed a gradient of a step: those that counted, and late."""

    counted: frozenset[int]
    late: frozenset[int]


def pushed_in(job: Job, pushed: Mapping[int, Pushed], step: int) -> Pushed:
    """Return who computed a step; `FailedPreconditionError` if that is unknown."""
    pushes = pushed.get(step, Pushed(frozenset(), frozenset()))
    if len(pushes.counted) != job.aggregate:
        raise FailedPreconditionError(
            f"step {step} was made of {job.aggregate} gradients, and whose is in the "
            f"recording for {len(pushes.counted)} of them. Record a training from its "
            f"start, with the setting trace on."
        )
    return pushes


def order_of(job: Job, orders: Orders, stretch: Stretch, server: int) -> Sequence[int]:
    """Return whose pushes a server took; `FailedPreconditionError` if not all are."""
    order = orders.get((stretch.row.number, server), ())
    size = stretch.end - stretch.begin
    if len(order) < size:
        raise FailedPreconditionError(
            f"{job.tasks[server].short} took {size} pushes in the asynchronous steps "
            f"{stretch.begin} to {stretch.end}, and the order of {len(order)} of them "
            f"is in the recording. Record a training from its start, with the setting "
            f"trace on."
        )
    return order


def has_losses(stretches: Sequence[Stretch]) -> bool:
    """Whether a generation of the training ended while it was asynchronous."""
    return any(
        before.row.is_asynchronous and before.row.generation != after.row.generation
        for before, after in pairwise(stretches)
    )


def check_losses(
    job: Job, stretches: Sequence[Stretch], changes: Sequence[Change]
) -> None:
    """Raise `UnimplementedError` where the order of the updates is not recorded."""
    if not has_losses(stretches):
        return
    why = ""
    if any(change.repeated for change in changes):
        why = "steps were done again, and in which order they were first is not kept"
    elif len(serving(job)) > 1:
        why = "each of its servers may have taken another number of pushes"
    elif job.states:
        why = "what a lost worker kept from step to step is not recorded"
    if why:
        raise UnimplementedError(
            f"a training that lost tasks while it was asynchronous cannot be replayed "
            f"here: {why}. It can be loaded and compared all the same."
        )


def serving(job: Job) -> list[int]:
    """Return the servers that hold parameters."""
    pairs = zip(job.ps, job.group.shards, strict=True)
    return [server for server, shard in pairs if any(part.size for part in shard)]


def orders_with_losses(
    job: Job, stretches: Sequence[Stretch], steps: Rows, pushes: Rows
) -> Orders:
    """Return whose pushes the one server took, in order, in each asynchronous epoch.

    An order ends before the first step that is not recorded.
    """
    done = steps[steps["examples"] > 0]
    by_worker = dict(zip(done["step"].tolist(), done["task"].tolist(), strict=True))
    orders: dict[tuple[int, int], list[int]] = {}
    for stretch in stretches:
        if not stretch.row.is_asynchronous:
            continue
        mine = pushes[pushes["epoch"] == stretch.row.number]
        taken = dict(zip(mine["step"].tolist(), mine["worker"].tolist(), strict=True))
        order: list[int] = []
        for step in range(stretch.begin, stretch.end):
            worker = by_worker.get(step, taken.get(step))
            if worker is None:
                break
            order.append(worker)
        for server in serving(job):
            orders[stretch.row.number, server] = order
    return orders
