"""How far rehearsals are from real trainings on slowed links, and what they choose.

    python -m benchmarks.rehearsal [--quick] [--json FILE] [--seed N] [--groups N]

Groups of tasks, links, sizes and computing times are drawn at random; no rates are
fitted to them. For each, every topology is rehearsed and then carried out by bare
processes, with links so slow that they decide, and not this machine. Step functions
sleep instead of computing, so that tasks which share a core do so at the same time.
Compared is the time from the end of a step to that of the next; bytes and messages of
both must be equal, else the benchmark ends. A recommendation agrees if no other
topology was measured to be more than 2 % quicker.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import quantiles
from typing import Any, NamedTuple

import numpy as np

import kit
from benchmarks.rank_group import RanksFailed
from benchmarks.results import Table, arguments, median, report
from kit.testing.processes import ProcessCluster, process_cluster
from kit.trace.trace import STEP_KINDS, Trace

_WAIT_S = 300.0
_WARM, _STEPS = 3, 7  # steps that are not counted, and those that are
_LEAST_S, _MOST_S = 0.25, 2.5  # of a step: longer than what a machine adds to it
_SAME, _STEADY = 1.02, 1.03  # the most that practically equal times may differ
_TRIES = 4
_QUICK, _ALL = 4, 16  # groups


class Drawn(NamedTuple):
    """The tasks, what they exchange over which links, and how long each computes."""

    ps: int
    worker: int
    n_bytes: int
    link: str
    compute: float

    def __str__(self) -> str:
        servers = f"{self.ps} ps, " * bool(self.ps)
        return f"{servers}{self.worker} workers, {self.n_bytes:,} bytes, {self.link}"


class Compared(NamedTuple):
    """One topology's step, in seconds."""

    topology: str
    predicted: float
    measured: list[float]

    @property
    def took(self) -> float:
        """A step's seconds where nothing disturbs it: the lower quartile."""
        return quantiles(self.measured)[0]

    @property
    def error(self) -> float:
        """How far the prediction is from what it took, as a share of this."""
        return abs(self.predicted - self.took) / self.took


def draw(dice: random.Random) -> Drawn:
    """Return two to sixteen tasks, some of them servers, and slow links."""
    n_tasks, ps = dice.choice([2, 3, 4, 6, 8, 12, 16]), dice.choice([0, 1, 1, 2])
    ps = min(ps, n_tasks - 2)
    worker = n_tasks - ps
    mbit = dice.choice([5, 10, 20, 50, 100])
    latency_ms = dice.choice([5, 10, 20, 40])
    # From links that decide by their latency to those that do by their bandwidth.
    line_s = dice.choice([0.1, 0.4, 1.0]) / worker
    n_bytes = round(mbit * 1e6 / 8 * line_s / 4) * 4
    compute = dice.choice([0.0, 0.02, 0.1])
    return Drawn(ps, worker, n_bytes, f"{mbit}mbit,{latency_ms}ms", compute)


def step(params: Any, batch: Any, grads: Any) -> float:
    """Take as long as the batch says, without a core."""
    grads["p0"][:1] = 1.0
    time.sleep(float(batch[0][0]))
    return 0.0


def periods(trace: Trace) -> list[float]:
    """Return the seconds from the end of each step to that of the next one."""
    worked = trace.steps[trace.steps["examples"] > 0]
    numbers = np.unique(worked["step"])[_WARM - 1 :]
    ends = [int(worked["end"][worked["step"] == number].max()) for number in numbers]
    return [float(length) * 1e-9 for length in np.diff(ends)]


def spread(measured: list[float]) -> float:
    """Return how many times the upper quartile is the lower one.

    >>> spread([1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    3.0
    """
    low, _, high = quantiles(measured)
    return high / low


def measure(case: Drawn, predicted: kit.Rehearsal, on: ProcessCluster) -> Compared:
    """Train with the rehearsed topology, again while its steps differ."""
    tries: list[list[float]] = []
    while len(tries) < _TRIES and not (tries and spread(tries[-1]) <= _STEADY):
        tries.append(_train(case, predicted, on))
    return Compared(predicted.topology, predicted.seconds, min(tries, key=spread))


