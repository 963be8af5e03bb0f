"""The variable that counts the updates of a training."""

from __future__ import annotations

from typing import Any

from kit.graph.op import Tensor
from kit.tf1 import logging
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.tensor.dtypes import int64
from kit.tf1.variables.initial_values import Zeros
from kit.tf1.variables.scopes import get_variable
from kit.tf1.variables.variables import Variable


def create_global_step(graph: Any = None) -> Any:
    """Return a new int64 variable `global_step` that starts at 0.

    Raises `ValueError` if the graph has one.
    """
    where = graph or get_default_graph()
    if get_global_step(where) is not None:
        raise ValueError('"global_step" already exists.')
    with where.as_default(), where.name_scope(None):
        return get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_global_step(graph: Any = None) -> Any:
    """Return the graph's global step, None if it has none.

    It is what its collection holds, or else the tensor `global_step:0`. Raises
    `TypeError` for one that is not a whole number.
    """
    where = graph or get_default_graph()
    steps = where.get_collection(GraphKeys.GLOBAL_STEP)
    if len(steps) > 1:
        logging.error("Multiple tensors in global_step collection.")
        return None
    if steps:
        step = steps[0]
    else:
        try:
            step = where.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(step)
    return step


def get_or_create_global_step(graph: Any = None) -> Any:
    """Return the graph's global step, a new one if it has none."""
    where = graph or get_default_graph()
    step = get_global_step(where)
    return create_global_step(where) if step is None else step


def assert_global_step(global_step_tensor: Any) -> None:
    """Raise `TypeError` unless this can be a global step: one whole number."""
    step = global_step_tensor
    if not isinstance(global_step_tensor, Variable | Tensor):
        raise TypeError(
            f'Existing "global_step" must be a Variable or Tensor: {step!r}.'
        )
    if not step.dtype.base_dtype.is_integer:
        raise TypeError(
            f'Existing "global_step" does not have integer type: {step.dtype}'
        )
    if step.get_shape().ndims != 0 and step.get_shape().is_fully_defined():
        raise TypeError(f'Existing "global_step" is not scalar: {step.get_shape()}')


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Return the value of the global step in a session, as a Python integer."""
    return int(sess.run(global_step_tensor))
