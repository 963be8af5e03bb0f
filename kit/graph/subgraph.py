"""A piece of a graph as a function, which an op keeps as an attribute and calls.

Pure. The ops of a function stand in the graph where they were made, so that shapes are
inferred and errors name lines as always; nothing but the function needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kit.graph.node import Edge, node_of, to_plain
from kit.graph.op import Op, Tensor


def function_from(
    begin: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[dict[str, Any], list[Tensor]]:
    """Return what computes `outputs`, and the tensors from outside that this takes.

    Ops with a number from `begin` on belong to the function. A constant from before is
    taken from outside as well: it may be fed, and have a gradient. The arguments are
    `inputs`, then what is taken. Raises `ValueError` for a function that makes a
    variable, a queue or the like.
    """
    inside = _inside(begin, inputs, outputs)
    names = {op.name for op in inside}
    fed = {(item.op.name, item.index) for item in inputs}
    captured: dict[Edge, Tensor] = {}
    for op in inside:
        if op.op_def.gives_ref:
            raise ValueError(
                f"{op.name!r} ({op.type}) is made in a function that is called again "
                f"and again; make it before, outside of the function."
            )
        for number in op.op_def.refs:
            if op.inputs[number].op.name not in names:
                raise NotImplementedError(
                    f"{op.name!r} ({op.type}) changes {op.inputs[number].op.name!r} in "
                    f"a function that is called again and again, which computes from "
                    f"values alone; return the new value, and assign it outside."
                )
    for tensor in (*(x for op in inside for x in op.takes), *outputs):
        edge = tensor.op.name, tensor.index
        if tensor.op.name not in names and edge not in fed:
            captured[edge] = tensor
    nodes, arrays = to_plain(
        replace(node, control=tuple(name for name in node.control if name in names))
        for node in map(node_of, inside)
    )
    function = {
        "nodes": nodes,
        "arrays": arrays,
        "feeds": [list(edge) for edge in (*_edges(inputs), *captured)],
        "fetches": [list(edge) for edge in _edges(outputs)],
        "tokens": [t for op in inside for t in tokens_in(op.attrs)],
    }
    return function, list(captured.values())


def tokens_in(attrs: Any) -> list[str]:
    """Return the tokens of the Python functions that an op may call."""
    tokens = [attrs["token"]] if "token" in attrs else []
    return [*tokens, *attrs.get("tokens", ())]


def _inside(
    begin: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Op]:
    arguments = {tensor.op for tensor in inputs}
    ops: set[Op] = set()
    stack = [output.op for output in outputs]
    while stack:
        op = stack.pop()
        if op.number >= begin and op not in ops and op not in arguments:
            ops.add(op)
            stack += [tensor.op for tensor in op.takes]
            stack += [item for item in op.control_inputs if item.number >= begin]
    return sorted(ops, key=lambda op: op.number)


def _edges(tensors: Sequence[Tensor]) -> list[Edge]:
    return [(tensor.op.name, tensor.index) for tensor in tensors]
