"""How long a training stands still when it moves to another topology.

    python -m benchmarks.switch_pause [--quick] [--json FILE] [--model NAME ...]

A server and two workers in separate processes train with momentum, whose slots move
with every switch, and switch again every few steps. The pause is the time in which no
worker is in a step, where a switch lies between two.
"""

from __future__ import annotations

import itertools
from typing import Any

import kit
from benchmarks.mlp import BATCH
from benchmarks.problem import make
from benchmarks.results import Table, arguments, median, ratio, report
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from kit.trace.trace import Trace

MODELS = ("small", "large")
TOPOLOGIES = ("ps", "ring", "mesh", "ring-whole")
EVERY = 3
_WAIT_S = 580.0


def pauses_s(trace: Trace) -> list[float]:
    """Return the seconds in which no worker is in a step, for each switch."""
    worked = trace.steps[trace.steps["examples"] > 0]
    firsts = [row.first_step for row in trace.epochs[1:]]
    begins = [worked["start"][worked["step"] == first].min() for first in firsts]
    ends = [worked["end"][worked["step"] == first - 1].max() for first in firsts]
    return [float(b - e) * 1e-9 for b, e in zip(begins, ends, strict=True)]


def measure(name: str, switches: int) -> dict[str, Any]:
    """Train a model with so many switches; returns seconds."""
    problem = make(name)
    with process_cluster(1, 2) as cluster:
        run = kit.train(
            problem.write(),
            problem.params,
            problem.examples,
            optimizer=kit.Momentum(1e-3),
            topology=TOPOLOGIES[0],
            steps=1_000_000,
            batch=2 * BATCH,
            cluster=cluster,
        )
        run.pause()
        until(lambda: run.state == "paused" or run.done, _WAIT_S)
        first = run.step
        order = itertools.islice(itertools.cycle(TOPOLOGIES), 1, switches + 1)
        for number, topology in enumerate(order, 1):
            run.switch(topology, at=first + EVERY * number)
        run.resume()
        last = first + EVERY * (switches + 1)
        until(lambda: run.step >= last or run.done, _WAIT_S)
        run.stop()
        run.wait(_WAIT_S)
        pauses = pauses_s(run.trace)
        if len(pauses) != switches:
            raise RuntimeError(f"{len(pauses)} of {switches} switches were made")
        worked = run.trace.steps[run.trace.steps["examples"] > 0]
        steps = ((worked["end"] - worked["start"]) * 1e-9).tolist()
    return {"pauses": pauses, "steps": steps}


def main() -> None:
    """Measure each model, print the table, write the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--model", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--switches", type=int, metavar="N", help="of each model")
    options = parser.parse_args()
    switches = options.switches or (20 if options.quick else 200)
    result = {name: measure(name, switches) for name in options.model}
    report(_table(result), result, options.json)


def _table(result: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for name, row in result.items():
        pause, step = median(row["pauses"]), median(row["steps"])
        cells = [pause, max(row["pauses"]), step]
        rows.append((name, *(f"{s * 1e3:.2f}" for s in cells), ratio(pause, step)))
    head = ("model", "pause", "longest", "a step", "pause/step")
    note = "Milliseconds in which no worker is in a step; a server and two workers."
    return Table("The pause for a switch", (note,), head, tuple(rows))


if __name__ == "__main__":
    main()
