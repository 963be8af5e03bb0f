"""A graph as plain data, which travels to the tasks.

Pure. A `Node` is an op without its Python objects. Attributes are plain data, dtypes
and arrays; arrays travel beside the text (`kit.session.transport.serialization`). No
pickle: a graph that comes from outside can name ops of the table and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from kit.errors import InvalidArgumentError, ProtocolError
from kit.graph.dtypes import Array, dtype_of, name_of
from kit.graph.op import Op

# A tensor by the name of its op and the number of the output.
Edge: TypeAlias = tuple[str, int]

# What reading data from outside may raise.
UNREADABLE: Final = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True, slots=True)
class Node:
    """An op as it travels; see `kit.graph.op.Op` for the fields."""

    name: str
    type: str
    inputs: tuple[Edge, ...]
    control: tuple[str, ...]
    attrs: dict[str, Any]
    device: str
    colocation: tuple[str, ...]
    container: str
    source_line: str
    guards: tuple[tuple[Edge, bool], ...] = ()

    @property
    def takes(self) -> tuple[Edge, ...]:
        """What it needs the values of: its inputs, and the tensors that guard it."""
        return (*self.inputs, *(edge for edge, _ in self.guards))


def node_of(op: Op) -> Node:
    """Return an op as a node."""
    return Node(
        op.name,
        op.op_def.name,
        tuple((tensor.op.name, tensor.index) for tensor in op.inputs),
        tuple(control_input.name for control_input in op.control_inputs),
        op.attrs,
        op.device,
        op.colocation,
        op.container,
        op.source_line,
        tuple(((guard.op.name, guard.index), wanted) for guard, wanted in op.guards),
    )


def to_plain(nodes: Iterable[Node]) -> tuple[list[Any], list[Array]]:
    """Return nodes as JSON data and the arrays that it refers to by number."""
    arrays: list[Array] = []
    plain = [
        [
            node.name,
            node.type,
            [list(edge) for edge in node.inputs],
            list(node.control),
            {key: _plain(value, arrays, node) for key, value in node.attrs.items()},
            node.device,
            list(node.colocation),
            node.container,
            [[list(edge), wanted] for edge, wanted in node.guards],
            node.source_line,  # last: a digest of what a graph computes leaves it out
        ]
        for node in nodes
    ]
    return plain, arrays


def from_plain(plain: Sequence[Any], arrays: Sequence[Array]) -> list[Node]:
    """Return the nodes that `to_plain` wrote; raises `ProtocolError` for anything else.

    >>> from_plain([["a", "NoOp", [], [], {}, "", [], "", [], ""]], [])[0].type
    'NoOp'
    """
    try:
        return [_node(row, arrays) for row in plain]
    except UNREADABLE as exc:
        raise ProtocolError(f"a graph came that cannot be read: {exc}.") from exc


def _node(row: Any, arrays: Sequence[Array]) -> Node:
    (
        name,
        kind,
        inputs,
        control,
        attrs,
        device,
        colocation,
        container,
        guards,
        source,
    ) = row
    return Node(
        str(name),
        str(kind),
        tuple((str(op), int(index)) for op, index in inputs),
        tuple(map(str, control)),
        {str(key): _value(value, arrays) for key, value in attrs.items()},
        str(device),
        tuple(map(str, colocation)),
        str(container),
        str(source),
        tuple(((str(op), int(i)), bool(wanted)) for (op, i), wanted in guards),
    )


def _plain(value: Any, arrays: list[Array], node: Node) -> Any:
    match value:
        # numpy's float64 is a Python float too, and would arrive without its dtype.
        case None | bool() | int() | float() | str() if not isinstance(
            value, np.generic
        ):
            return value
        case np.ndarray() | np.generic():
            arrays.append(np.asarray(value))
            return {"array": len(arrays) - 1}
        case np.dtype():
            return {"dtype": name_of(value)}
        case tuple():
            return {"tuple": [_plain(item, arrays, node) for item in value]}
        case list():
            return [_plain(item, arrays, node) for item in value]
        case bytes():
            return {"bytes": value.hex()}
        case dict():
            return {
                "dict": {k: _plain(item, arrays, node) for k, item in value.items()}
            }
    raise InvalidArgumentError(
        f"op {node.name!r} has an attribute of type {type(value).__name__}, which "
        f"cannot travel; attributes are plain data, dtypes and arrays."
    )


def _value(plain: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(plain, list):
        return [_value(item, arrays) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, value),) = plain.items()
    match kind:
        case "array":
            return arrays[value]
        case "dtype":
            return dtype_of(value)
        case "tuple":
            return tuple(_value(item, arrays) for item in value)
        case "bytes":
            return bytes.fromhex(value)
        case "dict":
            return {key: _value(item, arrays) for key, item in value.items()}
    raise ValueError(f"an attribute of unknown kind {kind!r}")
