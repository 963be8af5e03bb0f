"""Who uses a variable after an update in the same run gets the value after it.

Pure. A variable has one `read` op for the whole graph, which runs as early as it can.
An op that the graph puts behind an update of the variable, by data or by control, is
given the variable itself in its place, and so reads it there and then:

    read ──────────────► use                  use of what is read anew
    update ──control──► use         becomes   update ──control──► use
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kit.graph.node import Edge, Node
from kit.graph.table import lookup

# These take a variable itself and leave it as it is.
_LOOKING = frozenset({"IsVariableInitialized", "InitializedValue"})


def refreshed(order: Sequence[Node], feeds: Collection[Edge] = ()) -> list[Node]:
    """Return nodes, each after all it needs, with such readings replaced."""
    variables = {node.name for node in order if lookup(node.type).gives_ref}
    reads = _reads(order, variables, set(feeds))
    if not reads:
        return list(order)
    bits = {name: 1 << i for i, name in enumerate(variables)}
    changed: dict[str, int] = {}
    found = []
    for node in order:
        before = 0
        for name in node.control:
            before |= changed.get(name, 0)
        for name, _ in node.inputs:
            before |= changed.get(name, 0)
        changed[node.name] = before | _changes(node, bits)
        found.append(_fresh(node, reads, bits, before) if before else node)
    return found


def _reads(
    order: Sequence[Node], variables: Collection[str], feeds: Collection[Edge]
) -> dict[Edge, Edge]:
    """Return the outputs of `read` ops, with the variable that each reads."""
    return {
        (node.name, 0): node.inputs[0]
        for node in order
        if node.type == "Identity"
        and not node.control
        and node.inputs[0][0] in variables
        and node.inputs[0] not in feeds
        and (node.name, 0) not in feeds
    }


def _changes(node: Node, bits: dict[str, int]) -> int:
    """Return which variables an op changes, as a set of bits."""
    if node.type in _LOOKING:
        return 0
    found = 0
    for number in lookup(node.type).refs:
        if number < len(node.inputs):
            found |= bits.get(node.inputs[number][0], 0)
    return found


def _fresh(
    node: Node, reads: dict[Edge, Edge], bits: dict[str, int], before: int
) -> Node:
    inputs = tuple(
        reads[edge] if edge in reads and bits[reads[edge][0]] & before else edge
        for edge in node.inputs
    )
    return node if inputs == node.inputs else replace(node, inputs=inputs)
