"""`kit.evolve`: train a model by evaluating many slightly different ones.

A thin adapter: a population of networks, a step function that evaluates a worker's
share of it, and `kit.train` for all the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, SupportsIndex

from kit.errors import InvalidArgumentError
from kit.hooks import SessionRunHook
from kit.training.checkpointing.policy import Checkpoints
from kit.training.client.run import Run
from kit.training.data.splits import check_seed
from kit.training.evolution import EvolutionStep, Population
from kit.training.optimizers.rule import Optimizer
from kit.training.train import Trains, running, train, whole

Loss = Callable[..., Any]


def evolve(
    loss: Loss,
    params: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    data: Any = None,
    *,
    population: SupportsIndex = 10,
    sigma: float = 0.1,
    optimizer: Optimizer | str = "adam",
    topology: str = "ps",
    steps: SupportsIndex = 100,
    batch: SupportsIndex = 64,
    seed: SupportsIndex = 0,
    link: str = "",
    placement: str = "round_robin",
    checkpoint: str | PathLike[str] | Checkpoints | None = None,
    restore: str | int | bool | None = None,
    hooks: Iterable[SessionRunHook] = (),
    cluster: Trains | None = None,
) -> Run:
    """Train by evolution strategies: many networks at once, no gradients; return now.

    In each of `steps` steps, `population` networks differ from the parameters by
    `sigma` times random noise, in mirrored pairs: what one adds, the other subtracts.
    The workers share the pairs among them and evaluate them in parallel; then all move
    together, by the mean of the noise weighted with the difference that it made to the
    loss. Nothing is differentiated, so the loss may jump, count or play a game.

    `loss(params, batch)` gets one network's parameters, a dict of arrays of its own,
    and a mini-batch of `batch` examples of `data` (all that `kit.train` takes), and
    returns a number that shall become small; a score goes in as its negative. All
    networks of a step are judged by the same examples, whole, so the result does not
    depend on the number of workers, but for rounding. Without data it is
    `loss(params)`.

    The estimate grows with the scale of the losses, which Adam does not care about.
    The rest is as for `kit.train`: topologies, checkpoints, hooks, and the `Run`, whose
    loss is the mean over the population and which counts networks as examples.

    Raises `InvalidArgumentError` for an odd population, one with fewer pairs than there
    are workers, or a sigma that is not above 0, and what `kit.train` raises.
    """
    cluster = running() if cluster is None else cluster
    size, number = whole("population", population), whole("seed", seed)
    _check_population(size, sum(task.job != "ps" for task in cluster.tasks))
    return train(
        _step(loss, sigma, number),
        params,
        Population(size, data, whole("batch", batch)),
        optimizer=optimizer,
        topology=topology,
        steps=steps,
        batch=size,
        seed=number,
        link=link,
        placement=placement,
        checkpoint=checkpoint,
        restore=restore,
        hooks=hooks,
        cluster=cluster,
    )


def _check_population(size: int, n_workers: int) -> None:
    if size < 2 or size % 2:
        raise InvalidArgumentError(
            f"population is {size}; give an even number of networks, at least 2: they "
            f"come in mirrored pairs."
        )
    if size < 2 * n_workers:
        raise InvalidArgumentError(
            f"a population of {size} is {size // 2} mirrored pairs, too few for "
            f"{n_workers} workers; give at least {2 * n_workers}."
        )


def _step(loss: Loss, sigma: float, seed: int) -> EvolutionStep:
    if not callable(loss):
        raise InvalidArgumentError(
            f"loss is {type(loss).__name__}; give a function (params, batch) -> number."
        )
    if not (isinstance(sigma, int | float) and 0 < sigma < math.inf):
        raise InvalidArgumentError(
            f"sigma is {sigma!r}; give a number above 0: how far the networks differ "
            f"from the parameters, for example 0.1."
        )
    check_seed(seed)
    return EvolutionStep(loss, float(sigma), seed)
