"""`tf.contrib.framework`: arguments, variables, checkpoints, the global step."""

from __future__ import annotations

from typing import Any

from kit.tf1.contrib.arg_scope import add_arg_scope as add_arg_scope
from kit.tf1.contrib.arg_scope import arg_scope as arg_scope
from kit.tf1.contrib.layers import add_model_variable as add_model_variable
from kit.tf1.contrib.layers import model_variable as model_variable
from kit.tf1.contrib.layers import variable as variable
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.not_offered import refuse
from kit.tf1.train import assert_global_step as assert_global_step
from kit.tf1.train import create_global_step as create_global_step
from kit.tf1.train import get_global_step as get_global_step
from kit.tf1.train import get_or_create_global_step as get_or_create_global_step
from kit.tf1.train import list_variables as list_variables
from kit.tf1.train import load_checkpoint as load_checkpoint
from kit.tf1.train import load_variable as load_variable
from kit.tf1.variables.variable_lists import global_variables as get_variables
from kit.tf1.variables.variable_lists import local_variables as get_local_variables
from kit.tf1.variables.variable_lists import model_variables as get_model_variables
from kit.tf1.variables.variable_lists import (
    trainable_variables as get_trainable_variables,
)
from kit.tf1.variables.variables import Variable

__all__ = [
    "add_arg_scope",
    "add_model_variable",
    "arg_scope",
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_local_variables",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_variables",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "local_variable",
    "model_variable",
    "variable",
]


def local_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """Return a new variable of `tf.local_variables()`, which is not trained."""
    return Variable(
        initial_value,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        validate_shape=validate_shape,
        name=name,
        use_resource=use_resource,
    )


def __getattr__(name: str) -> Any:
    refuse("contrib.framework", name)
