"""What something needs to be computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kit.graph.op import Op


def needed(ops: Iterable[Op]) -> list[Op]:
    """Return ops and all that they depend on, each after those it needs."""
    found: set[Op] = set()
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += [one.op for one in op.inputs] + list(op.control_inputs)
    return sorted(found, key=lambda op: op.number)
