"""What the demonstration found, as plain figures: for the table, the report, the JSON.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kit.demo.phases import Training
from kit.exchange.ports.memory import Array
from kit.exchange.topologies.topology import by_name, per_member
from kit.training.client.run import Run

Row = dict[str, Any]


def phase_rows(training: Training) -> list[Row]:
    """Return one row a phase: speed, time waiting, loss and, at the end, accuracy."""
    run, trace = training.run, training.run.trace
    metrics = run.metrics
    rows: list[Row] = []
    for number, epoch in enumerate(trace.epochs):
        own = [record for record in metrics if record["epoch"] == epoch.number]
        waited, total = (sum(one[key] for one in own) for key in ("wait", "seconds"))
        is_last = number == len(trace.epochs) - 1
        accuracy = None
        if is_last and training.accuracy is not None:
            accuracy = round(training.accuracy(run.params), 4)
        rows.append(
            {
                "model": training.model,
                "topology": epoch.topology,
                "link": epoch.link or "full speed",
                "steps": trace.n_steps(epoch.number),
                "steps/s": round(trace.step_rate(epoch.number), 2),
                "waiting %": round(100 * waited / total if total else 0.0, 1),
                "loss": round(own[-1]["loss"], 4) if own else None,
                "accuracy": accuracy,
            }
        )
    return rows


def traffic_rows(training: Training) -> list[Row]:
    """Return one row for each phase and task: bytes a step, measured and by formula."""
    return [
        {
            "model": training.model,
            "topology": entry.topology,
            "task": entry.task,
            "sent": _a_step(entry.sent, entry.steps),
            "sent, formula": _a_step(entry.formula_sent, entry.steps),
            "received": _a_step(entry.received, entry.steps),
            "received, formula": _a_step(entry.formula_received, entry.steps),
        }
        for entry in training.run.traffic
        if entry.steps
    ]


def disagreements(training: Training) -> list[str]:
    """Return where measured bytes and formula differ, in sentences."""
    wrong = [
        f"{training.model}, {entry.topology}, {entry.task}: sent {entry.sent} and "
        f"received {entry.received} bytes in {entry.steps} steps, where the formula "
        f"gives {entry.formula_sent} and {entry.formula_received}."
        for entry in training.run.traffic
        if not entry.agrees
    ]
    wrong += [
        f"{training.model}, epoch {epoch}: {measured} bytes moved at its start, where "
        f"the formula gives {formula}."
        for epoch, measured, formula in training.run.moved_once
        if measured != formula
    ]
    return wrong


def differing_bits(one: Mapping[str, Array], other: Mapping[str, Array]) -> int:
    """Return in how many bits two sets of parameters differ.

    >>> a = {"w": np.float32([1.0, 2.0])}
    >>> differing_bits(a, {"w": np.nextafter(a["w"], np.float32(9))})
    2
    """
    count = 0
    for name, value in one.items():
        left = np.frombuffer(value.tobytes(), np.uint8)
        right = np.frombuffer(other[name].tobytes(), np.uint8)
        count += int(np.bitwise_count(left ^ right).sum())
    return count


def formula(run: Run) -> dict[str, dict[str, tuple[int, int]]]:
    """Return topology -> task -> bytes (sent, received) a step, for the report."""
    return {
        name: {
            task.short: per_member(run.job.traffic(by_name(name)), member)
            for member, task in enumerate(run.job.tasks)
        }
        for name in dict.fromkeys(row.topology for row in run.trace.epochs)
    }


def _a_step(n_bytes: int, steps: int) -> int | float:
    whole, rest = divmod(n_bytes, steps)
    return n_bytes / steps if rest else whole
