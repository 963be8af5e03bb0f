"""A plan: what a run with certain feeds, fetches and targets means for each task.

Pure. Made once, and used for every run with the same feeds, fetches and targets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from kit.errors import KitError
from kit.graph.node import Edge, Node
from kit.graph.table import lookup
from kit.session.master.devices import Device
from kit.session.master.partition import READ_FOR, Segment, partition, prune
from kit.task import Task


class RunSignature(NamedTuple):
    """What distinguishes one kind of run from another; each kind has its own plan.

    `done` are ops that have run in an earlier part of the same run.
    """

    feeds: tuple[Edge, ...]
    fetches: tuple[Edge, ...]
    targets: tuple[str, ...]
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunPlan:
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
    kind: RunSignature,
    refused: Mapping[str, KitError] = MappingProxyType({}),
) -> RunPlan:
    """Prune and cut a placed graph.

    Raises `InvalidArgumentError` for a graph with a cycle, and the error of a needed
    node that was `refused` a place. Fetches must not be fed.
    """
    # A placeholder that is fed cannot run, and what must follow it need not wait.
    fed = [name for name, _ in kind.feeds if nodes[name].type == "Placeholder"]
    done = {*kind.done, *fed}
    order = prune(nodes, kind.fetches, kind.targets, kind.feeds, done)
    for node in order:
        if node.name in refused:
            raise refused[node.name]
    order = refreshed(order, kind.feeds)
    order, placed = read_at_home(order, placed, kind.feeds)
    segments = partition(order, placed, kind.fetches, kind.feeds, done)
    index = {edge: i for i, edge in enumerate(kind.feeds)}
    return RunPlan(
        segments,
        {
            task: tuple(index[edge] for edge in segment.feeds)
            for task, segment in segments.items()
        },
        tuple(
            (placed[edge[0]].task, segments[placed[edge[0]].task].fetches.index(edge))
            for edge in kind.fetches
        ),
    )


# --------------------------------------------------------------------------------------
# An op that uses a variable after an update in the same run gets the updated value.
#
#     read ──────────────► use                  use, which reads the variable itself
#     update ──control──► use         becomes   update ──control──► use
#
# Else the value would depend on when the shared `read` op happens to run.


# These take a variable itself and leave it as it is.
_LOOKING = frozenset({"IsVariableInitialized", "InitializedValue"})


def refreshed(order: Sequence[Node], feeds: Collection[Edge] = ()) -> list[Node]:
    """Return nodes, each after all it needs, with such reads replaced."""
    variables = {node.name for node in order if lookup(node.type).gives_ref}
    reads = _reads(order, variables, set(feeds))
    if not reads:
        return list(order)
    # Sets of variables are bits of one int: cheap to join, for all inputs of all ops.
    bits = {name: 1 << i for i, name in enumerate(variables)}
    changed: dict[str, int] = {}
    nodes_after = []
    for node in order:
        before = 0
        for name in node.control:
            before |= changed.get(name, 0)
        for name, _ in node.takes:
            before |= changed.get(name, 0)
        changed[node.name] = before | _changes(node, bits)
        nodes_after.append(_fresh(node, reads, bits, before) if before else node)
    return nodes_after


def _reads(
    order: Sequence[Node], variables: Collection[str], feeds: Collection[Edge]
) -> dict[Edge, Edge]:
    """Return the outputs of `read` ops, with the variable that each reads.

    These are the readings that all users of a variable share. An op of `read_value`
    has a value of its own, which no later update changes.
    """
    return {
        (node.name, 0): node.inputs[0]
        for node in order
        if node.type == "Identity"
        and not node.control
        and node.name == f"{node.inputs[0][0]}/read"
        and node.inputs[0][0] in variables
        and node.inputs[0] not in feeds
        and (node.name, 0) not in feeds
    }


def _changes(node: Node, bits: dict[str, int]) -> int:
    """Return which variables an op changes, as a set of bits."""
    if node.type in _LOOKING:
        return 0
    bit_sum = 0
    for number in lookup(node.type).refs:
        if number < len(node.inputs):
            bit_sum |= bits.get(node.inputs[number][0], 0)
    return bit_sum


def _fresh(
    node: Node, reads: dict[Edge, Edge], bits: dict[str, int], before: int
) -> Node:
    inputs = tuple(
        reads[edge] if edge in reads and bits[reads[edge][0]] & before else edge
        for edge in node.inputs
    )
    return node if inputs == node.inputs else replace(node, inputs=inputs)


# --------------------------------------------------------------------------------------
# An op on another task gets a variable's value as if it were where the variable is.
#
#     ps                        worker             ps                        worker
#     w ──────────────────────► use     becomes    w ──► read ─────────────► use
#     first ──control─────────► use                first ──control──► read
#
# The reading waits for what its reader waits for: an update may come before or after
# it, in this run or in another client's.


def read_at_home(
    order: Sequence[Node], placed: Mapping[str, Device], feeds: Collection[Edge] = ()
) -> tuple[list[Node], Mapping[str, Device]]:
    """Return nodes with such readings among them, and the devices of all.

    Readers share a reading if they wait for the same, and nothing is changed between.
    """
    fed = set(feeds)
    refs = {(node.name, 0) for node in order if lookup(node.type).gives_ref} - fed
    far = {node.name: _read_elsewhere(node, placed, refs) for node in order}
    if not any(far.values()):
        return list(order), placed
    homes, reads = dict(placed), dict[tuple[Edge, int, int], Node]()
    nodes_after: list[Node] = []
    # What each op follows of those that change something, or read it; as bits.
    past: dict[str, int] = {}
    n_changes = n_parts = 0
    for node in order:
        needs = (*node.control, *(edge[0] for edge in node.takes if edge not in fed))
        waits = tuple(dict.fromkeys(name for name in needs if past.get(name)))
        before = 0
        for name in waits:
            before |= past[name]
        instead: dict[Edge, Edge] = {}
        for edge in far[node.name]:
            key = edge, before, n_changes
            if key not in reads:
                reads[key] = _reading(edge, node, waits)
                homes[reads[key].name] = placed[edge[0]]
                nodes_after.append(reads[key])
            instead[edge] = (reads[key].name, 0)
        inputs = tuple(instead.get(edge, edge) for edge in node.inputs)
        nodes_after.append(replace(node, inputs=inputs) if instead else node)
        op_def = lookup(node.type)
        is_change = op_def.stateful and not op_def.gives_ref
        n_changes += is_change
        is_part = is_change or not refs.isdisjoint(node.inputs)
        past[node.name] = before | (is_part << n_parts)
        n_parts += is_part
    return nodes_after, homes


def _read_elsewhere(
    node: Node, placed: Mapping[str, Device], refs: Collection[Edge]
) -> list[Edge]:
    """Return the variables on other tasks whose values a node takes."""
    taken, here = lookup(node.type).refs, placed[node.name].task
    return [
        edge
        for i, edge in enumerate(node.inputs)
        if edge in refs and i not in taken and placed[edge[0]].task != here
    ]


def _reading(edge: Edge, reader: Node, waits: tuple[str, ...]) -> Node:
    name = f"{edge[0]}{READ_FOR}{reader.name}"
    inputs = (edge,)
    return replace(
        reader, name=name, type="Identity", inputs=inputs, control=waits, attrs={}
    )
