"""Which ops of a GPU the host computes: those that sizes and positions come from.

    y = reshape(x, [shape(x)[0] * 2, n])        x on a GPU, n fed

A kernel of a GPU is started with sizes that the host knows. What `shape` says it knows,
and computes from it what reshape needs; otherwise it would send the shape to the GPU,
and wait for all that the GPU has begun before it had the product back.
"""

from __future__ import annotations

from kit.graph.node import Edge
from kit.graph.table import lookup
from kit.session.master.partition import Segment


def computed_on_host(segment: Segment) -> set[str]:
    """Return the names of these ops.

    All that they need is on the host already: constants, shapes, what is fed or comes
    from another task, and each other.
    """
    if all(device.type == "CPU" for device in segment.devices):
        return set()
    outside: set[Edge] = {*segment.feeds, *(move.edge for move in segment.receives)}
    possible: set[str] = set()  # their results are or could be on the host
    for node in segment.nodes:
        op_def = lookup(node.type)
        is_there = op_def.of_shape or all(
            edge in outside or edge[0] in possible for edge in node.inputs
        )
        if is_there and not op_def.stateful:
            possible.add(node.name)
    needed: set[str] = set()
    for node in reversed(segment.nodes):
        first = 0 if node.name in needed else lookup(node.type).sizes_from
        if first is not None:
            needed |= possible.intersection(name for name, _ in node.inputs[first:])
    return needed
