"""A plan: what one kind of run (these feeds, fetches, targets) means for each task.

Pure. Made once, and then used for every run with the same feeds and fetches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from kit.errors import KitError
from kit.graph.node import Edge, Node
from kit.session.master.devices import Device
from kit.session.master.fresh_reads import refreshed
from kit.session.master.partition import Segment, partition, prune
from kit.task import Task


class Kind(NamedTuple):
    """What distinguishes one kind of run from another: it gets a plan of its own.

    `done` are ops that have run in an earlier part of the same run.
    """

    feeds: tuple[Edge, ...]
    fetches: tuple[Edge, ...]
    targets: tuple[str, ...]
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Segments by task, and where feeds go and fetches come from.

    Attributes:
        segments: by task; tasks without work are not in it.
        feed_of: for each segment, which of the run's feeds it gets, in its order.
        fetch_from: for each of the run's fetches, the task and the number within its
            segment's fetches.
    """

    segments: Mapping[Task, Segment]
    feed_of: Mapping[Task, tuple[int, ...]]
    fetch_from: tuple[tuple[Task, int], ...]


def make_plan(
    nodes: Mapping[str, Node],
    placed: Mapping[str, Device],
    kind: Kind,
    refused: Mapping[str, KitError] = MappingProxyType({}),
) -> Plan:
    """Prune and cut a placed graph.

    Raises `InvalidArgumentError` for a graph with a circle, and the error of a node
    that is needed and was `refused` a place. Fetches must not be fed.
    """
    # A placeholder that is fed cannot run, and whoever must follow it need not wait.
    fed = [name for name, _ in kind.feeds if nodes[name].type == "Placeholder"]
    done = {*kind.done, *fed}
    order = prune(nodes, kind.fetches, kind.targets, kind.feeds, done)
    for node in order:
        if node.name in refused:
            raise refused[node.name]
    order = refreshed(order, kind.feeds)
    segments = partition(order, placed, kind.fetches, kind.feeds, done)
    index = {edge: i for i, edge in enumerate(kind.feeds)}
    return Plan(
        segments,
        {
            task: tuple(index[edge] for edge in one.feeds)
            for task, one in segments.items()
        },
        tuple(
            (placed[edge[0]].task, segments[placed[edge[0]].task].fetches.index(edge))
            for edge in kind.fetches
        ),
    )
