"""A long elastic training of which a process is killed every few seconds.

    python -m tests.elastic.soak [MINUTES] [SECONDS]

Kills a random process every 5 SECONDS for 30 MINUTES, and starts it again. The last
worker is never killed. Of it and of this process, which is the notebook, a line a
minute tells resident memory, threads and descriptors. They swing with each loss, so
their medians count: ends with 1 if that of the last quarter of the time is above that
of the quarter before, or if a step or a bit is another one than without losses.
"""

from __future__ import annotations

import random
import signal
import statistics
import sys
import time
from typing import Any, NamedTuple

import psutil

import kit
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from tests.training.toy import BATCH, DATA, fit, initial, same_bits

N_PS, N_WORKER = 1, 3
STEP_S = 0.02
MANY = 10_000_000
MIB = 2**20
SLACK = 4, 2, 4  # in a quarter of the time: MiB, threads, descriptors


class Size(NamedTuple):
    """What a process holds."""

    mib: float
    threads: float
    descriptors: float


def size(process: psutil.Process) -> Size:
    n_bytes = process.memory_info().rss
    return Size(n_bytes / MIB, process.num_threads(), process.num_fds())


def slowly(params: Any, batch: Any) -> Any:
    """Do a step of the toy that takes a while, so that it can be done again at once."""
    time.sleep(STEP_S)
    return fit(params, batch)


def begin(cluster: Any, step: Any, steps: int, **more: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": steps, "batch": BATCH, "optimizer": "adam"}
    return kit.train(
        step, initial(), DATA, cluster=cluster, topology="ps", **options, **more
    )


def lose(cluster: ProcessCluster, run: kit.Run, task: Task) -> float:
    """Kill a process and take it back; return the seconds until a new step."""
    expected, at = len(run.history()), time.monotonic()
    cluster[task].signal(signal.SIGKILL)
    until(lambda: len(run.history()) > expected, 40)
    seen = run.history()[expected].step
    until(lambda: run.step > seen, 40)
    took = time.monotonic() - at
    # A busy machine may lose another one with it, which joins again by itself.
    lost = {*run.history()[expected].lost}
    assert task.short in lost, run.history()[expected:]
    cluster.restart_dead()
    cluster.join(run, task)

    def is_whole() -> bool:
        generation = run.newest_job.generation
        return lost <= {*generation.processes}

    until(lambda: is_whole() and run.copied >= 0, 60)
    return took


def soak(minutes: float, every_s: float) -> bool:
    """Train, kill and look; return whether all is as it should be."""
    dice, end = random.Random(0), time.monotonic() + 60 * minutes
    lines: list[tuple[Size, Size]] = []
    with process_cluster(ps=N_PS, worker=N_WORKER) as cluster:
        survivor = cluster.tasks[-1]
        watched = psutil.Process(), psutil.Process(cluster[survivor].pid)
        with settings(trace_rows=20_000):  # full long before the second half
            run = begin(cluster, slowly, MANY, elastic=True)
        until(lambda: run.copied >= 0, 40)
        look_at, kill_at, took = time.monotonic(), time.monotonic(), list[float]()
        while time.monotonic() < end:
            if time.monotonic() >= look_at:
                lines.append((size(watched[0]), size(watched[1])))
                look_at += 60 * minutes / 30
                print(f"{run.step} steps, {len(took)} kills, {lines[-1]}", flush=True)
            kill_at = max(kill_at + every_s, time.monotonic())
            took.append(lose(cluster, run, dice.choice(cluster.tasks[:-1])))
            time.sleep(max(0.0, kill_at - time.monotonic()))
        run.stop()
        run.wait(60)
    print(f"{len(took)} kills, {run.step} steps, longest pause {max(took):.2f} s")
    return all([is_flat(lines), is_undisturbed(run)])


def is_flat(samples: list[tuple[Size, Size]]) -> bool:
    """Whether nothing has grown from the third quarter of the time to the last."""
    half, last_quarter = len(samples) // 2, 3 * len(samples) // 4
    good = True
    whose = "notebook", "survivor"
    for name, sizes in zip(whose, zip(*samples, strict=True), strict=True):
        before, after = (
            Size(*(statistics.median(item) for item in zip(*some, strict=True)))
            for some in (sizes[half:last_quarter], sizes[last_quarter:])
        )
        print(f"{name}: {before} in the third quarter, {after} in the last")
        limits = zip(before, after, SLACK, strict=True)
        good &= all(later - earlier <= most for earlier, later, most in limits)
    return good


def is_undisturbed(run: kit.Run) -> bool:
    """Whether the parameters have the bits of a training without losses."""
    with local_cluster(ps=N_PS, worker=N_WORKER) as quiet:
        plain = begin(quiet, fit, run.step).wait(1200)
    same = same_bits(run.params, plain.params)
    print("the same bits" if same else "OTHER BITS")
    return same


def main() -> int:
    """Soak, and say how it went."""
    options = [float(number) for number in sys.argv[1:]]
    minutes, every_s = (*options, *(30.0, 5.0)[len(options) :])
    return 0 if soak(minutes, every_s) else 1


if __name__ == "__main__":
    sys.exit(main())
