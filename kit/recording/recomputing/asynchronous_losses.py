"""In which order an asynchronous training was updated that lost tasks meanwhile.

A worker that is lost may have pushed without reporting it. With one server there is
one order all the same: that of the steps which the workers were told, and, of those
that nobody was told, of the pushes that the server took. With several servers a push
may have been complete at some of them alone. Steps that were done again, in another
order, are reported twice.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kit.errors import UnimplementedError
from kit.recording.recomputing.async_updates import Orders
from kit.recording.recomputing.stretches import Stretch
from kit.trace.log import Rows
from kit.training.elastic.generation import Change
from kit.training.job import Job


def has_losses(stretches: Sequence[Stretch]) -> bool:
    """Whether a generation of it ended while it was asynchronous."""
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
    """Return the servers that hold something."""
    pairs = zip(job.ps, job.group.shards, strict=True)
    return [server for server, shard in pairs if any(part.size for part in shard)]


def orders_with_losses(
    job: Job, stretches: Sequence[Stretch], steps: Rows, pushes: Rows
) -> Orders:
    """Return whose pushes the one server took, in order, in each asynchronous epoch.

    An order ends before the first step of which nothing is known.
    """
    told = steps[steps["examples"] > 0]
    by_worker = dict(zip(told["step"].tolist(), told["task"].tolist(), strict=True))
    found: dict[tuple[int, int], list[int]] = {}
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
            found[stretch.row.number, server] = order
    return found
