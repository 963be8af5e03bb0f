"""Which trainings may have workers that do not agree on parameters after a step.

Pure. `kit.exchange.topologies.topology` says what such a topology is, and
`kit.training.worker.local_steps` what workers have instead of agreed parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kit.errors import InvalidArgumentError
from kit.exchange.topologies.topology import (
    Topology,
    agreeing,
    by_name,
    steps_to_all,
)
from kit.wire.shaping import LinkSettings

if TYPE_CHECKING:
    from kit.training.coordination.epoch import Epoch
    from kit.training.job import Job


def check_apart(job: Job, topology: Topology) -> None:
    """Raise `InvalidArgumentError` if a job cannot have this topology."""
    name = topology.name
    if not job.local_steps:
        raise InvalidArgumentError(
            f"with topology {name!r} workers do not agree after a step: each goes on "
            f"with parameters of its own. Give local_steps=1 to exchange after each "
            f"step, or more; or use topology={agreeing(name)!r}."
        )
    if job.stage_specs:
        raise InvalidArgumentError(
            f"compress={job.compress} is for gradients that all workers add up, and "
            f"with topology {name!r} they send their parameters; leave one out."
        )
    if job.checkpoints is not None and not job.states:
        raise InvalidArgumentError(
            f"with topology {name!r} each worker has parameters of its own, and the "
            f"checkpoints of this training have no place for them; begin it with "
            f"topology={name!r} and switch then, or leave out checkpoint."
        )
    steps_to_all(topology, job.group)  # raises where news would never reach all


def check_switch(job: Job, name: str, synchronous: bool = True) -> None:
    """Raise `InvalidArgumentError` for a topology that a training cannot be given."""
    topology = job.check_topology(name, synchronous)
    if job.generation is None or topology.agrees == by_name(job.topology).agrees:
        return
    raise InvalidArgumentError(
        f"an elastic training does its newest steps again after a loss, as they were "
        f"done; so it cannot switch between {job.topology!r} and {name!r}, of "
        f"which only one makes workers agree after a step. Begin with the other "
        f"one, or leave out elastic."
    )


def check_change(
    job: Job, foreseen: Callable[[int], Epoch], *, at: int = 0, **changes: Any
) -> None:
    """Check a change from step `at` on together with what is `foreseen` for then."""
    job.check_step(at)
    given = {name: value for name, value in changes.items() if value is not None}
    then = replace(foreseen(at), **given)
    LinkSettings.parse(then.link)
    job.check_topology(then.topology, then.synchronous)
    if "topology" in given:
        check_switch(job, then.topology, then.synchronous)
