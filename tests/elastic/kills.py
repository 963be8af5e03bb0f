"""Trainings of which one process is killed at a random point of a random step.

    python -m tests.elastic.kills FIRST COUNT

kills in the trainings with the seeds FIRST to FIRST + COUNT - 1, and tells of each that
hangs, has another bit than numpy alone, or misses a step.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import kit
from kit.faults.points import POINTS
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster, process_cluster
from tests.elastic.scene import ONCE, TOPOLOGIES, losses
from tests.training.toy import BATCH, DATA, Params, fit, initial, replayed, same_bits

STEPS, EVERY = 24, 12  # the second save comes when the first one is done, at the end
OPTIMIZERS = {
    "sgd": kit.GradientDescent(0.01),
    "momentum": kit.Momentum(0.01),
    "adam": kit.Adam(0.01),
}
TOGETHER = 25  # so many kills in one cluster


class Kill(NamedTuple):
    """Which process is killed, and in which training."""

    task: str
    point: str
    at: int
    topology: str
    optimizer: str


def draw(seed: int, tasks: list[str]) -> Kill:
    """Return the kill with a seed."""
    chance = random.Random(seed)
    task, topology = chance.choice(tasks), chance.choice(TOPOLOGIES)
    is_server = task.startswith("ps")
    topology = "ps" if is_server else topology
    point = chance.choice(
        [item for item in POINTS if not _is_never_reached(item, task, is_server)]
    )
    at = 0 if point in ONCE else chance.randrange(STEPS)
    if point.startswith("ckpt."):
        at = EVERY * chance.randint(1, STEPS // EVERY)
    return Kill(task, point, at, topology, chance.choice(sorted(OPTIMIZERS)))


def _is_never_reached(point: str, task: str, is_server: bool) -> bool:
    is_rename = point in ("ckpt.before_rename", "ckpt.after_rename")
    of_another = is_rename and task != "worker:0"
    # Who owns nothing, or has nothing to compute, does not come there.
    return (
        of_another or point == "ckpt.copied" or (is_server and point == "compute.done")
    )


@cache
def undisturbed(n_workers: int, optimizer: str) -> tuple[Params, list[float]]:
    """Return the parameters as numpy alone has them, and the losses of a quiet run."""
    chosen = OPTIMIZERS[optimizer]
    with local_cluster(worker=n_workers) as cluster:
        options: Any = {"steps": STEPS, "batch": BATCH, "topology": "ring"}
        run = kit.train(
            fit, initial(), DATA, cluster=cluster, optimizer=chosen, **options
        )
        run.wait(30)
        return replayed(STEPS, n_workers, chosen), losses(run)


def play(cluster: ProcessCluster, kill: Kill) -> None:
    """Train and kill; raises `AssertionError` when anything is not as it should be."""
    cluster.restart_dead()
    lost = cluster[Task.parse(kill.task)]
    n_workers = sum(task.job == "worker" for task in cluster.tasks)
    with TemporaryDirectory() as folder:
        saves = kill.point.startswith("ckpt.")
        saved = kit.Checkpoints(str(Path(folder) / "run"), every_steps=EVERY)
        with settings(crash=f"{kill.task}@{kill.at}:{kill.point}:SIGKILL"):
            run = kit.train(
                fit,
                initial(),
                DATA,
                cluster=cluster,
                topology=kill.topology,
                optimizer=OPTIMIZERS[kill.optimizer],
                steps=STEPS,
                batch=BATCH,
                elastic=True,
                checkpoint=saved if saves else None,
            )
        assert lost.wait_for_death(20) == -signal.SIGKILL, "it was not killed"
        run.wait(30)
    assert [change.lost for change in run.losses] == [(kill.task,)], run.losses
    params, expected = undisturbed(n_workers, kill.optimizer)
    assert same_bits(run.params, params), "other bits"
    assert losses(run) == expected, "a step is missing, told twice, or another one"


def main() -> None:
    """Kill, and print what went wrong."""
    first, count = map(int, sys.argv[1:])
    n_wrong, points = 0, Counter[str]()
    for begin in range(first, first + count, TOGETHER):
        shape = random.Random(begin)
        n_ps, n_worker = shape.randint(1, 3), shape.randint(2, 3)
        with process_cluster(ps=n_ps, worker=n_worker) as cluster:
            tasks = [task.short for task in cluster.tasks]
            for seed in range(begin, min(begin + TOGETHER, first + count)):
                kill, began = draw(seed, tasks), time.monotonic()
                points[kill.point] += 1
                try:
                    play(cluster, kill)
                except Exception as error:
                    n_wrong += 1
                    text = f"{type(error).__name__}: {error}"
                    took = time.monotonic() - began
                    print(f"{seed}: WRONG {kill}, {took:.1f} s: {text}", flush=True)
        print(f"{min(begin + TOGETHER, first + count) - first} done", flush=True)
    print(f"{count} kills, {n_wrong} wrong; {dict(sorted(points.items()))}")


if __name__ == "__main__":
    main()
