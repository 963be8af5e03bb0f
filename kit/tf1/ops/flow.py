"""Tensors that wait for others."""

from __future__ import annotations

from typing import Any

from kit.graph.op import IndexedSlices, Op
from kit.tf1.graph.control import group
from kit.tf1.tensor.convert import create, graph_for, op_scope


def tuple(
    tensors: Any, name: str | None = None, control_inputs: Any = None
) -> list[Any]:
    """Return the tensors, each available only once all of them are computed.

    None stays None. Raises `ValueError` if there is no tensor, `TypeError` for a
    control input that is neither operation nor tensor.
    """
    with op_scope(name, "tuple", [one for one in tensors if one is not None]):
        gates = [one.op for one in tensors if one is not None]
        for one in control_inputs or []:
            op = one if isinstance(one, Op) else getattr(one, "op", None)
            if op is None:
                raise TypeError(f"Control input must be Operation or Tensor: {one!r}")
            gates.append(op)
        if not gates:
            raise ValueError(f"Must have at least one Tensor: {tensors!r}")
        unique = sorted(set(gates), key=lambda op: op.number)
        gate = group(*unique)
        return [None if one is None else _after(gate, one) for one in tensors]


def _after(gate: Op, one: Any) -> Any:
    """Return the value of a tensor, or of rows, once `gate` is done."""
    graph = graph_for([one])
    with (
        op_scope(None, "control_dependency", [one]) as scope,
        graph.colocate_with(one),
        graph.control_dependencies([gate]),
    ):
        if isinstance(one, IndexedSlices):
            values = create("Identity", one.values, name=scope)
            return IndexedSlices(values, one.indices, one.dense_shape)
        return create("Identity", one._as_tensor(), name=scope)
