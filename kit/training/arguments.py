"""What is given to a training, checked before anything is done with it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError, NotFinite
from kit.graph.array_protocol import ArrayProtocol
from kit.training.optimizers import rules
from kit.training.optimizers.rule import Optimizer, Rule


def whole(name: str, value: SupportsIndex) -> int:
    """Return `value` as an int; `InvalidArgumentError` for other than whole numbers."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgumentError(
            f"{name} is {value!r}; give a whole number."
        ) from None


def checked_params(params: object) -> dict[str, Any]:
    """Return the initial values by name; raises for what no training can begin with."""
    if not isinstance(params, Mapping):
        raise InvalidArgumentError(
            f"params is {type(params).__name__}; give a dict of arrays by name, for "
            f"example {{'w': np.zeros((64, 10), np.float32)}}."
        )
    for name, value in params.items():
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"a parameter is called {name!r}; names are texts, such as 'w1'."
            )
        if hasattr(value, "dtype") and not np.isfinite(to_numpy(value)).all():
            raise NotFinite(
                f"the initial value of parameter {name!r} holds NaN or infinity, from "
                f"where nothing can be learned; give finite values."
            )
    return dict(params)


def quorum_of(aggregate: SupportsIndex | None) -> int:
    """Return how many gradients make a step, 0 for those of all workers."""
    if aggregate is None:
        return 0
    found = whole("aggregate", aggregate)
    if found < 1:
        raise InvalidArgumentError(
            f"aggregate is {found}; give how many gradients make a step, at least 1, "
            f"or None for those of all workers."
        )
    return found


def optimizer_of(given: Optimizer | str) -> Optimizer:
    """Return an optimizer by its name or as it is given; raises for another object."""
    if isinstance(given, str):
        return rules.by_name(given)
    if isinstance(given, type):
        name = given.__name__
        example = f"kit.{name}(0.001)" if issubclass(given, Rule) else f"{name}(...)"
        raise InvalidArgumentError(
            f"optimizer is the class {name}; give an object of it: {example}."
        )
    if isinstance(given, int | float):
        raise InvalidArgumentError(
            f"{given!r} is not an optimizer; give the number to one, such as "
            f"kit.GradientDescent({given}) or kit.Adam({given})."
        )
    if not (hasattr(given, "slots") and hasattr(given, "apply")):
        raise InvalidArgumentError(
            f"{given!r} is not an optimizer; give a name such as 'adam', or an object "
            f"such as kit.Adam(0.001)."
        )
    for name, value in vars(given).items() if isinstance(given, Rule) else ():
        if isinstance(value, ArrayProtocol):
            raise InvalidArgumentError(
                f"{name} is {value!r}; tensors set an optimizer only in "
                f"minimize(), kit.train needs a number."
            )
    return given


def optimizers_of(
    optimizer: Optimizer | str,
    local_steps: SupportsIndex | None,
    outer: Optimizer | str | None,
) -> dict[str, Any]:
    """Return who updates what: the owners of a range, and a worker by itself."""
    if local_steps is None:
        if outer is not None:
            raise InvalidArgumentError(
                f"outer={outer!r} says what is done with the moves of local steps; "
                f"give local_steps=..., or set optimizer instead."
            )
        return {"optimizer": optimizer_of(optimizer)}
    n_steps = whole("local_steps", local_steps)
    if n_steps < 1:
        raise InvalidArgumentError(
            f"local_steps is {n_steps}; give how many steps a worker makes before an "
            f"exchange, at least 1, or None to exchange the gradients themselves."
        )
    owners = rules.GradientDescent(1.0) if outer is None else optimizer_of(outer)
    inner = optimizer_of(optimizer)
    return {"optimizer": owners, "inner": inner, "local_steps": n_steps}
