"""Outcomes of trainings to compare, made by hand."""

from __future__ import annotations

from typing import Any

from kit.experiments.comparison import Comparison
from kit.experiments.summary import RunSummary
from kit.trace.trace import Trace
from tests.experiments.traces import PS, TASKS, measured, trace_of

FALLING = [4.0 * 0.9**k for k in range(80)]
RING = PS._replace(topology="ring")


class Made(Comparison):
    """A comparison of outcomes that are at hand, without any run."""

    def __init__(self, *made: RunSummary) -> None:
        super().__init__((), [item.name for item in made])
        self.made = made

    def outcomes(self) -> tuple[RunSummary, ...]:
        return self.made


def outcome(name: str, trace: Trace, **changes: Any) -> RunSummary:
    about: dict[str, Any] = {"state": "done", "topology": "ps"} | changes
    return RunSummary(name, trace, step=len(trace.losses()[0]), **about)


def some() -> Made:
    """Two runs, one of which is shorter and moves half, and one that made no step."""
    long = measured(
        trace_of(FALLING, [600] * 80), "validation_loss", {9: 3.0, 79: 0.01}
    )
    short = trace_of(FALLING[:30], [300] * 30, epochs=(RING,), each=5_000_000)
    return Made(
        outcome("<ps>", measured(long, "accuracy", {40: 0.5, 79: 0.75})),
        outcome("ring", short),
        outcome("none", Trace(TASKS), state="failed", error="StepFailed: no"),
    )