def _train(case: Drawn, predicted: kit.Rehearsal, on: ProcessCluster) -> list[float]:
    """Return the seconds of some steps; `RanksFailed` if other bytes move."""
    n_steps = _WARM + _STEPS
    run = kit.train(
        step,
        {"p0": np.zeros(case.n_bytes // 4, np.float32)},
        (np.full(case.worker, case.compute),),
        topology=predicted.topology,
        link=case.link,
        steps=n_steps,
        batch=case.worker,
        cluster=on,
    )
    totals = run.wait(_WAIT_S).trace.totals
    totals = totals[np.isin(totals["kind"], list(STEP_KINDS))]
    moved = int(totals["bytes"].sum()), int(totals["messages"].sum())
    said = predicted.n_bytes * n_steps, predicted.n_messages * n_steps
    if moved != said:
        raise RanksFailed(
            f"{predicted.topology} of {case}: {n_steps} steps moved {moved} bytes and "
            f"messages, where {said} were rehearsed."
        )
    return periods(run.trace)


def compare(dice: random.Random) -> tuple[Drawn, str, list[Compared]]:
    """Draw tasks whose links decide; rehearse and measure each topology."""
    while True:
        case = draw(dice)
        result = kit.recommend(
            case.n_bytes,
            ps=case.ps,
            worker=case.worker,
            link=case.link,
            compute=case.compute,
        )
        if _LEAST_S <= result.best.exchange <= _MOST_S:
            break
    few = [plan for plan in result.rehearsals.values() if plan.seconds <= _MOST_S]
    with process_cluster(case.ps, case.worker) as cluster:
        return case, result.topology, [measure(case, item, cluster) for item in few]


def agrees(topology: str, results: list[Compared]) -> bool | None:
    """Whether a topology was measured best; None where there was no choice."""
    took = {item.topology: item.took for item in results}
    if len(took) < 2 or topology not in took:
        return None
    return took[topology] <= min(took.values()) * _SAME


def _table(result: list[tuple[Drawn, str, list[Compared]]]) -> Table:
    errors = [each.error for _, _, some in result for each in some]
    choices = [agrees(topology, some) for _, topology, some in result]
    expected = [choice for choice in choices if choice is not None]
    rows = []
    for (case, topology, some), choice in zip(result, choices, strict=True):
        for item in some:
            mark = "" if item.topology != topology else "recommended"
            mark += " (not the best)" * (bool(mark) and choice is False)
            cells = f"{item.predicted * 1e3:.1f}", f"{item.took * 1e3:.1f}"
            off = f"{item.predicted / item.took - 1:+.1%}"
            rows.append((str(case), item.topology, *cells, off, mark))
    return Table(
        "Rehearsed and measured steps on slowed links, milliseconds",
        (
            f"Error of {len(errors)} predictions: median {median(errors):.1%}, "
            f"largest {max(errors, default=0.0):.1%}. Bytes and messages are equal.",
            f"The recommended topology was the best one measured, or within 2 % of it, "
            f"in {sum(expected)} of {len(expected)} groups.",
        ),
        ("tasks and links", "topology", "predicted", "measured", "error", ""),
        tuple(rows),
    )


def main() -> None:
    """Compare some groups, print the table, write the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", type=int, help="how many are drawn")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    result = []
    for _ in range(options.groups or (_QUICK if options.quick else _ALL)):
        result.append(compare(dice))
        case, topology, some = result[-1]
        errors = ", ".join(f"{item.topology} {item.error:.1%}" for item in some)
        print(f"{case}: {errors}; {agrees(topology, some)}", file=sys.stderr)
    figures = [
        {
            **case._asdict(),
            "recommended": topology,
            "steps": [item._asdict() | {"error": item.error} for item in some],
        }
        for case, topology, some in result
    ]
    report(_table(result), {"groups": figures}, options.json)


if __name__ == "__main__":
    main()
