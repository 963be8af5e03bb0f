"""Bare processes that host the tasks of a cluster, and trainings on them.

What `kit.Cluster` does with engines is done here with a crew: no engine, no notebook.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks import mlp
from benchmarks.conductor import Crew, crew
from kit.exchange.layout import specs_of
from kit.settings import Settings
from kit.task import Task
from kit.train.job import Job
from kit.train.optimizers import GradientDescent
from kit.wire.credentials import Credentials

N_WORKERS = 2
RANK = "benchmarks.training_rank"


Times = dict[str, list[Any]]  # a worker's "ends" of steps, in nanoseconds, and "losses"


class Training(NamedTuple):
    """How a training exchanges; the model and the steps are given beside it."""

    topology: str
    synchronous: bool = True
    trace: bool = True
    writes: bool = False  # the step function writes its gradients in place


class Outcome(NamedTuple):
    """Steps a second after the warm-up, and each worker's losses."""

    rate: float
    losses: list[list[float]]


@contextmanager
def tasks() -> Iterator[Crew]:
    """Give one parameter server and two workers that know each other."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        crew("kit", RANK, 1 + N_WORKERS, "kit") as started,
    ):
        keys = Credentials.new(certificate=False).to_plain()
        found = started.order(do="listen", folder=folder, credentials=keys)
        started.order(do="connect", spec={"ps": found[:1], "worker": found[1:]})
        yield started


def train(on: Crew, how: Training, model: tuple[int, ...], steps: int) -> Outcome:
    """Train on the tasks and return how fast it went."""
    begin(on, how, model, steps)
    return outcome(on.order(do="finish")[1:], how.synchronous)


def begin(on: Crew, how: Training, model: tuple[int, ...], steps: int) -> None:
    """Begin to train, and return at once.

    The ring's job is one of the workers alone, so that no process looks on.
    """
    members = [Task("worker", index) for index in range(N_WORKERS)]
    if how.topology == "ps":
        members.insert(0, Task("ps", 0))
    job = Job(
        run=secrets.token_hex(16),
        tasks=tuple(members),
        specs=specs_of(mlp.parameters(model)),
        optimizer=GradientDescent(mlp.RATE),
        topology=how.topology,
        steps=steps if how.synchronous else steps * N_WORKERS,
        batch=mlp.BATCH * N_WORKERS,
        synchronous=how.synchronous,
        settings=Settings(trace=how.trace),
    )
    on.order(do="begin", job=job.to_plain(), model=model, writes=how.writes)


def memory(on: Crew, what: str) -> tuple[list[int], bool]:
    """Return the bytes of each task ("pss" or "rss"), and whether all have ended."""
    looks = on.order(do="look")
    return [one[what] for one in looks], all(one["over"] for one in looks)


def alone_memory(on: Crew, model: tuple[int, ...]) -> list[int]:
    """Return the bytes of each task at the end of a training by itself."""
    return [one["pss"] for one in on.order(do="alone", model=model, steps=3)]


def outcome(workers: list[Times], synchronous: bool) -> Outcome:
    """Return what the workers' times say; common steps are as fast as the slowest.

    >>> one = {"ends": [0, 10**9], "losses": []}
    >>> outcome([one, one], True).rate, outcome([one, one], False).rate
    (1.0, 3.0)
    """
    losses = [one["losses"] for one in workers]
    if synchronous:
        return Outcome(min(rate(one["ends"]) for one in workers), losses)
    return Outcome(rate(sorted(end for one in workers for end in one["ends"])), losses)


def alone(on: Crew, model: tuple[int, ...], steps: int) -> Outcome:
    """Train on every worker by itself: the slower one says how fast that is."""
    return outcome(on.order(do="alone", model=model, steps=steps)[1:], True)


def rate(ends: list[int]) -> float:
    """Return the steps a second between the moments at which steps ended.

    The first tenth warms up and does not count.

    >>> rate([0, 500_000_000, 1_000_000_000])
    2.0
    """
    skip = len(ends) // 10
    return (len(ends) - 1 - skip) * 1e9 / (ends[-1] - ends[skip])
