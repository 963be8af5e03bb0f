"""Tensors that wait for others, and tensors that print others."""

from __future__ import annotations

from typing import Any

from kit.graph.array_protocol import tensor_of
from kit.graph.op import IndexedSlices, Op
from kit.tf1.graph.control import group
from kit.tf1.tensor.convert import argument, create, graph_for, op_scope


def tuple(
    tensors: Any, name: str | None = None, control_inputs: Any = None
) -> list[Any]:
    """Return the tensors, each available only once all of them are computed.

    None stays None. Raises `ValueError` if there is no tensor, `TypeError` for a
    control input that is neither operation nor tensor.
    """
    with op_scope(name, "tuple", [tensor for tensor in tensors if tensor is not None]):
        gates = [tensor.op for tensor in tensors if tensor is not None]
        for value in control_inputs or []:
            op = value if isinstance(value, Op) else getattr(value, "op", None)
            if op is None:
                raise TypeError(f"Control input must be Operation or Tensor: {value!r}")
            gates.append(op)
        if not gates:
            raise ValueError(f"Must have at least one Tensor: {tensors!r}")
        unique = sorted(set(gates), key=lambda op: op.number)
        gate = group(*unique)
        return [None if tensor is None else _after(gate, tensor) for tensor in tensors]


def _after(gate: Op, tensor: Any) -> Any:
    """Return the value of a tensor, or of rows, once `gate` is done."""
    graph = graph_for([tensor])
    with (
        op_scope(None, "control_dependency", [tensor]) as scope,
        graph.colocate_with(tensor),
        graph.control_dependencies([gate]),
    ):
        if isinstance(tensor, IndexedSlices):
            values = create("Identity", tensor.values, name=scope)
            return IndexedSlices(values, tensor.indices, tensor.dense_shape)
        return create("Identity", tensor_of(tensor), name=scope)


def Print(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """Return `input_`; computing it writes `data` to the error stream of its task.

    Of each tensor `summarize` values, by default 3; -1 for all. Only the first
    `first_n` times, if that is given. Gradients flow through.
    """
    with op_scope(name, "Print", [input_, *data]) as scope:
        passed = argument("Print", "input", input_)
        shown = [argument("Print", f"data_{i}", value) for i, value in enumerate(data)]
        return create(
            "Print",
            passed,
            *shown,
            message=message or "",
            first_n=-1 if first_n is None else first_n,
            summarize=3 if summarize is None else summarize,
            name=scope,
        )
