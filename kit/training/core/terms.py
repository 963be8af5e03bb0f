"""What the workers of a program that each begin the same training must agree on.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass

from kit.training.core.job import Job

_MOST_NAMED = 4


def terms_of(job: Job) -> dict[str, str]:
    """Return everything that must be equal on all workers, by name.

    Tasks, parameters with their order, optimizer and its settings, steps, batch, seed,
    topology, and what decides how the gradients are cut and how links are opened.
    """
    return {
        "tasks": ", ".join(task.short for task in job.tasks),
        "hosts": ", ".join(job.hosts) or "one",
        "order of parameters": ", ".join(spec.name for spec in job.specs),
        **{
            f"parameter {spec.name!r}": f"{spec.dtype}{list(spec.shape)}"
            for spec in job.specs
        },
        "optimizer": text_of(job.optimizer),
        "accumulate": str(job.accumulate),
        "local steps": str(job.local_steps),
        "optimizer of local steps": text_of(job.inner),
        "steps": str(job.steps),
        "batch": str(job.batch),
        "seed": str(job.seed),
        "topology": job.topology,
        "sync": str(job.synchronous),
        "aggregate": str(job.aggregate or len(job.workers)),
        "staleness": "any" if job.staleness is None else str(job.staleness),
        "link": job.link or "none",
        "placement": job.placement,
        "device": job.device,
        "state": str(job.keeps_state),
        "compress": job.compress or "none",
        "compressed bytes": str([stage.payload_bytes for stage in job.layout.stages]),
        # Where it begins is the coordinator's affair.
        "checkpoint": repr(job.checkpoints) if job.checkpoints else "none",
        "elastic": str(job.is_elastic),
        "bucket_bytes": str(job.settings.bucket_bytes),
        "streams": str(job.settings.streams),
    }


def text_of(optimizer: object) -> str:
    """Return what an optimizer, or another object that is given, is called."""
    if optimizer is None or is_dataclass(optimizer):
        # A schedule of the user's own has an address in its text.
        return re.sub(r" at 0x[0-9a-f]+", "", repr(optimizer))
    return type(optimizer).__qualname__


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return in words what differs; empty when nothing does.

    >>> difference({"steps": "10", "seed": "0"}, {"steps": "20", "seed": "0"})
    'steps is 20 instead of 10'
    """
    names = dict.fromkeys([*ours, *theirs])
    complaints = [
        f"{name} is {theirs.get(name, 'missing')} "
        f"instead of {ours.get(name, 'missing')}"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]
    return first_few(complaints)


def first_few(differences: Sequence[str]) -> str:
    """Return the first of some differences, and how many more there are."""
    more = len(differences) - _MOST_NAMED
    rest = [f"and {more} more"] if more > 0 else []
    return "; ".join([*differences[:_MOST_NAMED], *rest])
