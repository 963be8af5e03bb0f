"""Variables: state that lives on a task and outlives sessions, and what changes it.

A `VariableV2` gives the variable itself; only ops that say so (`refs`) take it as such,
all others get its value. A value is never changed in place: a reader keeps
what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kit.errors import OutOfRangeError
from kit.graph.convert import make, tensor
from kit.graph.dtypes import DType, name_of
from kit.graph.kernels import segments
from kit.graph.op import Tensor
from kit.graph.ops.array.rows import check_whole
from kit.graph.static import Shape, Static, agrees, merge, same_dtype, text
from kit.graph.table import Attrs, enter, infer_fixed, infer_like


class Ref(Protocol):
    """A variable on its task, as ops get it at run time."""

    is_initialized: bool

    def read(self) -> Any:
        """Return the value; raises `FailedPreconditionError` before the first one."""

    def assign(self, value: Any, *, keep_shape: bool = True) -> Any:
        """Set the value and return it; raises `InvalidArgumentError` for its shape."""

    def update(self, change: Callable[[Any], Any]) -> Any:
        """Set the value to `change(value)`, nobody else in between; return it."""


def assign(
    ref: Tensor, value: Any, *, validate: bool = True, name: str | None = None
) -> Tensor:
    """Return an op that sets a variable; its result is the new value."""
    return _change("Assign", ref, value, name, validate_shape=validate)


def assign_add(ref: Tensor, value: Any, *, name: str | None = None) -> Tensor:
    """Return an op that adds to a variable in one indivisible step."""
    return _change("AssignAdd", ref, value, name)


def assign_sub(ref: Tensor, value: Any, *, name: str | None = None) -> Tensor:
    """Return an op that subtracts from a variable in one indivisible step."""
    return _change("AssignSub", ref, value, name)


def is_initialized(ref: Tensor, *, name: str | None = None) -> Tensor:
    """Return whether a variable has a value yet."""
    with ref.graph.colocate_with(ref.op):
        return make("IsVariableInitialized", ref, name=name)


def _change(
    op_type: str, ref: Tensor, value: Any, name: str | None, **attrs: Any
) -> Tensor:
    with ref.graph.colocate_with(ref.op):
        operand = tensor(value, ref.static.dtype, name="value", graph=ref.graph)
        return make(op_type, ref, operand, name=name, **attrs)


def _infer_variable(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape: Shape = attrs["shape"]
    return [Static(shape, attrs["dtype"])]


def _variable(call: Any, *, shape: Shape, dtype: DType, shared_name: str = "") -> Ref:
    ref: Ref = call.variable(shape, dtype, shared_name)
    return ref


def _infer_assign(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    ref, value = inputs
    if ref.dtype != value.dtype:
        raise TypeError(
            f"a variable of {name_of(ref.dtype)} cannot take {name_of(value.dtype)}; "
            f"cast the value."
        )
    if not attrs.get("validate_shape", True):
        return [Static(value.shape, ref.dtype)]
    return [Static(merge(ref.shape, value.shape, "variable and value"), ref.dtype)]


def _assign(_: Any, ref: Ref, value: Any, *, validate_shape: bool) -> Any:
    return ref.assign(value, keep_shape=validate_shape)


def _add(_: Any, ref: Ref, value: Any) -> Any:
    return ref.update(lambda old: old + value)


def _sub(_: Any, ref: Ref, value: Any) -> Any:
    return ref.update(lambda old: old - value)


def _infer_count(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    (ref,) = inputs
    merge(ref.shape, (), "variable and count")
    if name_of(ref.dtype) not in ("int32", "int64"):
        raise TypeError(f"a count is int32 or int64, not {name_of(ref.dtype)}.")
    return [Static((), ref.dtype)]


def _count_up_to(_: Any, ref: Ref, *, limit: int) -> Any:
    before: list[Any] = []

    def counted(old: Any) -> Any:
        if old >= limit:
            raise OutOfRangeError(f"Reached limit of {limit}")
        before.append(old)
        return old + 1

    ref.update(counted)
    return before[0]


def _infer_initialized_value(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    ref, fallback = inputs
    dtype = same_dtype(inputs, "a variable and what stands in for it")
    return [Static(merge(ref.shape, fallback.shape, "variable and value"), dtype)]


def _initialized_value(_: Any, ref: Ref, fallback: Any) -> Any:
    return ref.read() if ref.is_initialized else fallback


def _temporary(call: Any, *, shape: Shape, dtype: DType, var_name: str) -> Ref:
    ref: Ref = call.temporary(shape, dtype, var_name or call.node)
    return ref


def _end_temporary(call: Any, ref: Ref, *, var_name: str) -> Any:
    value = ref.read()
    call.end_temporary(var_name)
    return value


_STATE: dict[str, Any] = {"stateful": True, "refs": (0,)}
_MADE: dict[str, Any] = {"stateful": True, "gives_ref": True}

enter("VariableV2", _infer_variable, _variable, **_MADE)
enter("TemporaryVariable", _infer_variable, _temporary, **_MADE)
enter("DestroyTemporaryVariable", infer_like(0), _end_temporary, **_STATE)
enter("Assign", _infer_assign, _assign, **_STATE)
enter("AssignAdd", _infer_assign, _add, **_STATE)
enter("AssignSub", _infer_assign, _sub, **_STATE)
enter("CountUpTo", _infer_count, _count_up_to, **_STATE)
enter(
    "IsVariableInitialized",
    infer_fixed(Static((), np.dtype(bool))),
    lambda call, ref: call.xp.asarray(ref.is_initialized),
    **_STATE,
)
enter("InitializedValue", _infer_initialized_value, _initialized_value, **_STATE)


def scatter(
    kind: str, ref: Tensor, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """Return an op that changes rows of a variable; its result is the new value.

    `kind` is update, add, sub, mul, div, min or max. `updates` has the shape of
    `indices` and then that of a row, or no axis. An index that occurs several times is
    applied as often, in order. An index out of range is an error in a run.
    """
    with ref.graph.as_default(), ref.graph.colocate_with(ref.op):
        values = tensor(updates, ref.static.dtype, name="updates")
        rows = tensor(indices, name="indices")
        return make(_TYPES[kind], ref, rows, values, name=name)


def _infer_scatter(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    ref, indices, updates = inputs
    check_whole(indices)
    if ref.dtype != updates.dtype:
        raise TypeError(
            f"a variable of {name_of(ref.dtype)} cannot take {name_of(updates.dtype)}; "
            f"cast the updates."
        )
    if ref.shape is not None and indices.shape is not None:
        wanted = (*indices.shape, *ref.shape[1:])
        if updates.shape != () and not agrees(wanted, updates.shape):
            raise ValueError(
                f"updates of {text(updates.shape)} do not fit indices of "
                f"{text(indices.shape)} into {text(ref.shape)}, which need "
                f"{text(wanted)}."
            )
    return [Static(ref.shape, ref.dtype)]


def _scatter(kind: str) -> Callable[..., Any]:

    return lambda call, ref, indices, updates: ref.update(
        lambda old: segments.scatter(kind, call.xp, old, indices, updates)
    )


_TYPES = {
    "update": "ScatterUpdate",
    "add": "ScatterAdd",
    "sub": "ScatterSub",
    "mul": "ScatterMul",
    "div": "ScatterDiv",
    "min": "ScatterMin",
    "max": "ScatterMax",
}
for _kind, _type in _TYPES.items():
    enter(_type, _infer_scatter, _scatter(_kind), stateful=True, refs=(0,))
