"""The device function of between-graph replication: variables to ps tasks, ops to here.

Pure: no I/O. It names devices; whether they exist shows when the graph is run.

    op.type in ps_ops  ->  /job:ps/task:<strategy(op)>
    any other          ->  /job:worker

Parts that inner scopes have set win; this one fills in the others. The strategies
below choose a variable's task.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from kit.cluster_def import ClusterDef
from kit.devices.device import DeviceSpec, merge
from kit.spec import ClusterSpec

# --------------------------------------------------------------------------------------
# Which parameter server gets the next variable: in turn, by load, or by its name.
#
# Pure. A strategy is any function of an op that returns a task's index; those here are
# objects because they have state. `kit.devices.replica` does the placing. All clients
# that share variables must ask in the same order, each with a new strategy, or they
# look for one variable on two tasks; only `RandomStrategy` does not depend on the
# order.


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


# --------------------------------------------------------------------------------------
# The device function.

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
)


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str | None = "/job:ps",
    worker_device: str | None = "/job:worker",
    merge_devices: bool = True,
    cluster: ClusterSpec | ClusterDef | dict[Any, Any] | None = None,
    ps_ops: Iterable[str] | None = None,
    ps_strategy: PsStrategy | None = None,
) -> Callable[[PsOp], str] | None:
    """Return a device scope that spreads variables over the tasks of `ps_device`.

    Parts that inner scopes have set win; an op that they have put on another job takes
    no turn. Make a new one for each graph, because it counts the turns.

    Parameters
    ----------
    ps_tasks : int, default 0
        The number of parameter servers.
    ps_device, worker_device : str, optional
        Where parameters go, and all other ops.
    merge_devices : bool, default True
        Fill in the missing parts of an op's device. If False, an op that has any device
        keeps it as it is.
    cluster : ClusterSpec, ClusterDef or dict, optional
        Overrides `ps_tasks` by its number of tasks in the job of `ps_device`. The
        indices count from 0 even if the cluster's have holes.
    ps_ops : iterable of str, optional
        Types of ops that are parameters; by default `STANDARD_PS_OPS`.
    ps_strategy : callable, optional
        Given an op, returns the index of its parameter server; by default 0, 1, ...,
        ps_tasks-1 in turn.

    Returns
    -------
    callable or None
        For `kit.device`. None, which there means "no device", without parameter
        servers.

    Raises
    ------
    ValueError
        A device name cannot be read, or `ps_tasks` is negative.
    TypeError
        Another argument has the wrong type.

    Examples
    --------
    >>> from types import SimpleNamespace as Op
    >>> setter = replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")
    >>> [setter(Op(type="VariableV2", device="")) for _ in range(3)]
    ['/job:ps/task:0', '/job:ps/task:1', '/job:ps/task:0']
    >>> setter(Op(type="MatMul", device="/cpu:0"))
    '/job:worker/task:1/device:CPU:0'
    """
    if cluster is not None:
        ps_tasks = _count(ClusterSpec(cluster), DeviceSpec.from_string(ps_device).job)
    if operator.index(ps_tasks) == 0:
        return None
    if ps_strategy is not None and not callable(ps_strategy):
        raise TypeError(
            f"ps_strategy must be a function that takes an op and returns the index of "
            f"a ps task, not {ps_strategy!r}."
        )
    # Made even if it is not used: it refuses a negative number of tasks.
    in_turn = RoundRobinStrategy(ps_tasks)
    return _Setter(
        ps_device=DeviceSpec.from_string(ps_device).to_string(),
        worker_device=DeviceSpec.from_string(worker_device).to_string(),
        merge_devices=merge_devices,
        ps_ops=_types(STANDARD_PS_OPS if ps_ops is None else ps_ops),
        strategy=in_turn if ps_strategy is None else ps_strategy,
    )


@dataclass(frozen=True)
class _Setter:
    ps_device: str
    worker_device: str
    merge_devices: bool
    ps_ops: frozenset[str]
    strategy: PsStrategy

    def __call__(self, op: PsOp) -> str:
        if op.device and not self.merge_devices:
            return op.device
        inner = DeviceSpec.from_string(op.device)
        if self.ps_device and op.type in self.ps_ops:
            outer = self._ps(op, inner)
        else:
            outer = DeviceSpec.from_string(self.worker_device)
        return merge(outer, inner).to_string()

    def _ps(self, op: PsOp, inner: DeviceSpec) -> DeviceSpec:
        spec = DeviceSpec.from_string(self.ps_device)
        if spec.job and (not inner.job or inner.job == spec.job):
            spec.task = self.strategy(op)
        return spec


def _count(cluster: ClusterSpec, job: str | None) -> int:
    return cluster.num_tasks(job) if job in cluster.jobs else 0


def _types(ps_ops: Iterable[str]) -> frozenset[str]:
    # A str would be taken for a list of letters, which match no type.
    if isinstance(ps_ops, str):
        raise TypeError(f"ps_ops must be a list of types of ops, such as [{ps_ops!r}].")
    return frozenset(ps_ops)
