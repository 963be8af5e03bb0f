"""What the workers of a program that each begin the same training must agree on.

Pure. The terms of a job are texts by name, so that members can compare them and say in
words what differs. Initial values are no terms: the coordinator's are handed to all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass

from kit.training.job import Job

_MOST_NAMED = 4


def terms_of(job: Job) -> dict[str, str]:
    """Return everything that must be equal on all workers, by name.

    Tasks, parameters with their order, optimizer and its settings, steps, batch, seed,
    topology, and what decides how the gradients are cut.
    """
    optimizer = job.optimizer
    return {
        "tasks": ", ".join(task.short for task in job.tasks),
        "order of parameters": ", ".join(spec.name for spec in job.specs),
        **{
            f"parameter {spec.name!r}": f"{spec.dtype}{list(spec.shape)}"
            for spec in job.specs
        },
        "optimizer": (
            repr(optimizer) if is_dataclass(optimizer) else type(optimizer).__qualname__
        ),
        "steps": str(job.steps),
        "batch": str(job.batch),
        "seed": str(job.seed),
        "topology": job.topology,
        "sync": str(job.synchronous),
        "aggregate": str(job.quorum),
        "link": job.link or "none",
        "placement": job.placement,
        "checkpoint": _saving(job),
        "bucket_bytes": str(job.settings.bucket_bytes),
    }


def _saving(job: Job) -> str:
    """Return how the training is saved; where it begins is the coordinator's affair."""
    return "none" if job.checkpoints is None else repr(job.checkpoints)


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return in words what differs; empty when nothing does.

    >>> difference({"steps": "10", "seed": "0"}, {"steps": "20", "seed": "0"})
    'steps is 20 instead of 10'
    """
    names = dict.fromkeys([*ours, *theirs])
    found = [
        f"{name} is {theirs.get(name, 'missing')} "
        f"instead of {ours.get(name, 'missing')}"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]
    more = len(found) - _MOST_NAMED
    rest = [f"and {more} more"] if more > 0 else []
    return "; ".join(found[:_MOST_NAMED] + rest)
