"""A job by hand, without its tasks."""

from __future__ import annotations

from typing import Any

import kit
from kit.exchange.layout import Spec
from kit.settings import Settings
from kit.task import Task
from kit.training.core.job import Job

TASKS = (Task("worker", 0), Task("worker", 1))
EXAMPLES = 8


def job(steps: int, **changes: Any) -> Job:
    return Job(
        run="ab" * 16,
        tasks=TASKS,
        specs=(Spec("w", (12,), "float32"),),
        optimizer=kit.GradientDescent(0.1),
        topology="ring",
        steps=steps,
        batch=2 * EXAMPLES,
        settings=Settings(**changes),
    )
