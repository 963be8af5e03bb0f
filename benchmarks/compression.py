"""What compressed gradients save on slow links, measured and by the bytes' formula.

    python -m benchmarks.compression [--quick] [--json FILE]

Bare processes train on a ring with shaped links (`link=`); their
steps compute next to nothing. Timed is a whole step: to compress, exchange, decode and
update. The formula is the bytes that a task sends over the bandwidth; what is saved by
it is the difference to a training that sends its gradients as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kit
from benchmarks.results import Table, arguments, median, report
from kit.exchange.topologies.topology import by_name, per_member
from kit.testing.processes import ProcessCluster, process_cluster
from kit.trace.trace import Trace
from kit.training.core.job import Job
from kit.wire.shaping import LinkSettings

SPEED = "20mbit"
SHAPE = (1024, 1024)
WORKERS = (2, 4)
COMPRESSORS: dict[str, Any] = {
    "none": None,
    "float16": "float16",
    "int8": "int8",
    "TopK(0.01)": kit.TopK(0.01),
    "PowerSGD(4)": kit.PowerSGD(4),
}
_WAIT_S = 580.0
_WARM = 1  # steps that are not counted


def step(params: Any, batch: Any, grads: Any) -> float:
    """Compute next to nothing, but gradients that are worth compressing."""
    grads["w"][...] = params["w"]
    grads["w"][:, 0] += batch[0][0, 0]
    return 0.0


def steps_s(trace: Trace) -> list[float]:
    """Return the seconds of each step, from the first begin to the last end."""
    result = []
    for number in np.unique(trace.steps["step"])[_WARM:]:
        of_step = trace.steps[trace.steps["step"] == number]
        result.append(float(of_step["end"].max() - of_step["start"].min()) * 1e-9)
    return result


def formula_s(job: Job) -> float:
    """Return what the bytes of a step take on the busiest task's link."""
    traffic = job.traffic(by_name(job.topology))
    sent = (per_member(traffic, member) for member in range(len(job.tasks)))
    return max(map(max, sent)) * LinkSettings.parse(job.link).ns_per_byte * 1e-9


def measure(cluster: ProcessCluster, compress: Any, steps: int) -> dict[str, Any]:
    """Train once; returns seconds, measured and by formula, and bytes of a step."""
    dice = np.random.default_rng(1)
    n = len(cluster.tasks)
    run = kit.train(
        step,
        {"w": dice.normal(size=SHAPE).astype(np.float32)},
        (dice.normal(size=(n, 1)).astype(np.float32),),
        compress=compress,
        topology="ring",
        link=SPEED,
        steps=steps + _WARM,
        batch=n,
        cluster=cluster,
    ).wait(_WAIT_S)
    assert all(entry.agrees for entry in run.traffic), run.traffic
    traffic = run.job.traffic(by_name(run.job.topology))
    return {
        "measured": steps_s(run.trace),
        "formula": formula_s(run.job),
        "bytes": per_member(traffic, 0)[0],
    }


def main() -> None:
    """Measure each compressor, print the table, write the figures."""
    options = arguments(__doc__ or "").parse_args()
    result: dict[str, dict[str, Any]] = {}
    for n in WORKERS[:1] if options.quick else WORKERS:
        with process_cluster(0, n) as cluster:
            result[f"{n} workers"] = {
                name: measure(cluster, compress, 4 if options.quick else 20)
                for name, compress in COMPRESSORS.items()
            }
    report(_table(result), result, options.json)


def _table(result: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for tasks, by_name_of in result.items():
        whole = by_name_of["none"]
        for name, row in by_name_of.items():
            took, says = median(row["measured"]), row["formula"]
            saved = median(whole["measured"]) - took
            formula = whole["formula"] - says
            cells = [f"{s * 1e3:.1f}" for s in (took, says, saved, formula)]
            ratio = f"{saved / formula:.2f}" if formula else "-"
            rows.append((tasks, name, f"{row['bytes']}", *cells, ratio))
    head = "tasks", "compress", "bytes", "step", "formula"
    return Table(
        "Compressed gradients on slow links",
        (
            f"Milliseconds of a step on a ring at {SPEED}: a matrix of "
            f"{SHAPE[0]} x {SHAPE[1]} float32. Bytes are what a task sends.",
        ),
        (*head, "saved", "saved, formula", "ratio"),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
