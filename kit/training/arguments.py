"""What is given to a training, checked before anything is done with it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError, NotFinite
from kit.exchange.compression.compressor import Compressor
from kit.exchange.compression.stages import checked_specs
from kit.exchange.layout import Spec
from kit.features import load
from kit.graph.array_protocol import ArrayProtocol
from kit.task import Task
from kit.training.core.workplace import CPU
from kit.training.optimizers import rules
from kit.training.optimizers.groups import Groups
from kit.training.optimizers.rule import Around, Optimizer, Rule, by_layer
from kit.training.worker.worker import OFFERED, SCALE, requested


def whole(name: str, value: SupportsIndex) -> int:
    """Return `value` as an int; `InvalidArgumentError` for other than whole numbers.

    >>> whole("steps", 1e3)
    Traceback (most recent call last):
    kit.errors.InvalidArgumentError: steps is 1000.0; give a whole number: steps=1000.
    """
    if not isinstance(value, bool | np.bool_):
        try:
            return operator.index(value)
        except TypeError:
            pass
    is_whole = isinstance(value, float) and value.is_integer()
    is_digits = isinstance(value, str) and value.strip().isdecimal()
    meant = f": {name}={int(value)}" if is_whole or is_digits else ""
    raise InvalidArgumentError(f"{name} is {value!r}; give a whole number{meant}.")


def check_timeout(timeout: object) -> None:
    """Refuse what is no number of seconds (`InvalidArgumentError`); None is no limit.

    >>> check_timeout(2.5)
    """
    if timeout is not None and not isinstance(timeout, Real):
        raise InvalidArgumentError(
            f"timeout is {timeout!r}; give seconds, such as run.wait(10), or nothing."
        )


def checked_sync(sync: object) -> bool:
    """Return `sync` as a bool; `InvalidArgumentError` for anything else."""
    if not isinstance(sync, bool | np.bool_):
        raise InvalidArgumentError(
            f"sync is {sync!r}; give sync=True, and every update uses a whole "
            f"mini-batch, or sync=False, and each worker goes at its own pace."
        )
    return bool(sync)


def check_step(step: Any) -> None:
    """Refuse what cannot be called as a step function (`InvalidArgumentError`)."""
    check_function("step", step, ("params", "batch"), "(loss, gradients)", OFFERED)


def check_device(step: Any, device: object, record: object) -> None:
    """Refuse what is computed or recorded on CPUs only (`InvalidArgumentError`)."""
    if device == CPU:
        return
    if hasattr(step, "for_worker"):
        raise InvalidArgumentError(
            f"a tensor is computed where its graph places it, and device={device!r} is "
            f"for step functions; leave it out, and build the loss within `with "
            f"kit.device('/gpu:0'):`."
        )
    if record is not None:
        raise InvalidArgumentError(
            f"record={record!r} is computed again on CPUs, where the last bits of a "
            f"training with device={device!r} are others; leave out one of the two."
        )


def check_scale(step: Any, compressor: Any, local_steps: object) -> None:
    """Refuse a step that scales its loss without `kit.LossScale`, or not with it.

    Raises `InvalidArgumentError`.
    """
    scales, is_scaled = SCALE in requested(step), hasattr(compressor, "scale_of")
    if scales and not is_scaled:
        raise InvalidArgumentError(
            f"step() asks for {SCALE!r}, by which it multiplies its loss; give "
            f"compress=kit.LossScale(), which divides the mean gradient by it."
        )
    if is_scaled and not scales:
        raise InvalidArgumentError(
            f"compress={compressor} divides the mean gradient by a scale; write def "
            f"step(params, batch, {SCALE}), and multiply the loss by it before the "
            f"gradients are computed."
        )
    if is_scaled and local_steps is not None:
        raise InvalidArgumentError(
            f"compress={compressor} unscales what all workers have added up, and with "
            f"local_steps={local_steps} each makes updates of its own; leave one out."
        )


def check_function(
    what: str,
    function: Any,
    wanted: Sequence[str],
    gives: str,
    offered: Sequence[str] = (),
) -> None:
    """Refuse what cannot be called with arguments `wanted`; it may ask for `offered`.

    Raises `InvalidArgumentError` with its signature, and what to write instead.
    """
    form = f"({', '.join(wanted)})"
    if isinstance(function, type):
        raise InvalidArgumentError(
            f"{what} is the class {function.__name__}; give a function {form} -> "
            f"{gives}, or an object that can be called so: {function.__name__}()."
        )
    if not callable(function):
        raise InvalidArgumentError(
            f"{what} is {type(function).__name__}; give a function {form} -> {gives}."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in function has none
        return
    names = list(signature.parameters)
    try:
        signature.bind(*wanted, **dict.fromkeys(requested(function) & {*offered}))
    except TypeError as error:
        wrong = str(error)
    else:
        if names[:2] != ["batch", "params"]:
            return
        wrong = "the parameters come first"
    meant = _meant(what, function, names, wanted, offered)
    raise InvalidArgumentError(
        f"{what} is {_shown_call(function, signature)}, which cannot be called with "
        f"{form}: {wrong}. {meant}"
    )


def _shown_call(function: Any, signature: inspect.Signature) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    plain = [
        param.replace(annotation=param.empty) for param in signature.parameters.values()
    ]
    shown = signature.replace(parameters=plain, return_annotation=signature.empty)
    return f"{name.rpartition('<locals>.')[2]}{shown}"


def _meant(
    what: str,
    function: Any,
    names: Sequence[str],
    wanted: Sequence[str],
    offered: Sequence[str],
) -> str:
    if names[:1] == ["self"]:
        owner = function.__qualname__.split(".")[-2:][0]
        return f"Give the method of an object: {owner}().{function.__name__}."
    head = f"def {what}({', '.join(wanted)}"
    for name in names[len(wanted) :]:
        near = get_close_matches(name, offered, n=1, cutoff=0.7)
        if near and name not in offered:
            return f"Did you mean {head}, {near[0]})?"
    more = f"; it may ask for {' and '.join(offered)} too" if offered else ""
    return (
        f"Write {head}){more}. Bind what else it takes by name: "
        f"functools.partial({what}, rate=0.1)."
    )


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
    is_count = isinstance(aggregate, SupportsIndex)
    quorum = whole("aggregate", aggregate) if is_count else 0
    if quorum < 1:
        raise InvalidArgumentError(
            f"aggregate is {aggregate!r}; give how many gradients make a step, at "
            f"least 1, or None for those of all workers."
        )
    return quorum


def compression_of(
    compressor: Compressor | None,
    optimizer: Optimizer,
    specs: Sequence[Spec],
    tasks: Sequence[Task],
) -> tuple[Compressor | None, dict[str, Any]]:
    """Return what compresses gradients, if anything does, and a job's fields for it."""
    if compressor is None and by_layer(optimizer):
        compressor = load("kit.exchange.compression.whole:Whole")()
    if compressor is None:
        return None, {}
    stages = compressor.stages(specs, sum(task.job != "ps" for task in tasks))
    checked = checked_specs(stages, f"compress={compressor}")
    about = {"compress": str(compressor), "stage_specs": checked, "keeps_state": True}
    return compressor, about


