"""`kit.train`: begin a training on a cluster and return at once with a handle.

A step function takes `(params, batch)`: a dict of read-only arrays, and this worker's
split of the mini-batch, a tuple of arrays. The arrays are this step's: the next one
writes over them, so copy what you keep. It returns the loss, the mean over the
split, and the gradients. It may be a generator that yields `(name, gradient)`, last
layers first, and returns the loss; then the exchange goes on beside the rest. A third
parameter called `grads` gets a dict of arrays to fill, which saves a copy: the step
returns the loss alone then, or yields names. `return loss, gradients, {"accuracy": a}`
tells more of a step, see `kit.training.worker.worker`.

A loss that is a tensor is the mean over the examples. Each worker computes it and its
gradients by itself, wherever the graph places them. `{(x, y): batches}` takes all kinds
of data. Variables begin as they say, drawn with `seed`, or as in `session`;
`kit.load_variables` sets them.
"""

from __future__ import annotations

import operator
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Protocol, SupportsIndex, overload

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError, NotFinite
from kit.exchange.layout import specs_of
from kit.graph.array_protocol import ArrayProtocol
from kit.hooks import SessionRunHook
from kit.session.client.session import Session
from kit.settings import current
from kit.task import Task
from kit.training.checkpointing.policy import Checkpoints, checkpoints_of, restore_of
from kit.training.client.run import Run
from kit.training.graph_step.loss import work_of
from kit.training.hooks.adapters import hooks_of, with_savers
from kit.training.job import Job, Work
from kit.training.optimizers import rules
from kit.training.optimizers.rule import Optimizer, Rule
from kit.wire.shaping import LinkSettings

Step = Callable[..., Any]


class Trains(Protocol):
    """What trainings run on: a `Cluster`, or a `Server` of a cluster without one."""

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in the order of the spec."""

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on its tasks."""


_current: Callable[[], Trains] | None = None


def set_current(find: Callable[[], Trains]) -> None:
    """Say how the current cluster is found; `kit.cluster` does, when it is imported."""
    global _current  # the layer above registers itself here, once
    _current = find


@overload
def train(
    step: Step,
    params: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    data: Any,
    *,
    optimizer: Optimizer | str = ...,
    topology: str = ...,
    steps: SupportsIndex = ...,
    batch: SupportsIndex = ...,
    seed: SupportsIndex = ...,
    sync: bool = ...,
    aggregate: SupportsIndex | None = ...,
    link: str = ...,
    placement: str = ...,
    checkpoint: str | PathLike[str] | Checkpoints | None = ...,
    restore: str | int | bool | None = ...,
    hooks: Iterable[SessionRunHook] = ...,
    cluster: Trains | None = ...,
) -> Run: ...


@overload
def train(
    loss: ArrayProtocol,
    data: Mapping[Any, Any],
    /,
    *,
    optimizer: Optimizer | str = ...,
    topology: str = ...,
    steps: SupportsIndex = ...,
    batch: SupportsIndex = ...,
    seed: SupportsIndex = ...,
    sync: bool = ...,
    aggregate: SupportsIndex | None = ...,
    link: str = ...,
    placement: str = ...,
    checkpoint: str | PathLike[str] | Checkpoints | None = ...,
    restore: str | int | bool | None = ...,
    hooks: Iterable[SessionRunHook] = ...,
    cluster: Trains | None = ...,
    session: Session | None = ...,
) -> Run: ...


