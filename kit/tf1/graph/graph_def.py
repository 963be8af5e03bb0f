"""A graph as messages: `GraphDef` and `NodeDef`, as far as programs look into them.

Pure. They are for reading; a graph travels in a form of its own (`kit.graph.node`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kit.graph.op import Op
from kit.tf1.graph.attr_value import AttrValue, attrs_of

# What the last release of the original writes into its graphs.
_PRODUCER = 134


@dataclass
class NodeDef:
    """One operation: `input` holds `a`, `a:1` for a second output, `^a` for control."""

    name: str = ""
    op: str = ""
    input: list[str] = field(default_factory=list)
    device: str = ""
    attr: dict[str, AttrValue] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f'name: "{self.name}"', f'op: "{self.op}"']
        lines += [f'input: "{one}"' for one in self.input]
        if self.device:
            lines.append(f'device: "{self.device}"')
        for key, value in sorted(self.attr.items()):
            body = "".join(f"    {line}\n" for line in str(value).splitlines())
            lines.append(f'attr {{\n  key: "{key}"\n  value {{\n{body}  }}\n}}')
        return "\n".join(lines) + "\n"


@dataclass
class VersionDef:
    """Which release wrote a graph."""

    producer: int = 0
    min_consumer: int = 0


@dataclass
class GraphDef:
    """All operations of a graph, in the order in which they were made."""

    node: list[NodeDef] = field(default_factory=list)
    versions: VersionDef = field(default_factory=VersionDef)

    def __str__(self) -> str:
        parts = []
        for one in self.node:
            body = "".join(f"  {line}\n" for line in str(one).splitlines())
            parts.append(f"node {{\n{body}}}\n")
        if self.versions.producer:
            parts.append(f"versions {{\n  producer: {self.versions.producer}\n}}\n")
        return "".join(parts)


def node_def_of(op: Op) -> NodeDef:
    """Return an operation as a message."""
    inputs = [
        one.op.name if one.index == 0 else f"{one.op.name}:{one.index}"
        for one in op.inputs
    ]
    inputs += [f"^{one.name}" for one in op.control_inputs]
    return NodeDef(op.name, op.type, inputs, op.device, attrs_of(op))


def graph_def_of(ops: Iterable[Op]) -> GraphDef:
    """Return operations as a message."""
    return GraphDef([node_def_of(one) for one in ops], versions())


def versions() -> VersionDef:
    """Return what a graph says about who wrote it."""
    return VersionDef(producer=_PRODUCER)
