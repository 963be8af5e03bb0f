"""`kit.evolve`: train a model by evaluating many slightly different ones.

A thin adapter: a population of networks, a step function that evaluates a worker's
share of it, and `kit.train` for all the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from kit.errors import InvalidArgumentError, NotFinite, StepFailed
from kit.exchange.ports.memory import Array
from kit.handles import names_its_arguments
from kit.hooks import SessionRunHook
from kit.training.arguments import check_function, whole
from kit.training.client.run import Run
from kit.training.data.sources import Source, make_source
from kit.training.data.splits import check_seed, split_bounds
from kit.training.features.checkpointing.policy import Checkpoints
from kit.training.features.elastic.options import Elastic
from kit.training.optimizers.rule import Optimizer
from kit.training.train import Trains, checked_cluster, running, train

# --------------------------------------------------------------------------------------
# Evolution strategies: a gradient out of losses alone, from a population of networks.
#
# Pure arithmetic: no links, no clock; `evolve` begins the training.
#
#     parameters --+-- + sigma*noise 0 --> loss --+
#                  +-- - sigma*noise 0 --> loss --+--> difference * noise 0 --+
#                  +-- + sigma*noise 1 --> loss --+                           +--> mean
#                  +-- - sigma*noise 1 --> loss --+--> difference * noise 1 --+
#
# Salimans et al., "Evolution strategies as a scalable alternative to reinforcement
# learning", arXiv:1703.03864, 2017, with its mirrored pairs. The population takes the
# place of the mini-batch: each worker has some of the pairs, its gradient is the mean
# over those, and the exchange makes the mean of all, as it does of any gradients.
#
# Two things are other than in the paper. There, only losses travel, and each worker
# draws everybody's noise again; here the workers' sums travel, which costs the bytes of
# a usual step and saves the drawing. There, losses are replaced by their ranks, which
# needs all of them in one place; here the two of a pair are compared with each other,
# which needs no other pair, and an optimizer such as Adam makes up for the scale of the
# losses.


Params = Mapping[str, Array]


def noise(params: Params, seed: int, step: int, pair: int) -> dict[str, Array]:
    """Return the direction in which a pair of networks differs from `params`.

    Standard normal values of each parameter's shape and dtype, in the order of the
    parameters. They depend on nothing but the arguments and the version of numpy, not
    on the worker that draws them.

    >>> params = {"w": np.zeros(3), "b": np.zeros((), np.float32)}
    >>> first, same = (noise(params, seed=1, step=0, pair=2) for _ in range(2))
    >>> bool((first["w"] == same["w"]).all()), first["b"].dtype
    (True, dtype('float32'))
    """
    # Philox draws any stream at once. The third word of its counter keeps these apart
    # from the bits that shuffle the examples, the fourth one pair from the next.
    key = np.array([seed, step], np.uint64)
    bits = np.random.Philox(key=key, counter=np.array([0, 0, 1, pair], np.uint64))
    draw = np.random.Generator(bits).standard_normal
    return {
        name: np.asarray(draw(value.shape, value.dtype))
        for name, value in params.items()
    }


def shifted(params: Params, direction: Params, by: float) -> dict[str, Array]:
    """Return the parameters moved by `by` times a direction, as new arrays.

    >>> shifted({"w": np.zeros(2)}, {"w": np.array([1.0, -2.0])}, 0.5)
    {'w': array([ 0.5, -1. ])}
    """
    return {
        name: np.asarray(value + value.dtype.type(by) * direction[name])
        for name, value in params.items()
    }


class EvolutionShare(NamedTuple):
    """What a worker does in a step: the numbers of its pairs."""

    step: int
    pairs: range


@dataclass(frozen=True)
class Population:
    """The networks of every step, as the data of a training.

    A mini-batch is the population; a worker's rows of it are its pairs, so what
    counts as examples are networks. All networks of a step are judged by the same
    mini-batch of `batch` examples of `data`, whole; None if they need no data.
    """

    size: int
    data: Any = None
    batch: int = 1

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> Source:
        """Return a worker's source; `batch` is the population's size again."""
        lo, hi = split_bounds(self.size // 2, n_workers, worker)
        judges = None
        if self.data is not None:
            judges = make_source(self.data, self.batch, seed, worker=0, n_workers=1)
        return PopulationSource(range(lo, hi), judges)


class PopulationSource:
    """One worker's networks, step by step, with the examples that judge them."""

    def __init__(self, pairs: range, judges: Source | None) -> None:
        """`judges` gives whole mini-batches."""
        self._pairs, self._judges = pairs, judges

    def batch(self, step: int) -> tuple[Any, ...]:
        """Return this worker's `EvolutionShare`, and the mini-batch if there is one."""
        share = EvolutionShare(step, self._pairs)
        if self._judges is None:
            return (share,)
        return share, self._judges.batch(step)

    def examples(self, step: int) -> int:
        """Return the number of this worker's networks: always as many."""
        return 2 * len(self._pairs)


