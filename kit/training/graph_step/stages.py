"""A graph's nodes in the order in which gradients leave: stage by stage.

Pure. The nodes of a loss and of its gradients are cut where some gradients are ready to
be handed over, last layers first. A stage takes what it needs from the feeds and from
stages before it, and gives its goals and what later stages need.

    nodes     x  h1  h2  loss  | dh2  dw2 |  dh1  dw1
    goals                             dw2         dw1, loss
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kit.graph.node import Edge, Node


class Stage(NamedTuple):
    """Some nodes in their order, what they take, and what is wanted of them."""

    nodes: tuple[Node, ...]
    takes: tuple[Edge, ...]
    goals: tuple[Edge, ...]
    gives: tuple[Edge, ...]
    """The goals first, then what later stages take."""


def cut(
    nodes: Sequence[Node], feeds: Sequence[Edge], goals: Sequence[Sequence[Edge]]
) -> list[Stage]:
    """Return one stage for each group of goals; `nodes` stand in running order.

    A stage holds the nodes that its goals need and that no stage before it has.
    """
    by_name = {node.name: node for node in nodes}
    fed, done = set(feeds), set[str]()
    parts: list[list[Node]] = []
    for wanted in goals:
        needed = _needed(by_name, [edge for edge in wanted if edge not in fed], fed)
        parts.append([one for one in nodes if one.name in needed - done])
        done |= needed
    return [_stage(parts, goals, at) for at in range(len(parts))]


def _stage(
    parts: Sequence[Sequence[Node]], goals: Sequence[Sequence[Edge]], at: int
) -> Stage:
    own, wanted = parts[at], tuple(dict.fromkeys(goals[at]))
    names = {node.name for node in own}
    outside = [edge for edge in _inputs(own) if edge[0] not in names]
    takes = dict.fromkeys([*outside, *(e for e in wanted if e[0] not in names)])
    later = [*_inputs(node for part in parts[at + 1 :] for node in part)]
    later += [edge for group in goals[at + 1 :] for edge in group]
    kept = [edge for edge in later if edge[0] in names]
    return Stage(
        tuple(own), tuple(takes), wanted, tuple(dict.fromkeys([*wanted, *kept]))
    )


def _inputs(nodes: Iterable[Node]) -> list[Edge]:
    return [edge for node in nodes for edge in node.inputs]


def _needed(
    nodes: Mapping[str, Node], wanted: Sequence[Edge], fed: set[Edge]
) -> set[str]:
    found: set[str] = set()
    stack = [name for name, _ in wanted]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            node = nodes[name]
            stack += [edge[0] for edge in node.inputs if edge not in fed]
            stack += node.control
    return found


def grouped(sizes: Sequence[int], least: int) -> list[list[int]]:
    """Return the numbers of things of these sizes in groups of at least `least`.

    >>> grouped([10, 90, 10], least=50)
    [[0, 1], [2]]
    """
    groups: list[list[int]] = [[]]
    size = 0
    for number, own in enumerate(sizes):
        if size >= least:
            groups.append([])
            size = 0
        groups[-1].append(number)
        size += own
    return groups
