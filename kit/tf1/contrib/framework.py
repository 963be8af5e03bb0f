"""`tf.contrib.framework`: arguments, variables, checkpoints, the global step."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from kit.devices.device import DeviceSpec
from kit.tf1.contrib.arg_scope import add_arg_scope as add_arg_scope
from kit.tf1.contrib.arg_scope import arg_scope as arg_scope
from kit.tf1.contrib.layers import add_model_variable as add_model_variable
from kit.tf1.contrib.layers import model_variable as model_variable
from kit.tf1.contrib.layers import variable as variable
from kit.tf1.contrib.restoring import assign_from_checkpoint as assign_from_checkpoint
from kit.tf1.contrib.restoring import (
    assign_from_checkpoint_fn as assign_from_checkpoint_fn,
)
from kit.tf1.contrib.restoring import (
    get_variables_to_restore as get_variables_to_restore,
)
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.not_offered import refusing
from kit.tf1.train import assert_global_step as assert_global_step
from kit.tf1.train import create_global_step as create_global_step
from kit.tf1.train import get_global_step as get_global_step
from kit.tf1.train import get_or_create_global_step as get_or_create_global_step
from kit.tf1.train import list_variables as list_variables
from kit.tf1.train import load_checkpoint as load_checkpoint
from kit.tf1.train import load_variable as load_variable
from kit.tf1.variables import variable_lists
from kit.tf1.variables.variables import Variable

get_variables = variable_lists.global_variables
get_local_variables = variable_lists.local_variables
get_model_variables = variable_lists.model_variables
get_trainable_variables = variable_lists.trainable_variables


class VariableDeviceChooser:
    """Chooses the parameter server of each variable in turn: 0, 1, ..., 0, 1, ....

    >>> chooser = VariableDeviceChooser(num_tasks=2)
    >>> [chooser(None) for _ in range(3)]  # doctest: +NORMALIZE_WHITESPACE
    ['/job:ps/task:0/device:CPU:0', '/job:ps/task:1/device:CPU:0',
     '/job:ps/task:0/device:CPU:0']
    """

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: int | None = None,
    ) -> None:
        """Without tasks, none is named."""
        self._tasks = cycle(range(num_tasks) if num_tasks else [None])
        self._rest: dict[str, Any] = {
            "job": job_name,
            "replica": replica,
            "device_type": device_type,
            "device_index": device_index,
        }

    def __call__(self, op: Any) -> str:
        """Return the device of the next variable, whichever it is."""
        return DeviceSpec(task=next(self._tasks), **self._rest).to_string()


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


__getattr__ = refusing("contrib.framework")
