"""Seconds, threads and descriptors of a cluster and its training, by number of tasks.

    python -m benchmarks.growth [--quick] [--json FILE] [--tasks N]... [--topology NAME]

Each size is a new process: it starts a `kit.Cluster` on this machine and begins a
training with 2 MiB of data. *Ready* is the time of the start, *first step* that from
the call of `kit.train` until the notebook sees step 1. Threads and descriptors are read
from /proc meanwhile. The data lie in the notebook's memory once, for all tasks. The
last row is a straight line through the last two sizes, for 1,000 tasks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rank_group import ROOT, RanksFailed
from benchmarks.results import Table, arguments, report

SIZES, QUICK_SIZES = (8, 16, 32, 64), (2, 4)
FAR, _LEAST_FOR_A_LINE = 1000, 32  # below, a line is one through noise
_EXAMPLES, _INPUTS, _STEPS = 4096, 64, 1_000_000
_LIMIT_S = 300.0
WHERE = ("notebook", "controller", "leader", "task")
SECONDS = ("ready_s", "first_s", "stop_s")


def held(pid: int) -> dict[str, int]:
    """Return the threads and descriptors of a process."""
    base = Path(f"/proc/{pid}")
    threads = len(list((base / "task").iterdir()))
    return {"threads": threads, "descriptors": len(list((base / "fd").iterdir()))}


def _step(params: dict[str, Any], batch: tuple[Any, Any]) -> tuple[float, Any]:
    x, y = batch
    error = x @ params["w"] - y
    return float((error**2).mean()), {"w": 2 * x.T @ error / len(y)}


def measure_here(n_tasks: int, topology: str) -> dict[str, Any]:
    """Start a cluster of so many tasks here, train a little, and say what it took."""
    import kit

    servers = 1 if topology == "ps" else 0
    data = np.ones((_EXAMPLES, _INPUTS)), np.ones(_EXAMPLES)
    begin = time.monotonic()
    with kit.Cluster(ps=servers, worker=n_tasks - servers) as cluster:
        found: dict[str, Any] = {"ready_s": time.monotonic() - begin}
        begin = time.monotonic()
        run = kit.train(
            _step,
            {"w": np.zeros(_INPUTS)},
            data,
            steps=_STEPS,
            batch=4 * n_tasks,
            topology=topology,
            cluster=cluster,
        )
        while run.step < 1 and not run.done:
            time.sleep(0.005)
        found["first_s"] = time.monotonic() - begin
        pids = [one.pid or 0 for one in cluster.status]
        lead = run.job.coordinator
        numbers = (os.getpid(), cluster.controller_pid, pids[lead], pids[-1])
        found |= {name: held(pid) for name, pid in zip(WHERE, numbers, strict=True)}
        run.stop()
        run.wait(60)
        begin = time.monotonic()
    found["stop_s"] = time.monotonic() - begin
    return found | {"data_mib": sum(one.nbytes for one in data) / 2**20}


def measure(n_tasks: int, topology: str) -> dict[str, Any]:
    """Measure in a new process; raises `RanksFailed` when it fails."""
    command = [sys.executable, "-m", "benchmarks.growth", "--one"]
    command += ["--tasks", str(n_tasks), "--topology", topology]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S
    )
    if done.returncode:
        raise RanksFailed(f"{n_tasks} tasks: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def flat(found: dict[str, Any]) -> list[float]:
    """Return the figures of one size in the order of the columns."""
    cells = [float(found[name]) for name in (*SECONDS, "data_mib")]
    for what in ("threads", "descriptors"):
        cells += [float(found[name][what]) for name in WHERE]
    return cells


def line(sizes: list[int], rows: list[list[float]], at: int) -> list[float]:
    """Return the figures at a size, on the straight line through the last two.

    >>> line([8, 16, 32], [[0.0], [2.0], [4.0]], 64)
    [8.0]
    """
    (a, b), (low, high) = sizes[-2:], rows[-2:]
    return [y + (z - y) * (at - a) / (b - a) for y, z in zip(low, high, strict=True)]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, nargs="+")
    parser.add_argument("--topology", default="ring")
    parser.add_argument("--one", action="store_true", help="print one's figures")
    options = parser.parse_args()
    sizes = options.tasks or list(QUICK_SIZES if options.quick else SIZES)
    if options.one:
        print(json.dumps(measure_here(sizes[0], options.topology)))
        return
    found = {n_tasks: measure(n_tasks, options.topology) for n_tasks in sizes}
    rows = [flat(one) for one in found.values()]
    names = [str(n_tasks) for n_tasks in sizes]
    if len(rows) > 1 and sizes[-1] >= _LEAST_FOR_A_LINE:
        rows.append(line(sizes, rows, FAR))
        names.append(f"{FAR} (computed)")
    digits = [2] * len(SECONDS) + [0] * (1 + 2 * len(WHERE))
    table = Table(
        f"Growth of a cluster and its training, {options.topology}",
        (
            "Ready: the start; first step: from kit.train to step 1 in the notebook.",
            f"For {FAR} tasks: the straight line through the last two sizes.",
        ),
        (
            *("tasks", "ready s", "first step s", "stop s", "data MiB"),
            *(f"threads {name}" for name in WHERE),
            *(f"descriptors {name}" for name in WHERE),
        ),
        tuple(
            (name, *(f"{x:.{n}f}" for x, n in zip(row, digits, strict=True)))
            for name, row in zip(names, rows, strict=True)
        ),
    )
    report(table, {"growth": found}, options.json)


if __name__ == "__main__":
    main()
