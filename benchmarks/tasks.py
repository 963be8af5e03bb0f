"""Bare processes that host the tasks of a cluster, and trainings on them.

What `kit.Cluster` does with engines is done here with a rank group: no engine, no
notebook.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import mlp
from benchmarks.problem import load
from benchmarks.rank_group import RankGroup, rank_group
from kit.exchange.layout import specs_of
from kit.settings import Settings
from kit.task import Task
from kit.training.core.job import Job
from kit.training.optimizers.rules import GradientDescent
from kit.wire.handshake.credentials import Credentials

N_WORKERS = 2
RANK = "benchmarks.training_rank"


Times = dict[str, list[Any]]  # a worker's "ends" of steps, in nanoseconds, and "losses"


class Training(NamedTuple):
    """How a training exchanges; the model and the steps are given beside it."""

    topology: str
    synchronous: bool = True
    trace: bool = True
    writes: bool = False  # the step function writes its gradients in place
    n_ps: int = 1  # of a topology with servers
    link: str = ""
    bucket_bytes: int = 0  # 0: as many as a training takes by itself


class Outcome(NamedTuple):
    """Steps a second after the warm-up, and each worker's losses."""

    rate: float
    losses: list[list[float]]


@contextmanager
def tasks(n_ps: int = 1, n_workers: int = N_WORKERS) -> Iterator[RankGroup]:
    """Give parameter servers and workers that know each other, in this order."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        rank_group("kit", RANK, n_ps + n_workers, "kit", str(n_ps)) as started,
    ):
        keys = Credentials.new(certificate=False).to_plain()
        result = started.order(do="listen", folder=folder, credentials=keys)
        started.order(do="connect", spec={"ps": result[:n_ps], "worker": result[n_ps:]})
        yield started


def train(
    on: RankGroup, how: Training, problem: Path, steps: int, n_workers: int = N_WORKERS
) -> Outcome:
    """Train on the tasks and return how fast it went."""
    begin(on, how, problem, steps, n_workers)
    return outcome(on.order(do="finish")[-n_workers:], how.synchronous)


def begin(
    on: RankGroup, how: Training, problem: Path, steps: int, n_workers: int = N_WORKERS
) -> None:
    """Begin to train, and return at once.

    The ring's job is one of the workers alone, so that no process looks on.
    """
    members = [Task("worker", index) for index in range(n_workers)]
    if how.topology == "ps":
        members[:0] = [Task("ps", index) for index in range(how.n_ps)]
    job = Job(
        run=secrets.token_hex(16),
        tasks=tuple(members),
        specs=specs_of(load(problem).params),
        optimizer=GradientDescent(mlp.RATE),
        topology=how.topology,
        steps=steps if how.synchronous else steps * n_workers,
        batch=mlp.BATCH * n_workers,
        link=how.link,
        synchronous=how.synchronous,
        settings=Settings(trace=how.trace, bucket_bytes=how.bucket_bytes),
    )
    on.order(do="begin", job=job.to_plain(), path=str(problem), writes=how.writes)


def memory(on: RankGroup, what: str) -> tuple[list[int], bool]:
    """Return the bytes of each task ("pss" or "rss"), and whether all have ended."""
    looks = on.order(do="look")
    return [look[what] for look in looks], all(look["over"] for look in looks)


def alone_memory(on: RankGroup, problem: Path) -> list[int]:
    """Return the bytes of each task at the end of a training by itself."""
    return [row["pss"] for row in on.order(do="alone", path=str(problem), steps=3)]


def outcome(workers: list[Times], synchronous: bool) -> Outcome:
    """Return what the workers' times say; common steps are as fast as the slowest.

    >>> one = {"ends": [0, 10**9], "losses": []}
    >>> outcome([one, one], True).rate, outcome([one, one], False).rate
    (1.0, 3.0)
    """
    losses = [worker["losses"] for worker in workers]
    if synchronous:
        return Outcome(min(rate(worker["ends"]) for worker in workers), losses)
    return Outcome(
        rate(sorted(end for worker in workers for end in worker["ends"])), losses
    )


def alone(
    on: RankGroup, problem: Path, steps: int, n_workers: int = N_WORKERS
) -> Outcome:
    """Train on every worker by itself: the slower one says how fast that is."""
    order = {"do": "alone", "path": str(problem), "steps": steps}
    return outcome(on.order(**order)[-n_workers:], True)


def rate(ends: list[int]) -> float:
    """Return the steps a second between the moments at which steps ended.

    The first tenth warms up and does not count.

    >>> rate([0, 500_000_000, 1_000_000_000])
    2.0
    """
    skip = len(ends) // 10
    return (len(ends) - 1 - skip) * 1e9 / (ends[-1] - ends[skip])
