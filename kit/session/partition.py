"""From fetches to segments: what must run, and what each task gets and gives.

Pure. Nodes that no fetch needs are left out. Every tensor that is used on another task
is sent there once in a run, however many use it; a control edge to another task sends
an empty tensor. Within a segment the nodes stand in an order that is the same on all
tasks, so waiting for each other's tensors can never be a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kit.errors import InvalidArgumentError
from kit.graph.node import Edge, Node
from kit.graph.table import lookup
from kit.session.devices import Device
from kit.task import Task

DONE = -1  # the "output" that says only that an op is done


@dataclass
class Segment:
    """One task's part of a plan.

    Attributes:
        nodes: in the order in which they run.
        devices: of each node, in the same order.
        feeds: tensors whose values come with the run.
        receives: tensors that come from another task: (tensor, source).
        sends: tensors that others need: (tensor, destination).
        fetches: tensors that go back to the master.
    """

    nodes: list[Node] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    feeds: list[Edge] = field(default_factory=list)
    receives: list[tuple[Edge, Task]] = field(default_factory=list)
    sends: list[tuple[Edge, Task]] = field(default_factory=list)
    fetches: list[Edge] = field(default_factory=list)


def prune(
    nodes: Mapping[str, Node],
    fetches: Sequence[Edge],
    targets: Sequence[str],
    feeds: Collection[Edge],
) -> list[Node]:
    """Return what must run for fetches and targets, each node after all it needs.

    What may block stands as late as possible, else the graph's own order is kept.
    Raises `InvalidArgumentError` when nodes need each other in a circle.
    """
    fed = set(feeds)
    stack = [name for name, _ in fetches if (name, _) not in fed] + list(targets)
    needed: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack.extend(_needs(nodes[name], fed))
    return _ordered([node for name, node in nodes.items() if name in needed], fed)


def _needs(node: Node, fed: set[Edge]) -> list[str]:
    return [edge[0] for edge in node.inputs if edge not in fed] + list(node.control)


def _ordered(nodes: Sequence[Node], fed: set[Edge]) -> list[Node]:
    """Sort so that each node follows what it needs; blocking ones wait."""
    done: set[str] = set()
    left = {node.name: node for node in nodes}
    order: list[Node] = []
    late = _behind_blocking(nodes, fed)
    for chosen in (False, True):
        for node in nodes:
            if (node.name in late) is chosen:
                _append(node, left, done, order, fed)
    return order


def _behind_blocking(nodes: Sequence[Node], fed: set[Edge]) -> set[str]:
    late: set[str] = set()
    # The graph's order is nearly always sorted already; a second look settles the rest.
    for _ in range(2):
        for node in nodes:
            if lookup(node.type).blocking or any(n in late for n in _needs(node, fed)):
                late.add(node.name)
    return late


def _append(
    node: Node,
    left: Mapping[str, Node],
    done: set[str],
    order: list[Node],
    fed: set[Edge],
) -> None:
    """Append a node after everything it needs, without recursion."""
    stack, open_names = [(node, False)], set[str]()
    while stack:
        one, is_ready = stack.pop()
        if one.name in done:
            continue
        if is_ready:
            done.add(one.name)
            open_names.discard(one.name)
            order.append(one)
            continue
        if one.name in open_names:
            raise InvalidArgumentError(
                f"the graph has a circle: op {one.name!r} needs its own result."
            )
        open_names.add(one.name)
        stack.append((one, True))
        needs = [left[n] for n in _needs(one, fed) if n in left and n not in done]
        circle = next((n for n in needs if n.name in open_names), None)
        if circle is not None:
            raise InvalidArgumentError(
                f"the graph has a circle: {circle.name!r} and {one.name!r} need each "
                f"other's result."
            )
        stack.extend((n, False) for n in reversed(needs))


def partition(
    order: Sequence[Node],
    placed: Mapping[str, Device],
    fetches: Sequence[Edge],
    feeds: Sequence[Edge],
    target: Task,
) -> dict[Task, Segment]:
    """Cut pruned nodes into one segment for each task that has some.

    A tensor that is both fed and fetched is the caller's affair.
    """
    fed = set(feeds)
    parts: dict[Task, Segment] = {}
    sent: set[tuple[Edge, Task]] = set()
    for node in order:
        here = placed[node.name].task
        part = parts.setdefault(here, Segment())
        part.nodes.append(node)
        part.devices.append(placed[node.name])
        for edge in (*node.inputs, *((name, DONE) for name in node.control)):
            if edge in fed:
                if edge not in part.feeds:
                    part.feeds.append(edge)
                continue
            source = placed[edge[0]].task
            if source != here and (edge, here) not in sent:
                sent.add((edge, here))
                part.receives.append((edge, source))
                parts[source].sends.append((edge, here))
    for edge in dict.fromkeys(fetches):
        if edge not in fed:
            parts[placed[edge[0]].task].fetches.append(edge)
    return parts
