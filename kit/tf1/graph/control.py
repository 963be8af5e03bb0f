"""Order and place: control dependencies, groups, devices, colocation, containers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from kit.graph.op import Op
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.tensor.convert import create_op, op_scope


def control_dependencies(control_inputs: Any) -> AbstractContextManager[None]:
    """Make new operations of the default graph run after these; None clears all."""
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    """Place new operations of the default graph.

    By a name such as `/job:ps/task:0`, a `DeviceSpec`, a function of the operation that
    returns one, or None, which hides outer scopes. Inner scopes win part by part.
    """
    return get_default_graph().device(device_name_or_function)


def colocate_with(
    op: Any, ignore_existing: bool = False
) -> AbstractContextManager[None]:
    """Place new operations of the default graph where `op` is, despite other scopes."""
    return get_default_graph().colocate_with(op, ignore_existing)


def container(container_name: str) -> AbstractContextManager[None]:
    """Keep the state of new stateful operations in a container of this name."""
    return get_default_graph().container(container_name)


def init_scope() -> AbstractContextManager[None]:
    """Add new operations outside of all control dependencies and branches."""
    return get_default_graph().control_dependencies(None)


def no_op(name: str | None = None) -> Any:
    """Return an operation that does nothing, for control dependencies."""
    return create_op("NoOp", name=name)


def group(*inputs: Any, **options: Any) -> Any:
    """Return an operation that is done when all of `inputs` are.

    Inputs are operations, tensors, variables, and lists of them; the only keyword is
    `name`. On several devices each gets an operation that waits for its own.
    """
    name = options.pop("name", None)
    if options:
        raise ValueError(f"Invalid keyword arguments: {', '.join(options)}")
    with op_scope(name, "group_deps", list(inputs)) as scope:
        ops = [_op(item) for item in _flat(inputs)]
        if not ops:
            return no_op(name=scope)
        # Only one signal a device has to cross, however many operations are on it.
        by_device: dict[str, list[Op]] = {}
        for op in ops:
            by_device.setdefault(op.device, []).append(op)
        if len(by_device) == 1:
            return _after(ops, scope)
        parts = [_after(by_device[item], None) for item in sorted(by_device)]
        with get_default_graph().control_dependencies(parts):
            return no_op(name=scope)


def _after(ops: list[Op], name: str | None) -> Any:
    graph = get_default_graph()
    with graph.control_dependencies(ops), graph.device(ops[0].device):
        return no_op(name=name)


def _op(value: Any) -> Op:
    op = value if isinstance(value, Op) else getattr(value, "op", None)
    if not isinstance(op, Op):
        raise TypeError(
            f"Expected tf.group() expected Tensor objects, Operations or Variables, "
            f"not {value!r} of type {type(value).__name__}."
        )
    return op


def _flat(values: Any) -> Iterable[Any]:
    for item in values:
        if isinstance(item, list | tuple):
            yield from _flat(item)
        elif isinstance(item, dict):
            yield from _flat(item.values())
        else:
            yield item
