"""How long an elastic training stands still when its tasks change, and for a newcomer.

    python -m benchmarks.resizes [--quick] [--json FILE] [--model NAME ...] [--turns N]

A server and three workers in separate processes, with Adam. Workers are let go and
taken back by `run.resize`, by turns. The *pause* is the longest time between the ends
of two steps around the change, without a step's own time (the median of those before).
Then a worker is killed and started again; the *newcomer's* time is from the moment at
which its server can be asked to take part until the first step that it has part in.
"""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np

import kit
from benchmarks.losses import MODELS, begin
from benchmarks.results import Table, arguments, report
from kit.task import Task
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until

_WORKERS = 3
_WAIT_S = 60.0
_SETTLED_S = 0.6  # of training before and after a change
_GOAL_S = {"pause": 0.3, "newcomer": 2.0}


def measure(name: str, turns: int) -> dict[str, list[float]]:
    """Return the seconds of each pause, and of each newcomer."""
    result: dict[str, list[float]] = {"pause": [], "newcomer": []}
    with process_cluster(1, _WORKERS) as cluster:
        run = begin(cluster, name, 10_000_000, elastic=True)
        until(lambda: run.copied >= 0, _WAIT_S)
        for turn in range(turns):
            result["pause"].append(_resize(run, _WORKERS - 1 + turn % 2))
        if turns % 2:
            _resize(run, _WORKERS)
        for _ in range(turns // 2):
            result["newcomer"].append(_replace(cluster, run))
        run.stop()
        run.wait(_WAIT_S)
    return result


def _resize(run: kit.Run, workers: int) -> float:
    time.sleep(_SETTLED_S)
    at, n_changes = time.monotonic_ns(), len(run.history())
    run.resize(worker=workers)
    until(lambda: len(run.history()) > n_changes, _WAIT_S)
    _await_steps(run, 3)
    assert run.history()[-1].repeated == 0, "who is let go takes no step along"
    ends = _ends(run)
    gaps = np.diff(ends)
    own = float(np.median(gaps[ends[1:] < at]))
    return (float(gaps[ends[1:] > at].max()) - own) * 1e-9


def _ends(run: kit.Run) -> Any:
    """Return when the newest steps ended, as the last member did them (ns)."""
    rows = run.trace.steps
    rows = rows[rows["end"] > int(rows["end"].max()) - 3_000_000_000]
    steps = np.unique(rows["step"])
    return np.sort([rows["end"][rows["step"] == step].max() for step in steps])


def _replace(cluster: ProcessCluster, run: kit.Run) -> float:
    task, n_losses = Task("worker", _WORKERS - 1), len(run.losses)
    cluster[task].signal(signal.SIGKILL)
    until(lambda: len(run.losses) > n_losses, _WAIT_S)
    time.sleep(_SETTLED_S)
    cluster.restart_dead()
    n_changes, begin_s = len(run.history()), time.monotonic()
    cluster.join(run, task)
    until(lambda: len(run.history()) > n_changes, _WAIT_S)
    _await_steps(run, 1)
    return time.monotonic() - begin_s


def _await_steps(run: kit.Run, more: int) -> None:
    wanted = run.step + more
    until(lambda: run.step >= wanted, _WAIT_S)


def main() -> None:
    """Measure each model, print the table, write the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--model", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--turns", type=int, metavar="N", help="resizes of each model")
    options = parser.parse_args()
    turns = options.turns or (4 if options.quick else 40)
    result = {name: measure(name, turns) for name in options.model}
    rows = []
    for name, row in result.items():
        for what, goal_s in _GOAL_S.items():
            p50, p90 = np.percentile(row[what], (50, 90))
            cells = (p50, p90, max(row[what]), goal_s)
            rows.append((name, what, *(f"{1e3 * s:.0f}" for s in cells)))
    note = (
        "Milliseconds. The pause of a resize is without a step's own time; the "
        "newcomer's is from its server's start to the first step that it has part in."
    )
    head = ("model", "what", "p50", "p90", "worst", "goal")
    report(
        Table("A change of the tasks", (note,), head, tuple(rows)), result, options.json
    )


if __name__ == "__main__":
    main()
