"""`tensorflow.python.training.moving_averages`: what `tf.train` has, and averages."""

from __future__ import annotations

from functools import partial
from itertools import chain, count
from typing import Any

from kit.tf1 import train
from kit.tf1.graph.control import colocate_with
from kit.tf1.ops import arithmetic
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.variables.assigning import assign_add, assign_sub
from kit.tf1.variables.initial_values import Zeros
from kit.tf1.variables.scopes import get_variable, name_scope, variable_scope

__all__ = ["assign_moving_average", "weighted_moving_average"]


def assign_moving_average(
    variable: Any,
    value: Any,
    decay: Any,
    zero_debias: bool = True,
    name: str | None = None,
) -> Any:
    """Return an operation that moves a variable to a value, by the share 1 - decay.

    With `zero_debias` the variable is what the average would be had it not begun at 0:
    the average itself and the number of updates are variables of their own.
    """
    with (
        name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope,
        colocate_with(variable),
    ):
        dtype = variable.dtype.base_dtype
        share = convert_to_tensor(1.0 - decay, dtype, name="decay")
        if zero_debias:
            move = _debiased(variable, value, share)
        else:
            move = (variable - value) * share
        return assign_sub(variable, move, name=scope)


def _debiased(variable: Any, value: Any, share: Any) -> Any:
    named = variable_scope(variable.op.name, values=[variable, value, share])
    with named as scope:
        dtype = variable.dtype.base_dtype
        begins = {"initializer": Zeros(), "trainable": False, "dtype": dtype}
        biased = get_variable(_unused(scope, "biased"), variable.shape, **begins)
        n_updates = get_variable(_unused(scope, "local_step"), [], **begins)
        average = assign_sub(biased, (biased - value) * share)
        count = assign_add(n_updates, 1.0)
        return variable - average / (1.0 - arithmetic.pow(1.0 - share, count))


def _unused(scope: Any, name: str) -> str:
    """Return a name for a new variable of a scope, the same one where it is reused."""
    taken = {var.op.name for var in scope.global_variables()} if not scope.reuse else ()
    numbered = (f"{name}_{i}" for i in count(1))
    return next(
        candidate
        for candidate in chain([name], numbered)
        if f"{scope.name}/{candidate}" not in taken
    )


def weighted_moving_average(
    value: Any,
    decay: Any,
    weight: Any,
    truediv: bool = True,
    collections: Any = None,
    name: str | None = None,
) -> Any:
    """Return the moving average of values of which each has a weight.

    It is the average of value * weight divided by that of the weights, both of which
    are variables. Without `truediv` integers are divided as in Python 2.
    """
    values = [value, weight, decay]
    with variable_scope(name, "WeightedMovingAvg", values) as scope:
        begins = {
            "initializer": Zeros(),
            "trainable": False,
            "collections": collections,
        }
        total, weights = [
            assign_moving_average(
                get_variable(named, of.shape, of.dtype, **begins), of, decay, False
            )
            for named, of in (("value_x_weight", value * weight), ("weight", weight))
        ]
        divide = arithmetic.truediv if truediv else arithmetic.div
        return divide(total, weights, name=scope.name)


__getattr__ = partial(getattr, train)
