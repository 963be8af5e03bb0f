"""Variables that begin with the values of a checkpoint, as fine-tuning does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kit.tf1 import logging
from kit.tf1.graph.control import group
from kit.tf1.ops.creation import placeholder
from kit.tf1.train.checkpointing.checkpoint_reader import load_checkpoint
from kit.tf1.train.checkpointing.saver import Saver
from kit.tf1.variables.assigning import assign
from kit.tf1.variables.variable_lists import global_variables

Variables = Mapping[str, Any] | Iterable[Any]


def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """Return the global variables of some scopes, all by default, but not of others."""
    for name, value in (("include", include), ("exclude", exclude)):
        if value is not None and not isinstance(value, list | tuple):
            raise TypeError(f"{name} is provided but is not a list or a tuple.")
    chosen = [var for scope in (include or [None]) for var in global_variables(scope)]
    left_out = [var for scope in (exclude or []) for var in global_variables(scope)]
    return [variable for variable in dict.fromkeys(chosen) if variable not in left_out]


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Variables,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[[Any], None] | None:
    """Return a function that restores variables in a session, such as `init_fn`.

    `var_list` are variables, or a dict by their names in the checkpoint. With
    `ignore_missing_vars` those that it does not have are left out; None if it has none.
    Raises `ValueError` for no variables.
    """
    wanted = _by_name(var_list)
    if not wanted:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = load_checkpoint(model_path)
        for name in [name for name in wanted if not reader.has_tensor(name)]:
            logging.warning("Variable %s missing in checkpoint %s", name, model_path)
            del wanted[name]
    if not wanted:
        logging.warning("No Variables to restore")
        return None
    saver = Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def assign_from_checkpoint(
    model_path: str, var_list: Variables, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """Return an operation that assigns a checkpoint's values, and what to feed it.

    Raises `ValueError` for a variable that the checkpoint does not have, or has with
    another shape.
    """
    reader = load_checkpoint(model_path)
    feeds: dict[Any, Any] = {}
    moves = []
    for name, variable in _by_name(var_list).items():
        if not reader.has_tensor(name):
            text = f"Checkpoint is missing variable [{name}]"
            if not ignore_missing_vars:
                raise ValueError(text)
            logging.warning(text)
            continue
        value = reader.get_tensor(name)
        if list(value.shape) != variable.shape.as_list():
            raise ValueError(
                f"Total size of new array must be unchanged for {name} lh_shape: "
                f"[{value.shape}], rh_shape: [{variable.shape.as_list()}]"
            )
        fed = placeholder(variable.dtype.base_dtype, variable.shape)
        feeds[fed] = value
        moves.append(assign(variable, fed))
    return group(*moves), feeds


def _by_name(var_list: Variables) -> dict[str, Any]:
    if isinstance(var_list, Mapping):
        return dict(var_list)
    return {variable.op.name: variable for variable in list[Any](var_list)}
