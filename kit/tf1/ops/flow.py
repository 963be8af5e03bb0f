"""Tensors that wait for others: alone, and all together."""

from __future__ import annotations

from typing import Any

from kit.graph.op import IndexedSlices, Op
from kit.tf1.graph.control import group
from kit.tf1.tensor.convert import create, graph_for, op_scope


def tuple(
    tensors: Any, name: str | None = None, control_inputs: Any = None
) -> list[Any]:
    """Return tensors that have their values when all of `tensors` have theirs.

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
        return [
            None if one is None else with_dependencies([gate], one) for one in tensors
        ]


def with_dependencies(
    dependencies: list[Any], output_tensor: Any, name: str | None = None
) -> Any:
    """Return the value of a tensor, or of rows, once the dependencies are done."""
    graph = graph_for([output_tensor])
    with (
        op_scope(name, "control_dependency", [output_tensor]) as scope,
        graph.colocate_with(output_tensor),
        graph.control_dependencies(dependencies),
    ):
        if isinstance(output_tensor, IndexedSlices):
            values = create("Identity", output_tensor.values, name=scope)
            rows = output_tensor
            return IndexedSlices(values, rows.indices, rows.dense_shape)
        return create("Identity", output_tensor._as_tensor(), name=scope)
