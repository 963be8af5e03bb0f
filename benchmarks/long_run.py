"""What a long training costs the notebook that watches it.

    python -m benchmarks.long_run [--quick] [--steps N] [--json FILE]

A small model trains on a cluster of two workers and a parameter server, 200,000 steps
by default. Each second this process, which is the notebook, notes its own resident
memory and that of the tasks, and how long `run.loss`, `repr(run)` and `run.trace` take.
Flat is by how much the memory of a process varies in the second half of the steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import psutil

import kit
from benchmarks.results import Table, arguments, median, report

_EVERY_S = 1.0
_MIB = 2**20
TOPOLOGIES = ("ps", "ring")
LOOKS: dict[str, Callable[[kit.Run], object]] = {
    "run.loss": lambda run: run.loss,
    "repr(run)": repr,
    "run.trace": lambda run: run.trace,
}


class Look(NamedTuple):
    """One look: steps done, bytes of the notebook and of the largest task, seconds."""

    step: int
    notebook: int
    task: int
    seconds: dict[str, float]


def step(params: Any, batch: Any) -> Any:
    """Fit a line: almost nothing to compute."""
    x, y = batch
    error = x @ params["w"] - y
    return float(error @ error) / len(y), {"w": 2 * x.T @ error / len(y)}


def watch(cluster: kit.Cluster, topology: str, steps: int) -> list[Look]:
    """Train, and look each second until the training is over."""
    dice = np.random.default_rng(0)
    data = dice.random((64, 8), np.float32), dice.random(64, np.float32)
    params = {"w": np.zeros(8, np.float32)}
    processes = [psutil.Process(item.pid) for item in cluster.status if item.pid]
    run = kit.train(step, params, data, topology=topology, steps=steps, cluster=cluster)
    looks = []
    while not run.done:
        time.sleep(_EVERY_S)
        looks.append(look(run, processes))
    run.wait(0)
    if not all(entry.agrees for entry in run.traffic):
        raise RuntimeError(f"bytes are not those of the formula: {run.traffic}")
    print(f"{topology}: {run}, {run.trace.kept}", flush=True)
    return looks


def look(run: kit.Run, tasks: list[psutil.Process]) -> Look:
    """Look once."""
    seconds = {}
    for name, do in LOOKS.items():
        begin = time.perf_counter()
        do(run)
        seconds[name] = time.perf_counter() - begin
    largest = max(task.memory_info().rss for task in tasks)
    return Look(run.step, psutil.Process().memory_info().rss, largest, seconds)


def varied(sizes: list[int]) -> float:
    """Return by how much sizes vary, as a share of the least.

    >>> varied([100, 125, 101])
    0.25
    """
    return max(sizes) / min(sizes) - 1 if sizes else float("nan")


def row(topology: str, looks: list[Look]) -> tuple[str, ...]:
    """Return the cells of one training."""
    later = [item for item in looks if item.step >= looks[-1].step / 2]
    cells = [topology, f"{looks[-1].step:,}", f"{len(looks) * _EVERY_S:.0f}"]
    for name in ("notebook", "task"):
        sizes = [getattr(item, name) for item in later]
        cells += [f"{max(sizes) / _MIB:.0f}", f"{100 * varied(sizes):.1f} %"]
    for name in LOOKS:
        cells.append(f"{1e6 * median([item.seconds[name] for item in later]):.0f}")
    return tuple(cells)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, help="of each training")
    parser.add_argument("--topologies", nargs="+", default=TOPOLOGIES)
    options = parser.parse_args()
    steps = options.steps or (5_000 if options.quick else 200_000)
    with kit.Cluster(ps=1, worker=2) as cluster:
        result = {name: watch(cluster, name, steps) for name in options.topologies}
    table = Table(
        "Looking at a long training",
        (
            "Memory is resident MiB, the most of the second half of the steps, and by "
            "how much it varies there. Times are medians of the second half, in "
            "microseconds. The trace keeps 200,000 rows of each table.",
        ),
        (
            *("topology", "steps", "seconds", "notebook", "flat", "largest task"),
            *("flat", *LOOKS),
        ),
        tuple(row(name, looks) for name, looks in result.items()),
    )
    figures = {
        name: [item._asdict() for item in looks] for name, looks in result.items()
    }
    report(table, {"looks": figures}, options.json)


if __name__ == "__main__":
    main()