def train(
    step: Step | ArrayProtocol,
    params: Any = None,
    data: Any = None,
    *,
    optimizer: Optimizer | str = "gradient_descent",
    topology: str = "ps",
    steps: SupportsIndex = 100,
    batch: SupportsIndex = 64,
    seed: SupportsIndex = 0,
    sync: bool = True,
    aggregate: SupportsIndex | None = None,
    link: str = "",
    placement: str = "round_robin",
    checkpoint: str | PathLike[str] | Checkpoints | None = None,
    restore: str | int | bool | None = None,
    hooks: Iterable[SessionRunHook] = (),
    cluster: Trains | None = None,
    session: Session | None = None,
) -> Run:
    """Train a model over the tasks of a cluster; return at once.

    `step(params, batch)` returns the loss and the gradients: a dict by name, or a list
    in the order of `params`; arrays of numpy, cupy, torch, jax or tensorflow. `params`
    is a dict of float32 or float64 arrays (or a function that makes it), `data` a tuple
    of arrays (numpy or dask) whose first axis is the examples, or an iterable of
    mini-batches. `kit.train(loss, {x: images, y: labels})` trains the variables of a
    tensor instead. More forms of both: see `kit.training.train`.

    With `sync`, each of `steps` updates uses one mini-batch of `batch` examples, split
    over the workers, with the same bits for every topology; `aggregate=R` takes the
    first R gradients that come and drops the others (`run.metrics` tells which), so
    nobody waits for the slowest. Without `sync`, each worker goes at its own pace and
    `steps` counts all their updates.

    With `checkpoint`, a folder or a `kit.Checkpoints`, the training is saved, and goes
    on from the newest good one there, on any cluster and topology: `steps` is the
    total. `restore="step-400"` goes back; `restore=False` begins afresh.

    `hooks` are called around each step of the first worker (`kit.training.hooks`).
    Raises `InvalidArgumentError` for what cannot be trained, `ClusterBusy` while
    another training runs; `run.wait()` or `await run` raise what comes later. A
    worker's own `Server` as `cluster`: see `kit.server.spmd`.
    """
    work = _work(step, params, data, session, seed)
    work.hooks = hooks_of(hooks, work.step)
    checkpoints = with_savers(checkpoints_of(checkpoint), work.hooks)
    return _launch(
        running() if cluster is None else cluster,
        work,
        optimizer=_optimizer(optimizer),
        topology=topology,
        synchronous=sync,
        aggregate=_quorum(aggregate),
        link=str(LinkSettings.parse(link)),
        placement=placement,
        checkpoints=checkpoints,
        restore=restore_of(restore, checkpoints),
        **_wholes(steps=steps, batch=batch, seed=seed),
    )


def _launch(cluster: Trains, work: Work, **agreed: Any) -> Run:
    job = Job(
        run=secrets.token_hex(16),
        tasks=tuple(cluster.tasks),
        specs=specs_of(work.params or {}),
        settings=current(),
        **agreed,
    )
    run = cluster.launch(job, work)
    run.show_progress(work.hooks)
    if job.checkpoints is not None:
        run.look()
        _tell_of_damage(run)
    return run


def _tell_of_damage(run: Run) -> None:
    resumed = run.resumed_from
    if resumed is not None and resumed.passed_over:
        warnings.warn(f"the training {resumed}", stacklevel=4)


def _work(
    step: Step | ArrayProtocol,
    params: Any,
    data: Any,
    session: Session | None,
    seed: SupportsIndex,
) -> Work:
    if isinstance(step, ArrayProtocol):
        given = data if params is None else params
        work = work_of(step, given, session, whole("seed", seed))
        return Work(work.step, work.data, _checked(work.params))
    if session is not None:
        raise InvalidArgumentError(
            "session= gives the initial values of a tensor's variables; a step "
            "function begins with `params`."
        )
    values = _checked(params() if callable(params) else params)
    return Work(_callable(step), data, values)


def _quorum(aggregate: SupportsIndex | None) -> int:
    if aggregate is None:
        return 0
    found = whole("aggregate", aggregate)
    if found < 1:
        raise InvalidArgumentError(
            f"aggregate is {found}; give how many gradients make a step, at least 1, "
            f"or None for those of all workers."
        )
    return found


def _callable(step: Step) -> Step:
    if not callable(step):
        raise InvalidArgumentError(
            f"step is {type(step).__name__}; give a function (params, batch) -> "
            f"(loss, gradients)."
        )
    return step


def running() -> Trains:
    """Return the current cluster; `InvalidArgumentError` where there can be none."""
    if _current is None:
        raise InvalidArgumentError("there is no cluster: give cluster=....")
    return _current()


def _checked(params: object) -> dict[str, Any]:
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
                f"the initial value of parameter {name!r} holds NaN or infinity; "
                f"nothing can be learned from there."
            )
    return dict(params)


def _optimizer(given: Optimizer | str) -> Optimizer:
    if isinstance(given, str):
        return rules.by_name(given)
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


def _wholes(**values: SupportsIndex) -> dict[str, int]:
    return {name: whole(name, value) for name, value in values.items()}


def whole(name: str, value: SupportsIndex) -> int:
    """Return a whole number; `InvalidArgumentError` names what is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgumentError(
            f"{name} is {value!r}; give a whole number."
        ) from None
