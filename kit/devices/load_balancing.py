"""Which parameter server gets the next variable: in turn, by load, or by its name.

Pure. A strategy is any function of an op that returns a task's index; those here are
objects because they have state. `kit.devices.replica` does the placing. All clients
that share variables must ask in the same order, each with a new strategy, or they look
for one variable on two tasks; only `RandomStrategy` does not depend on the order.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np


class PsOp(Protocol):
    """What strategies and device functions need of an op; its outputs are tensors."""

    device: str

    @property
    def type(self) -> str:
        """The kind of op: `VariableV2`."""

    @property
    def name(self) -> str:
        """Its unique name in the graph."""

    @property
    def outputs(self) -> Sequence[Any]:
        """Objects with a `shape` and a `dtype`."""


PsStrategy: TypeAlias = Callable[[Any], int]
LoadFunction: TypeAlias = Callable[[Any], float]


class RoundRobinStrategy:
    """Choose task 0, 1, ..., num_tasks-1 in turn, whatever the op.

    >>> strategy = RoundRobinStrategy(2)
    >>> [strategy(None) for _ in range(3)]
    [0, 1, 0]
    """

    def __init__(self, num_tasks: int) -> None:
        self._turns = itertools.cycle(range(_at_least_one(num_tasks)))

    def __call__(self, op: object) -> int:
        """Return the task whose turn it is."""
        return next(self._turns)


class GreedyLoadBalancingStrategy:
    """Choose the task with the least load so far, the first if there are several.

    `load_fn(op)` is the load that an op adds to its task, such as `byte_size_load_fn`.

    >>> strategy = GreedyLoadBalancingStrategy(2, load_fn=len)
    >>> [strategy(op) for op in ("four", "a", "two", "b")]
    [0, 1, 1, 0]
    """

    def __init__(self, num_tasks: int, load_fn: LoadFunction) -> None:
        if not callable(load_fn):
            raise TypeError(
                f"load_fn must be a function of an op, such as byte_size_load_fn, "
                f"not {load_fn!r}."
            )
        # Not an array: sums of bytes stay exact at any size.
        self._loads: list[float] = [0] * _at_least_one(num_tasks)
        self._load_fn = load_fn

    def __call__(self, op: Any) -> int:
        """Return the least loaded task, and add the load of `op` to it."""
        load = self._load_fn(op)
        task = self._loads.index(min(self._loads))
        self._loads[task] += load
        return task


class RandomStrategy:
    """Draw a task by the op's name and the seed: the same in every process and order.

    >>> from types import SimpleNamespace
    >>> RandomStrategy(5)(SimpleNamespace(name="layer1/w_1"))
    4
    """

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        self._num_tasks = _at_least_one(num_ps_tasks)
        self._seed = seed

    def __call__(self, op: PsOp) -> int:
        """Return the task for the op's name."""
        # Not `hash`, which differs between processes.
        text = f"{op.name}_{self._seed}".encode()
        digest = hashlib.md5(text, usedforsecurity=False).digest()
        return int.from_bytes(digest) % self._num_tasks


def byte_size_load_fn(op: PsOp) -> int:
    """Return the bytes of the op's only output; a scalar counts as one element.

    Raises `ValueError` unless the op has one output with a fully known shape.

    >>> from types import SimpleNamespace
    >>> output = SimpleNamespace(shape=(10, 3), dtype=np.dtype("f4"))
    >>> byte_size_load_fn(SimpleNamespace(name="w", outputs=[output]))
    120
    """
    if len(op.outputs) != 1:
        raise ValueError(
            f"op {op.name!r} has {len(op.outputs)} outputs, and a load is taken from "
            f"exactly one; give your own load_fn for such ops."
        )
    shape = op.outputs[0].shape
    if shape is None or None in shape:
        raise ValueError(
            f"the shape of op {op.name!r} is {shape}, so its size is not known; give "
            f"the variable a full shape, or use a load_fn that does not need one."
        )
    element_bytes: int = np.dtype(op.outputs[0].dtype).itemsize
    return int(math.prod(shape)) * element_bytes


def _at_least_one(num_tasks: int) -> int:
    count = operator.index(num_tasks)
    if count < 1:
        raise ValueError(f"variables need at least one task, not {count}.")
    return count