def optimizer_of(optimizer: Optimizer | str) -> Optimizer:
    """Return an optimizer by its name or as it is given; raises for another object."""
    if isinstance(optimizer, str):
        return rules.by_name(optimizer)
    if isinstance(optimizer, type):
        name = optimizer.__name__
        is_rule = issubclass(optimizer, Rule)
        example = f"kit.{name}(0.001)" if is_rule else f"{name}(...)"
        raise InvalidArgumentError(
            f"optimizer is the class {name}; give an object of it: {example}."
        )
    if isinstance(optimizer, int | float):
        raise InvalidArgumentError(
            f"{optimizer!r} is not an optimizer; give the number to one, such as "
            f"kit.GradientDescent({optimizer}) or kit.Adam({optimizer})."
        )
    if not (hasattr(optimizer, "slots") and hasattr(optimizer, "apply")):
        raise InvalidArgumentError(
            f"{optimizer!r} is not an optimizer; give a name such as 'adam', or an "
            f"object such as kit.Adam(0.001)."
        )
    for name, value in vars(optimizer).items() if isinstance(optimizer, Rule) else ():
        if isinstance(value, ArrayProtocol):
            raise InvalidArgumentError(
                f"{name} is {value!r}; tensors set an optimizer only in "
                f"minimize(), kit.train needs a number."
            )
    if isinstance(optimizer, Rule):
        _check_signs(optimizer)
    if isinstance(optimizer, Groups):
        for rule in (optimizer.rule, *optimizer.groups.values()):
            optimizer_of(rule)
    if isinstance(optimizer, Around):
        optimizer_of(optimizer.rule)
    return optimizer


def _check_signs(rule: Rule) -> None:
    """Refuse settings that minimise nothing; TensorFlow's programs may have them."""
    rate, momentum = rule.learning_rate, getattr(rule, "momentum", 0.0)
    if isinstance(rate, float) and rate < 0:
        raise InvalidArgumentError(
            f"{rule.name}: learning_rate is {rate}, which climbs; give a number of at "
            f"least 0, or gradients of the negative loss."
        )
    if not 0 <= momentum <= 1:
        raise InvalidArgumentError(
            f"{rule.name}: momentum is {momentum}, so the steps would grow without "
            f"bound; give a number of at least 0 and at most 1, such as 0.9."
        )


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
