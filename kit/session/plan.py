"""A plan: what one kind of run (these feeds, fetches, targets) means for each task.

Pure. Made once, and then used for every run with the same feeds and fetches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.graph.node import Edge, Node
from kit.session.devices import Device, place
from kit.session.partition import Segment, partition, prune
from kit.task import Task


@dataclass(frozen=True)
class Plan:
    """Segments by task, and where feeds go and fetches come from.

    Attributes:
        number: its name within the session.
        segments: by task; tasks without work are not in it.
        feed_of: for each segment, which of the run's feeds it gets, in its order.
        fetch_from: for each of the run's fetches, the task and the number within its
            segment's fetches.
    """

    number: int
    segments: Mapping[Task, Segment]
    feed_of: Mapping[Task, tuple[int, ...]]
    fetch_from: tuple[tuple[Task, int], ...]


def make_plan(
    number: int,
    nodes: Mapping[str, Node],
    feeds: Sequence[Edge],
    fetches: Sequence[Edge],
    targets: Sequence[str],
    *,
    devices: Sequence[Device],
    target: Task,
    soft: bool,
) -> Plan:
    """Prune, place and cut.

    Raises `PlacementError` and `InvalidArgumentError`. Fetches must not be fed.
    """
    placed = place(nodes, devices, target, soft=soft)
    order = prune(nodes, fetches, targets, feeds)
    segments = partition(order, placed, fetches, feeds, target)
    index = {edge: i for i, edge in enumerate(feeds)}
    return Plan(
        number,
        segments,
        {
            task: tuple(index[edge] for edge in one.feeds)
            for task, one in segments.items()
        },
        tuple(
            (placed[edge[0]].task, segments[placed[edge[0]].task].fetches.index(edge))
            for edge in fetches
        ),
    )
