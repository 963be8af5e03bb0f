"""`tf.contrib.training`: a step of training, and which server gets a variable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from kit.devices import replica
from kit.devices.replica import (
    GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy,
)
from kit.devices.replica import RandomStrategy as RandomStrategy
from kit.graph.op import IndexedSlices
from kit.tf1 import logging
from kit.tf1.graph.collections import GraphKeys, get_collection, get_collection_ref
from kit.tf1.graph.control import control_dependencies, no_op
from kit.tf1.ops.arithmetic import identity
from kit.tf1.ops.checks import check_numerics as checked
from kit.tf1.ops.clip import clip_by_norm, global_norm
from kit.tf1.summary import ops as summary
from kit.tf1.train.global_step import get_or_create_global_step
from kit.tf1.train.optimizers.optimizer import Optimizer
from kit.tf1.variables.scopes import name_scope
from kit.tf1.variables.variable_lists import trainable_variables

# --------------------------------------------------------------------------------------
# `tf.contrib.training.HParams`: settings of a model by name, and read from a text.

_SETTING = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)\s*=\s*"
    r"(?:\[(?P<values>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)


class HParams:
    """Settings as attributes, each of the type of its first value; lists too."""

    def __init__(self, **kwargs: Any) -> None:
        self._names: list[str] = []
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a setting. Raises `ValueError` for a name that is taken."""
        if hasattr(self, name):
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(
                    f"Multi-valued hyperparameters cannot be empty: {name}"
                )
            value = list(value)
        self._names.append(name)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change a setting. Raises `KeyError` for a name that it does not have."""
        old = self._checked_name(name)
        if isinstance(old, list) != isinstance(value, list):
            kind = "a list" if isinstance(old, list) else "one value"
            raise ValueError(f"{name} is {kind}, not {value!r}.")
        if isinstance(old, list):
            setattr(self, name, [_cast(name, item, old[0]) for item in value])
        else:
            setattr(self, name, _cast(name, value, old))

    def del_hparam(self, name: str) -> None:
        """Take a setting away."""
        self._checked_name(name)
        self._names.remove(name)
        delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Change settings by a text: "rate=0.1,sizes=[3,4]"."""
        at = 0
        while at < len(values):
            match = _SETTING.match(values, at)
            if match is None:
                raise ValueError(f"Could not parse {values[at:]!r}; write name=value.")
            at = match.end()
            name = match["name"]
            if name not in self._names:
                raise ValueError(f"Unknown hyperparameter name for {name}")
            if match["values"] is not None:
                items = [item.strip() for item in match["values"].split(",")]
                self.set_hparam(name, items)
            else:
                self.set_hparam(name, match["value"].strip())
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Change the settings that a dict names."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Change the settings that a JSON object names."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self._names}

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting, or the default where there is none of that name."""
        return getattr(self, key) if key in self._names else default

    def to_json(self, **how: Any) -> str:
        """Return the settings as a JSON object."""
        return json.dumps(self.values(), **how)

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"HParams({self})"

    def _checked_name(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self, name)


def _cast(name: str, value: Any, like: Any) -> Any:
    """Return a value, or a text of one, in the type of another value."""
    if like is None or isinstance(value, type(like)):
        return value
    try:
        if isinstance(like, bool):
            return {"true": True, "1": True, "false": False, "0": False}[
                str(value).lower()
            ]
        if isinstance(value, str) or isinstance(like, float):
            return type(like)(value)
    except (KeyError, ValueError):
        pass
    raise ValueError(
        f"Could not cast hparam '{name}' of type '{type(like)}' from value {value!r}"
    )


# --------------------------------------------------------------------------------------
# A step of training, and where variables go.

Pairs = list[tuple[Any, Any]]  # of a gradient, or None, and its variable
USE_GLOBAL_STEP = object()


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Any = None,
    transform_grads_fn: Callable[[Pairs], Pairs] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """Return a tensor that makes one step when it is run: the loss before the step.

    `update_ops`, by default those of the collection, run before the loss is computed.
    Raises `ValueError` for variables that cannot be trained; in a run
    `InvalidArgumentError`, if `check_numerics`, for a loss that is no number.
    """
    if global_step is USE_GLOBAL_STEP:
        global_step = get_or_create_global_step()
    listed = get_collection(GraphKeys.UPDATE_OPS)
    updates = list(listed if update_ops is None else update_ops)
    if not set(listed) <= set(updates):
        logging.warning("update_ops lacks some of tf.GraphKeys.UPDATE_OPS.")
    if updates:
        with control_dependencies(updates):
            barrier = no_op(name="update_barrier")
        total_loss = _after(barrier, total_loss)
    pairs = optimizer.compute_gradients(
        total_loss,
        _trained(variables_to_train),
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    step = optimizer.apply_gradients(pairs, global_step=global_step)
    with name_scope("train_op"):
        if check_numerics:
            total_loss = checked(total_loss, "LossTensor is inf or nan")
        made = _after(step, total_loss)
    of_graph = get_collection_ref(GraphKeys.TRAIN_OP)
    if made not in of_graph:
        of_graph.append(made)
    return made


def multiply_gradients(
    grads_and_vars: Pairs, gradient_multipliers: dict[Any, Any]
) -> Pairs:
    """Return gradients times factors, given by a variable or by its name.

    Raises `ValueError` without factors, and for a factor where there is no gradient.
    """
    if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")

    def changed(gradient: Any, variable: Any) -> Any:
        keys = [
            key for key in (variable, variable.op.name) if key in gradient_multipliers
        ]
        if not keys:
            return gradient
        if gradient is None:
            raise ValueError("Requested multiple of `None` gradient.")
        return _of_values(gradient, lambda x: x * gradient_multipliers[keys[0]])

    return [(changed(*pair), pair[1]) for pair in grads_and_vars]


def clip_gradient_norms(gradients_to_variables: Pairs, max_norm: float) -> Pairs:
    """Return gradients, each shortened to a length of at most `max_norm`."""

    def clipped(gradient: Any) -> Any:
        return _of_values(gradient, lambda x: clip_by_norm(x, max_norm))

    return [
        (gradient if gradient is None else clipped(gradient), variable)
        for gradient, variable in gradients_to_variables
    ]


def add_gradients_summaries(grads_and_vars: Pairs) -> list[Any]:
    """Return summaries of how the gradients are spread, and of their norms."""
    made = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        name = variable.op.name
        made.append(summary.histogram(f"{name}_gradient", values))
        made.append(summary.scalar(f"{name}_gradient_norm", global_norm([values])))
    return made


def _of_values(gradient: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(gradient, IndexedSlices):
        return change(gradient)
    values = change(gradient.values)
    return IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _after(op: Any, tensor: Any) -> Any:
    with control_dependencies([op]):
        return identity(tensor)


def _trained(chosen: Any) -> list[Any]:
    variables = trainable_variables()
    wrong = [variable.op.name for variable in chosen or () if variable not in variables]
    if wrong:
        raise ValueError(f"{wrong} are not among tf.trainable_variables().")
    return list(variables if chosen is None else chosen)


def byte_size_load_fn(op: Any) -> int:
    """Return the bytes of an operation's only output; a scalar is one element.

    Raises `ValueError` if it has not one output, or its shape is not fully known.
    """
    outputs = [output.static for output in op.outputs]
    return replica.byte_size_load_fn(
        SimpleNamespace(name=op.name, type=op.type, device=op.device, outputs=outputs)
    )
