"""The trainings of the demonstration, with a progress bar for each phase."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tqdm import tqdm

from kit.cluster import Cluster
from kit.demo.digits import DigitsMlp
from kit.demo.text import TextModel
from kit.training.client.run import Run
from kit.training.optimizers.rule import Optimizer
from kit.training.optimizers.rules import Adagrad, Adam
from kit.training.train import train

Accuracy = Callable[[Any], float] | None


@dataclass
class Training:
    """A finished training of the demonstration."""

    model: str
    run: Run
    accuracy: Accuracy = None


@dataclass(frozen=True)
class DemoPhase:
    """A stretch of steps under one topology."""

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
    tqdm.monitor_interval = 0  # its watching thread would outlive the bar
    # In a file or a pipe a bar that moves is noise: there only its end is written.
    return tqdm(
        total=phase.end - phase.first,
        desc=f"  {label}: {phase.topology}",
        unit=" steps",
        file=sys.stdout,
        mininterval=0.1 if sys.stdout.isatty() else 3600,
        bar_format="{desc:30}{percentage:3.0f}% |{bar:24}| {n_fmt} steps, {rate_fmt}",
    )
