"""Operations that read and change variables; each runs where its variable lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kit.graph.op import Op
from kit.graph.static import is_known
from kit.tf1.tensor.convert import argument, create, create_op, op_scope
from kit.tf1.tensor.dtypes import numpy_of
from kit.tf1.tensor.shape import static_of
from kit.tf1.tensor.tensor import PASS_ON, Tensor


@dataclass
class ChangeOptions:
    """What changes of a variable take besides the value."""

    use_locking: bool = False
    name: str | None = None
    read_value: bool = True

    def made(self, change: Callable[..., Any], ref: Tensor, value: Any) -> Any:
        """Return the tensor of the new value, or the operation that changes it."""
        new = change(ref, value, use_locking=self.use_locking, name=self.name)
        return new if self.read_value else new.op


def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Return a tensor that sets a variable when it is run: the new value.

    Raises `TypeError` for another dtype, and `ValueError` for another shape unless
    `validate_shape` is False. All changes are indivisible, locking or not.
    """
    if isinstance(ref, Tensor) and "assign" in vars(ref):
        return ref.assign(value, name=name)  # type: ignore[attr-defined]  # v[1:3]
    checked = validate_shape is None or validate_shape
    return _changed("Assign", ref, value, name, {"validate_shape": checked})


def assign_add(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Return a tensor that adds to a variable when it is run: the new value."""
    return _changed("AssignAdd", ref, value, name, {})


def assign_sub(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Return a tensor that subtracts from a variable when it is run: the new value."""
    return _changed("AssignSub", ref, value, name, {})


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Any:
    """Return a tensor that adds 1 to a variable when it is run: the value before.

    Raises `OutOfRangeError` in the run where the variable has reached `limit`.
    """
    target = ref_of(ref, "CountUpTo")
    with op_scope(name, "CountUpTo", [target]) as scope:
        return _after(ref, "CountUpTo", target, name=scope, limit=int(limit))


def scatter(
    op_type: str, ref: Any, indices: Any, updates: Any, name: str | None = None
) -> Any:
    """Return a tensor that changes a variable when it is run: the new value.

    `op_type` is ScatterAdd and its like, where indices are of rows, or ScatterNdAdd and
    its like, where they are coordinates. Of an index that comes twice both rows count,
    in their order. Raises `InvalidArgumentError` in the run for an index out of range.
    """
    target = ref_of(ref, op_type)
    with op_scope(name, op_type, [target, indices, updates]) as scope:
        where = argument(op_type, "indices", indices)
        if where.dtype.name not in ("int32", "int64"):
            raise TypeError(
                f"{op_type}: indices must be int32 or int64, not {where.dtype.name}."
            )
        rows = argument(op_type, "updates", updates, target.dtype.base_dtype)
        return _after(ref, op_type, target, where, rows, name=scope)


def temporary_variable(
    shape: Any, dtype: Any, var_name: str = "", name: str | None = None
) -> Any:
    """Return a variable of zeros that each run makes anew, and which ends with it.

    Of two with one `var_name`, which is its operation's name by default, the second
    raises `AlreadyExistsError` in the run. Raises `ValueError` for a shape that is not
    known.
    """
    sizes = static_of(shape)
    if not is_known(sizes):
        raise ValueError(f"a temporary variable needs a known shape, not {shape!r}.")
    attrs = {"shape": sizes, "dtype": numpy_of(dtype), "var_name": var_name}
    return create("TemporaryVariable", name=name or "TemporaryVariable", **attrs)


def destroy_temporary_variable(ref: Any, var_name: str, name: str | None = None) -> Any:
    """Return the last value of a temporary variable, which ends there.

    Raises `NotFoundError` in the run if there is none of this `var_name`.
    """
    op_type = "DestroyTemporaryVariable"
    target = ref_of(ref, op_type)
    with op_scope(name, op_type, [target]) as scope:
        return _after(ref, op_type, target, name=scope, var_name=var_name)


def _scatter(op_type: str, doc: str) -> Callable[..., Any]:
    def function(
        ref: Any,
        indices: Any,
        updates: Any,
        use_locking: bool = False,
        name: Any = None,
    ) -> Any:
        return scatter(op_type, ref, indices, updates, name)

    function.__doc__ = f"Return a tensor that {doc}; see `scatter`."
    return function


scatter_add = _scatter("ScatterAdd", "adds rows to a variable")
scatter_sub = _scatter("ScatterSub", "subtracts rows from a variable")
scatter_update = _scatter("ScatterUpdate", "sets rows of a variable")
scatter_mul = _scatter("ScatterMul", "multiplies rows of a variable")
scatter_div = _scatter("ScatterDiv", "divides rows of a variable")
scatter_min = _scatter("ScatterMin", "keeps the lesser elements of rows of a variable")
scatter_max = _scatter("ScatterMax", "keeps the greater elements of rows of a variable")
scatter_nd_add = _scatter("ScatterNdAdd", "adds to a variable at coordinates")
scatter_nd_sub = _scatter("ScatterNdSub", "subtracts from a variable at coordinates")
scatter_nd_update = _scatter("ScatterNdUpdate", "sets a variable at coordinates")


def is_variable_initialized(ref: Any, name: str | None = None) -> Any:
    """Return whether a variable has a value yet."""
    target = ref_of(ref, "IsVariableInitialized")
    with op_scope(name, "IsVariableInitialized", [target]) as scope:
        return _after(ref, "IsVariableInitialized", target, name=scope)


def value_or(ref: Any, fallback: Any) -> Any:
    """Return a variable's value, or another one while it has none."""
    # The original asks whether it has one, and chooses in a `cond`.
    ref.graph.unique_name("IsVariableInitialized")
    with op_scope(None, "cond", [ref, fallback]):
        return create("InitializedValue", ref, fallback, name="Merge")


def from_initial_values(value: Tensor, initial: Mapping[Op, Any]) -> Tensor:
    """Return a value as another one is computed, also before variables have theirs.

    In their place are then their `initial` values, by their operations. So a variable
    can be initialized before those from which its own initial value is computed.
    """
    behind = _behind(value.op)
    if initial.keys().isdisjoint(behind) or any(item.guards for item in behind):
        return value
    made: dict[Any, Any] = {}
    for op in sorted(behind, key=lambda item: item.number):
        inputs = list(op.inputs)
        for i, tensor in enumerate(inputs):
            if tensor.op in initial and i not in op.op_def.refs:
                if tensor not in made:
                    made[tensor] = value_or(tensor, initial[tensor.op])
                inputs[i] = made[tensor]
            elif tensor.op not in initial:
                inputs[i] = made.get(tensor, tensor)
        if inputs != list(op.inputs):
            name = op.name.split("/")[-1]
            copy = create_op(op.type, *inputs, name=name, **op.attrs)
            made |= zip(op.outputs, copy.outputs, strict=True)
    replacement: Tensor = made.get(value, value)
    return replacement


def _behind(op: Op) -> set[Op]:
    ops_behind, stack = set[Op](), [op]
    while stack:
        op_behind = stack.pop()
        if op_behind not in ops_behind:
            ops_behind.add(op_behind)
            stack += [x.op for x in op_behind.inputs]
    return ops_behind


def ref_of(ref: Any, op_type: str) -> Tensor:
    """Return the tensor that stands for a variable itself.

    Raises `AttributeError`, as the original does, for anything that is not a variable.
    """
    target = getattr(ref, "ref", ref)
    if isinstance(target, Tensor) and target.op.op_def.gives_ref:
        return target
    # The result of a change stands for the variable too.
    if isinstance(target, Tensor) and target.op.type in PASS_ON:
        return ref_of(target.op.inputs[0], op_type)
    raise AttributeError(
        f"{op_type} changes a variable, and {ref!r} is not one; give the tf.Variable."
    )


def _changed(
    op_type: str, ref: Any, value: Any, name: str | None, attrs: dict[str, Any]
) -> Any:
    target = ref_of(ref, op_type)
    with op_scope(name, op_type, [target, value]) as scope:
        operand = argument(op_type, "value", value, target.dtype.base_dtype)
        return _after(ref, op_type, target, operand, name=scope, **attrs)


def _after(ref: Any, op_type: str, target: Tensor, *inputs: Any, **more: Any) -> Any:
    """Add an op on a variable that follows the change whose result stands for it."""
    before = [] if getattr(ref, "ref", ref) is target else [ref]
    with target.graph.control_dependencies(before):
        return create(op_type, target, *inputs, **more)
