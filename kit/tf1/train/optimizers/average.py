"""Moving averages of variables."""

from __future__ import annotations

from typing import Any

from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.control import group
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.arithmetic import cast, minimum, pow
from kit.tf1.ops.creation import zeros
from kit.tf1.tensor.convert import convert_to_tensor, graph_for, op_scope
from kit.tf1.tensor.dtypes import float32
from kit.tf1.train.optimizers.slot import create_filled_slot, create_slot
from kit.tf1.variables.assigning import assign, assign_add, assign_sub
from kit.tf1.variables.scopes import get_variable, variable_scope
from kit.tf1.variables.variable_lists import (
    global_variables,
    moving_average_variables,
    trainable_variables,
)
from kit.tf1.variables.variables import Variable

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class ExponentialMovingAverage:
    """Keeps shadow -= (1 - decay) * (shadow - variable) for variables.

    With `num_updates` the decay is at most (1 + n) / (10 + n). With `zero_debias` the
    averages of tensors, which start at 0, are corrected for that.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay, self._num_updates = decay, num_updates
        self._zero_debias, self.name = zero_debias, name
        self._averages: dict[Any, Any] = {}

    def apply(self, var_list: Any = None) -> Any:
        """Return an operation that updates the averages, by default of all trainables.

        The first call makes them. Raises `TypeError` for anything that is not a
        floating point number.
        """
        chosen = trainable_variables() if var_list is None else list(var_list)
        graph = graph_for(chosen)
        debiased = set()
        with graph.as_default():
            for variable in chosen:
                _check_floating(variable)
                if variable in self._averages:
                    continue
                with graph.control_dependencies(None):
                    self._averages[variable] = self._shadow(variable)
                if self._zero_debias and not isinstance(variable, Variable):
                    debiased.add(variable)
            with op_scope(None, self.name) as scope:
                decay = self._current_decay()
                updates = [
                    _moved(self._averages[var], var, decay, var in debiased)
                    for var in chosen
                ]
                return group(*updates, name=scope)

    def _shadow(self, of: Any) -> Any:
        if not isinstance(of, Variable):
            is_state = of.op.op_def.gives_ref
            return create_filled_slot(of, 0.0, self.name, colocate=is_state)
        made = create_slot(of, of.initialized_value(), self.name)
        of.graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, of)
        return made

    def _current_decay(self) -> Any:
        decay = convert_to_tensor(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        n = cast(self._num_updates, float32, name="num_updates")
        return minimum(decay, (1.0 + n) / (10.0 + n))

    def average(self, var: Any) -> Any:
        """Return the average of a variable, None if there is none."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """Return the name that the average of a variable has, or would have."""
        if var in self._averages:
            return str(self._averages[var].op.name)
        wanted = f"{var.op.name}/{self.name}"
        return get_default_graph().unique_name(wanted, mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Return variables by the name under which their values are saved.

        Those with averages, and trainable ones, by the name of the average.
        """
        if moving_avg_variables is None:
            averaged = {*trainable_variables(), *moving_average_variables()}
        else:
            averaged = set(moving_avg_variables)
        named = {self.average_name(item): item for item in averaged}
        for variable in global_variables():
            if variable not in averaged:
                named.setdefault(variable.op.name, variable)
        return named


def _check_floating(variable: Any) -> None:
    dtype = variable.dtype.base_dtype
    if dtype.name not in _FLOATS:
        raise TypeError(
            f"The variables must be half, float, or double: {variable.name}"
        )


def _moved(shadow: Any, of: Any, decay: Any, is_debiased: bool) -> Any:
    graph = shadow.graph
    with (
        op_scope(None, "AssignMovingAvg", [shadow, of]) as scope,
        graph.colocate_with(shadow.op),
    ):
        dtype = shadow.dtype.base_dtype
        rest = cast(convert_to_tensor(1.0 - decay, name="decay"), dtype)
        if is_debiased:
            return _debiased(shadow, of, rest)
        return assign_sub(shadow, (shadow - of) * rest, name=scope)


def _debiased(shadow: Any, of: Any, rest: Any) -> Any:
    """Update an average that starts at 0, and correct it for that start."""
    dtype = shadow.dtype.base_dtype
    with variable_scope(shadow.op.name), shadow.graph.control_dependencies(None):
        start = zeros(shadow.shape, dtype)
        biased = get_variable("biased", initializer=start, trainable=False)
        step = get_variable("local_step", initializer=zeros([], dtype), trainable=False)
    moved = assign_sub(biased, (biased - of) * rest)
    seen = 1 - pow(1.0 - rest, assign_add(step, 1))
    return assign(shadow, moved / seen)
