"""`tf.train.Optimizer`: how gradients are computed, and handed to an update rule.

To write your own rule, subclass it:

    _create_slots(var_list)            makes variables beside others: `_zeros_slot`
    _prepare()                         is called before the updates are added
    _apply_dense(grad, var)            returns what updates a variable
    _apply_sparse(grad, var)           the same for sparse rows with unique indices
    _finish(update_ops, name_scope)    returns an operation that runs after all updates
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.op import IndexedSlices, Op
from kit.graph.ops.array.rows import sum_rows
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.control import group
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.flow import tuple as gated
from kit.tf1.ops.gradient import gradients
from kit.tf1.tensor.convert import (
    convert_to_tensor_or_indexed_slices,
    graph_for,
    op_scope,
)
from kit.tf1.train.optimizers.slot import create_filled_slot, create_slot
from kit.tf1.variables.assigning import assign_add
from kit.tf1.variables.partitioned import parts_of
from kit.tf1.variables.variable_lists import trainable_variables

# --------------------------------------------------------------------------------------
# Which losses can be minimised, and which gradients applied to which variables.


_FLOATS = ("float16", "bfloat16", "float32", "float64")


def variables_in(variables: Any) -> list[Any]:
    """Return the variables in nested lists; a partitioned one gives its parts."""
    if isinstance(variables, list | tuple):
        return [leaf for item in variables for leaf in variables_in(item)]
    if isinstance(variables, dict):
        return [
            leaf for key in sorted(variables) for leaf in variables_in(variables[key])
        ]
    return parts_of(variables)


def check_floating(variable: Any) -> None:
    """Raise `ValueError` unless a tensor or variable is of floating point numbers."""
    dtype = variable.dtype.base_dtype
    if dtype.name not in _FLOATS:
        raise ValueError(
            f"Invalid type {dtype!r} for {variable.name}, expected: "
            f"{', '.join(_FLOATS)}."
        )


def gradient_of(gradient: Any) -> Any:
    """Return a gradient as a tensor or as rows, None as None. Raises `TypeError`."""
    if gradient is None:
        return None
    try:
        return convert_to_tensor_or_indexed_slices(gradient)
    except (TypeError, ValueError) as exc:
        raise TypeError(
            f"Gradient must be convertible to a Tensor or IndexedSlices, or None: "
            f"{gradient!r}"
        ) from exc


def variable_of(variable: Any) -> Any:
    """Return a variable as it is; raises `NotImplementedError` for a tensor."""
    if variable.op.type != "VariableV2":
        raise NotImplementedError(f"Trying to update a Tensor {variable!r}")
    return variable


def constrained(
    update: Any, variable: Any, constraint: Callable[[Any], Any] | None
) -> Any:
    """Return an update followed by the constraint of its variable, if any."""
    if constraint is None:
        return update
    with variable.graph.control_dependencies([update]):
        return variable.assign(constraint(variable.read_value()))


class Optimizer:
    """Base class of the optimizers; see the head of this file.

    Raises `ValueError` for an empty name.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        """`use_locking` changes nothing: an update is indivisible in any case."""
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking, self._name = use_locking, name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slots: dict[tuple[str, Any], Any] = {}

    def get_name(self) -> str:
        """Return the name, which is part of the names of slots and operations."""
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Return an operation that makes one step towards a smaller loss.

        It is `compute_gradients`, then `apply_gradients`. Raises `ValueError` also when
        the loss depends on none of the variables.
        """
        pairs = self.compute_gradients(
            loss,
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            grad_loss,
        )
        if all(gradient is None for gradient, _ in pairs):
            names = [str(variable) for _, variable in pairs]
            raise ValueError(
                f"No gradients provided for any variable, check your graph for ops "
                f"that do not support gradients, between variables {names} and loss "
                f"{loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Return (gradient, variable) for each variable, by default all trainable ones.

        A gradient is None where the loss does not depend on the variable. Raises
        `ValueError` without variables, for a loss that is not a floating point number,
        and for an unknown gate.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                f"gate_gradients must be one of: Optimizer.GATE_NONE, "
                f"Optimizer.GATE_OP, Optimizer.GATE_GRAPH. Not {gate_gradients}"
            )
        if callable(loss) and not isinstance(loss, ArrayProtocol):
            loss = loss()
        for tensor in (loss, grad_loss):
            if tensor is not None:
                check_floating(tensor)
        chosen = variables_in(trainable_variables() if var_list is None else var_list)
        if not chosen:
            raise ValueError("No variables to optimize.")
        for tensor in chosen:
            if not isinstance(tensor.op, Op):
                raise NotImplementedError(
                    f"Trying to optimize unsupported type {tensor!r}"
                )
        slopes = gradients(
            loss,
            chosen,
            grad_ys=grad_loss,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
        )
        if gate_gradients == self.GATE_GRAPH:
            slopes = gated(slopes)
        pairs = list(zip(slopes, chosen, strict=True))
        for gradient, variable in pairs:
            if gradient is not None:
                check_floating(variable)
        return pairs

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Return an operation that updates each variable with its gradient.

        Variables without a gradient are passed over; `global_step` counts 1 after all
        updates. Raises `ValueError` when nothing is left, `TypeError` for what is not a
        gradient of the variable's dtype, `NotImplementedError` for anything that is not
        a variable.
        """
        all_pairs = [(gradient_of(g), v) for g, v in grads_and_vars]
        if not all_pairs:
            raise ValueError("No variables provided.")
        pairs = [(g, variable_of(v)) for g, v in all_pairs if g is not None]
        if not pairs:
            names = [str(variable) for _, variable in all_pairs]
            raise ValueError(f"No gradients provided for any variable: {names}.")
        variables = [variable for _, variable in pairs]
        graph = graph_for(variables)
        with graph.as_default():
            with graph.control_dependencies(None):
                self._create_slots(variables)
            with op_scope(name, self._name) as scope:
                self._prepare()
                updates = [self._updated(gradient, v) for gradient, v in pairs]
                return _collected(self._finished(updates, global_step, scope))

    def _updated(self, gradient: Any, variable: Any) -> Any:
        graph = variable.graph
        with (
            graph.name_scope(f"update_{variable.op.name}"),
            graph.colocate_with(variable.op),
        ):
            constraint = getattr(variable, "constraint", None)
            if not isinstance(gradient, IndexedSlices):
                update = self._apply_dense(gradient, variable)
                return constrained(update, variable, constraint)
            if constraint is not None:
                raise RuntimeError(
                    "Cannot use a constraint function on a sparse variable."
                )
            return self._apply_sparse_duplicate_indices(gradient, variable)

    def _finished(self, updates: list[Any], global_step: Any, scope: str) -> Op:
        if global_step is None:
            done: Op = self._finish(updates, scope)
            return done
        graph = global_step.graph
        last = self._finish(updates, "update")
        with graph.control_dependencies([last]), graph.colocate_with(global_step):
            counted: Op = assign_add(global_step, 1, name=scope).op
        return counted

    # -- what a rule defines ---------------------------------------------------------

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Make the slots of these variables."""

    def _prepare(self) -> None:
        """Make what all updates share."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError()

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError()

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return self._apply_sparse(sum_rows(grad), var)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        return group(*update_ops, name=name_scope)

    # -- what it keeps --------------------------------------------------------------

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a slot of a variable, None if there is none."""
        return self._slots.get(name, {}).get(var)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots that exist, sorted."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """Return all its variables in the default graph, sorted by name."""
        graph = get_default_graph()
        slots = [var for slot in self._slots.values() for var in slot.values()]
        kept = [*self._non_slots.values(), *slots]
        mine = [variable for variable in kept if variable.graph is graph]
        return sorted(mine, key=lambda variable: str(variable.name))

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(
        self, var: Any, val: Any, slot_name: str, op_name: str
    ) -> Any:
        slots = self._slot_dict(slot_name)
        if var not in slots:
            slots[var] = create_slot(var, val, op_name)
        return slots[var]

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        return self._filled_slot(var, 0.0, slot_name, op_name)

    def _filled_slot(
        self, var: Any, number: float, slot_name: str, op_name: str
    ) -> Any:
        slots = self._slot_dict(slot_name)
        if var not in slots:
            slots[var] = create_filled_slot(var, number, op_name)
        return slots[var]

    def _call_if_callable(self, param: Any) -> Any:
        return param() if callable(param) else param


def _collected(train_op: Op) -> Op:
    """Add a train op to its collection, once."""
    collection = train_op.graph.get_collection_ref(GraphKeys.TRAIN_OP)  # type: ignore[attr-defined]  # a graph of kit.tf1
    if train_op not in collection:
        collection.append(train_op)
    return train_op
