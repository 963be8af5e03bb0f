"""The first two parts of the demonstration: trainings that switch while they run.

Each phase has a progress bar. What was found is given as plain rows: for the table, the
report and the JSON.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from tqdm import tqdm

from kit.cluster import Cluster
from kit.demo.digits import DigitsMlp
from kit.demo.text import TextModel
from kit.exchange.ports.memory import Array
from kit.exchange.topologies.topology import by_name, per_member
from kit.training.client.run import Run
from kit.training.optimizers.rule import Optimizer
from kit.training.optimizers.rules import Adagrad, Adam
from kit.training.train import train

Accuracy = Callable[[Any], float] | None
Row = dict[str, Any]


@dataclass
class Training:
    """A finished training of the demonstration."""

    model: str
    run: Run
    accuracy: Accuracy = None


@dataclass(frozen=True)
class DemoPhase:
    """The steps from `first` to before `end`, under one topology."""

    topology: str
    first: int
    end: int


def thirds(steps: int) -> list[DemoPhase]:
    """Parameter server, ring, parameter server; a third of the steps each.

    >>> [(phase.topology, phase.end - phase.first) for phase in thirds(10)]
    [('ps', 3), ('ring', 3), ('ps', 4)]
    """
    edges = [0, steps // 3, 2 * steps // 3, steps]
    topologies = ("ps", "ring", "ps")
    return [
        DemoPhase(topology, first, end)
        for topology, (first, end) in zip(topologies, pairwise(edges), strict=True)
        if end > first
    ]


def halves(steps: int) -> list[DemoPhase]:
    """Parameter server, then ring; half of the steps each."""
    middle = -(-steps // 2)
    phases = [DemoPhase("ps", 0, middle), DemoPhase("ring", middle, steps)]
    return [phase for phase in phases if phase.end > phase.first]


def digits(
    cluster: Cluster,
    model: DigitsMlp,
    phases: Sequence[DemoPhase],
    seed: int,
    label: str,
) -> Training:
    """Train the digits through the phases, switching while it runs."""
    run = _begin(cluster, model, phases, seed, Adam(0.003))
    return Training(label, follow(run, phases, label), model.accuracy)


def text(
    cluster: Cluster,
    model: TextModel,
    phases: Sequence[DemoPhase],
    seed: int,
    link: str,
) -> Training:
    """Train the text model on links of a given speed."""
    run = _begin(cluster, model, phases, seed, Adagrad(0.01), link)
    return Training("text", follow(run, phases, "text"))


def _begin(
    cluster: Cluster,
    model: DigitsMlp | TextModel,
    phases: Sequence[DemoPhase],
    seed: int,
    optimizer: Optimizer,
    link: str = "",
) -> Run:
    return train(
        model.step,
        model.params,
        model.train,
        optimizer=optimizer,
        topology=phases[0].topology,
        steps=phases[-1].end,
        batch=32 * sum(task.job != "ps" for task in cluster.tasks),
        seed=seed,
        link=link,
        cluster=cluster,
    )


def follow(run: Run, phases: Sequence[DemoPhase], label: str) -> Run:
    """Ask for the switches, show the progress, and wait for the end.

    Raises what the training fails with.
    """
    for phase in phases[1:]:
        run.switch(phase.topology, at=phase.first)
    for phase in phases:
        with _bar(phase, label) as bar:
            while not run.done and run.step < phase.end:
                bar.update(max(0, min(run.step, phase.end) - phase.first - bar.n))
                time.sleep(0.05)
            bar.update(max(0, min(run.step, phase.end) - phase.first - bar.n))
    return run.wait()


def _bar(phase: DemoPhase, label: str) -> tqdm[Any]:
    tqdm.monitor_interval = 0  # its monitoring thread would outlive the bar
    # In a file or a pipe a moving bar is noise: only its end is written there.
    return tqdm(
        total=phase.end - phase.first,
        desc=f"  {label}: {phase.topology}",
        unit=" steps",
        file=sys.stdout,
        mininterval=0.1 if sys.stdout.isatty() else 3600,
        bar_format="{desc:30}{percentage:3.0f}% |{bar:24}| {n_fmt} steps, {rate_fmt}",
    )


def phase_rows(training: Training) -> list[Row]:
    """Return one row for each phase: speed, waiting, loss and, at the end, accuracy."""
    run, trace = training.run, training.run.trace
    metrics = run.metrics
    rows: list[Row] = []
    for number, epoch in enumerate(trace.epochs):
        own = [record for record in metrics if record["epoch"] == epoch.number]
        waited, total = (sum(row[key] for row in own) for key in ("wait", "seconds"))
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
    """Return where measured bytes and formula differ, a sentence for each."""
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


def differing_bits(params: Mapping[str, Array], other: Mapping[str, Array]) -> int:
    """Return in how many bits two sets of parameters differ.

    >>> a = {"w": np.float32([1.0, 2.0])}
    >>> differing_bits(a, {"w": np.nextafter(a["w"], np.float32(9))})
    2
    """
    count = 0
    for name, value in params.items():
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