@dataclass(frozen=True)
class EvolutionStep:
    """A step function that evaluates networks instead of computing gradients."""

    loss: Callable[..., Any]
    sigma: float
    seed: int

    def __call__(
        self, params: Params, batch: tuple[Any, ...]
    ) -> tuple[float, dict[str, Array]]:
        """Return the mean loss of this worker's networks, and its gradient.

        The gradient is the mean over its pairs of noise * (loss with + minus loss with
        -) / (2 sigma). Raises `NotFinite` or `StepFailed` for a loss that is not a
        number.
        """
        share, *judges = batch
        gradient = {name: np.zeros_like(value) for name, value in params.items()}
        total = 0.0
        for pair in share.pairs:
            direction = noise(params, self.seed, share.step, pair)
            losses = [
                self._judge(shifted(params, direction, by), judges, share.step)
                for by in (self.sigma, -self.sigma)
            ]
            total += sum(losses)
            weight = (losses[0] - losses[1]) / (2 * self.sigma * len(share.pairs))
            for name, value in direction.items():
                gradient[name] += value.dtype.type(weight) * value
        return total / (2 * len(share.pairs)), gradient

    def _judge(self, network: Params, judges: list[Any], step: int) -> float:
        loss = self.loss(network, *judges)
        try:
            value = float(loss)
        except (TypeError, ValueError) as error:
            raise StepFailed(
                f"step {step}: loss() returned {loss!r}; return one number, which "
                f"says how bad a network is.",
                step=step,
            ) from error
        if not math.isfinite(value):
            raise NotFinite(
                f"step {step}: the loss of a network is {value}; the step was refused "
                f"on all members. Take a smaller sigma than {self.sigma:g} or a lower "
                f"learning rate, or bound the loss.",
                step=step,
            )
        return value


Loss = Callable[..., Any]


@names_its_arguments
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
    elastic: bool | Elastic = False,
    cluster: Trains | None = None,
) -> Run:
    """Train by evolution strategies, without gradients; return at once with a `Run`.

    In each step, `population` networks differ from the parameters by `sigma` times
    random noise, in mirrored pairs: what one adds, the other subtracts. The workers
    share the pairs and evaluate them in parallel. Then the parameters move by the
    mean of the noise, weighted with the difference it made to the loss. Nothing is
    differentiated, so the loss may jump, count or play a game.

    Parameters
    ----------
    loss : callable
        `loss(params, batch)`, or `loss(params)` without data, returns a finite number
        to minimise; negate a score. `params` is a dict of arrays that it may change.
    params : dict of str to array, or callable
        The initial values, as for `kit.train`.
    data : tuple of arrays, or iterable of mini-batches, optional
        As for `kit.train`. All networks of a step are judged by the same mini-batch,
        so the result does not depend on the number of workers, except for rounding.
    population : int, default 10
        Networks in a step: even, with at least one pair for each worker.
    sigma : float, default 0.1
        Standard deviation of the noise, above 0.
    optimizer : str or Optimizer, default "adam"
        As for `kit.train`. The estimated gradient grows with the scale of the losses;
        Adam does not depend on that scale.
    batch : int, default 64
        Examples in the mini-batch that judges a step's networks.
    topology, steps, seed, link, placement, checkpoint, restore, hooks, elastic, cluster
        As for `kit.train`.

    Returns
    -------
    Run
        Its loss is the mean over the population, and its examples are networks.

    Raises
    ------
    InvalidArgumentError
        The population is odd or too small for the workers, `sigma` is not above 0, or
        another argument cannot be used.
    ClusterBusy
        Another training is running on these tasks.

    Notes
    -----
    A step evaluates `population` losses in total and moves as many bytes as a step of
    `kit.train`. After Salimans et al., "Evolution strategies as a scalable alternative
    to reinforcement learning", arXiv:1703.03864, 2017.

    Examples
    --------
    >>> import kit, numpy as np
    >>> from kit.testing.cluster import local_cluster
    >>> def loss(params):
    ...     return float((params["w"] ** 2).sum())
    >>> with local_cluster(ps=1, worker=2) as cluster:  # in this process
    ...     run = kit.evolve(loss, {"w": np.ones(3)}, steps=5, cluster=cluster)
    ...     run.wait().step
    5
    """
    takes = ("params",) if data is None else ("params", "batch")
    check_function("loss", loss, takes, "number")
    cluster = running() if cluster is None else checked_cluster(cluster)
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
        elastic=elastic,
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
    if not (isinstance(sigma, int | float) and 0 < sigma < math.inf):
        raise InvalidArgumentError(
            f"sigma is {sigma!r}; give a number above 0: how far the networks differ "
            f"from the parameters, for example 0.1."
        )
    check_seed(seed)
    return EvolutionStep(loss, float(sigma), seed)
