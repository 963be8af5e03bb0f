"""A graph as messages: `GraphDef` and `NodeDef`, as far as programs look into them.

Pure. They are for reading; a graph travels in a form of its own (`kit.graph.node`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kit.graph.op import Op


@dataclass
class NodeDef:
    """One operation: `input` holds `a`, `a:1` for a second output, `^a` for control."""

    name: str = ""
    op: str = ""
    input: list[str] = field(default_factory=list)
    device: str = ""
    attr: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f'name: "{self.name}"', f'op: "{self.op}"']
        lines += [f'input: "{one}"' for one in self.input]
        if self.device:
            lines.append(f'device: "{self.device}"')
        for key, value in sorted(self.attr.items()):
            lines.append(f'attr {{\n  key: "{key}"\n  value: {value!r}\n}}')
        return "\n".join(lines) + "\n"


@dataclass
class GraphDef:
    """All operations of a graph, in the order in which they were made."""

    node: list[NodeDef] = field(default_factory=list)

    def __str__(self) -> str:
        parts = []
        for one in self.node:
            body = "".join(f"  {line}\n" for line in str(one).splitlines())
            parts.append(f"node {{\n{body}}}\n")
        return "".join(parts)


def node_def_of(op: Op) -> NodeDef:
    """Return an operation as a message."""
    inputs = [
        one.op.name if one.index == 0 else f"{one.op.name}:{one.index}"
        for one in op.inputs
    ]
    inputs += [f"^{one.name}" for one in op.control_inputs]
    attrs = dict(op.attrs)
    if op.colocation:
        attrs["_class"] = [f"loc:@{name}" for name in op.colocation]
    return NodeDef(op.name, op.type, inputs, op.device, attrs)


def graph_def_of(ops: Iterable[Op]) -> GraphDef:
    """Return operations as a message."""
    return GraphDef([node_def_of(one) for one in ops])
