"""The variables of a graph by collection, and operations that initialise them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.tf1.graph.collections import GraphKeys, get_collection
from kit.tf1.graph.control import group, no_op
from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import string
from kit.tf1.variables.assigning import is_variable_initialized


def global_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that tasks share."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that belong to one process."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the model."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that optimizers change by default."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that have moving averages."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Any:
    """Return an operation that gives variables their initial values, in no order."""
    if not var_list:
        return no_op(name=name)
    return group(*[variable.initializer for variable in var_list], name=name)


def global_variables_initializer() -> Any:
    """Return an operation that initialises all global variables, in no order."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Any:
    """Return an operation that initialises all local variables, in no order."""
    return variables_initializer(local_variables())


def tables_initializer(name: str = "init_all_tables") -> Any:
    """Return an operation that does nothing: there are no tables here."""
    return no_op(name=name)


def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None,
    name: str = "report_uninitialized_variables",
) -> Any:
    """Return the names of the variables that have no value yet, a vector of texts.

    By default it checks all global and local ones.
    """
    chosen = [*global_variables(), *local_variables()] if var_list is None else var_list
    with op_scope(name, None, [*chosen]) as scope:
        names = convert_to_tensor([variable.op.name for variable in chosen], string)
        if not chosen:
            return names
        ready = create("Pack", *map(is_variable_initialized, chosen), axis=0, name=None)
        missing = create("LogicalNot", ready, name=None)
        where = create("Where", missing, name=None)
        return create("GatherNd", names, where, name=scope)


def assert_variables_initialized(var_list: Sequence[Any] | None = None) -> Any:
    """Return an operation that raises `FailedPreconditionError` if one has no value."""
    chosen = [*global_variables(), *local_variables()] if var_list is None else var_list
    return group(*[variable.read_value() for variable in chosen]) if chosen else None


# The names of the first versions.
all_variables = global_variables
initialize_all_variables = global_variables_initializer
initialize_local_variables = local_variables_initializer
initialize_variables = variables_initializer
initialize_all_tables = tables_initializer
