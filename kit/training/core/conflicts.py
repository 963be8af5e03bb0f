"""Which options of a training contradict each other, and the sentence that says so.

Pure. One table, read from above: the first row that applies is what the user is told. A
row sees a job, and to which configuration it is to come: the one that it begins with,
or that of a switch. What is wrong with a single value that has a type of its own, such
as a link, its type says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kit.errors import InvalidArgumentError
from kit.exchange.layout import tensors_of
from kit.exchange.topologies.topology import (
    Topology,
    agreeing,
    by_name,
    first,
    is_served,
    steps_to_all,
)
from kit.features import load
from kit.training.core.axes import Schedule
from kit.training.optimizers.rule import by_layer
from kit.wire.shaping import LinkSettings

if TYPE_CHECKING:
    from kit.training.core.job import Job
    from kit.training.core.log import Epoch


class Configuration(NamedTuple):
    """What holds from some step on; `is_switch`: a user asks for it meanwhile."""

    job: Job
    topology: Topology
    synchronous: bool
    is_switch: bool = False

    @property
    def name(self) -> str:
        """What its topology is called."""
        return self.topology.name

    @property
    def schedule(self) -> Schedule:
        """Which gradients make a step."""
        return self.job.schedule_of(self.synchronous)


class Conflict(NamedTuple):
    """A row: whether it applies, and the sentence for it."""

    applies: Callable[[Job, Configuration], Any]
    sentence: Callable[[Job, Configuration], str]


CONFLICTS: Final = (
    Conflict(
        lambda job, to: job.steps < 0,
        lambda job, to: f"steps is {job.steps}; give 0 or more.",
    ),
    Conflict(
        lambda job, to: job.hosts and len(job.hosts) != len(job.tasks),
        lambda job, to: (
            f"hosts has {len(job.hosts)} names for {len(job.tasks)} tasks; give the "
            f"host of each, or none where all are on one."
        ),
    ),
    Conflict(
        lambda job, to: not job.workers,
        lambda job, to: (
            f"no task would compute: there is no worker among "
            f"{', '.join(task.short for task in job.tasks) or 'no tasks'}."
        ),
    ),
    Conflict(
        lambda job, to: not job.specs,
        lambda job, to: "there are no parameters to train; give some.",
    ),
    Conflict(
        lambda job, to: job.batch < len(job.workers),
        lambda job, to: (
            f"a batch of {job.batch} cannot be split over {len(job.workers)} workers; "
            f"give a batch of at least {len(job.workers)}."
        ),
    ),
    Conflict(
        lambda job, to: not 0 <= job.aggregate <= len(job.workers),
        lambda job, to: (
            f"aggregate is {job.aggregate}, but {len(job.workers)} workers send a "
            f"gradient each; give a number from 1 to {len(job.workers)}."
        ),
    ),
    Conflict(
        lambda job, to: job.accumulate < 1,
        lambda job, to: (
            f"accumulate is {job.accumulate}; give in how many pieces a worker "
            f"computes its gradient, at least 1."
        ),
    ),
    Conflict(
        lambda job, to: (
            job.local_steps < 0 or bool(job.local_steps) != (job.inner is not None)
        ),
        lambda job, to: (
            f"local_steps is {job.local_steps}, with {job.inner!r} as the optimizer of "
            f"these steps; give at least 1 and an optimizer, or neither."
        ),
    ),
    Conflict(
        lambda job, to: job.staleness is not None and job.staleness < 0,
        lambda job, to: f"staleness is {job.staleness}; give 0 updates or more.",
    ),
    Conflict(
        lambda job, to: job.staleness is not None and job.synchronous,
        lambda job, to: (
            f"staleness={job.staleness} bounds how far asynchronous workers run ahead, "
            f"and no worker of a synchronous step does; use sync=False, or leave it "
            f"out."
        ),
    ),
    Conflict(
        lambda job, to: job.staleness is not None and len(job.ps) > 1,
        lambda job, to: (
            f"staleness={job.staleness} needs one parameter server, which knows how "
            f"far each worker is, and there are {len(job.ps)}; start the cluster with "
            f"ps=1."
        ),
    ),
    Conflict(
        lambda job, to: job.aggregate and not job.synchronous,
        lambda job, to: (
            f"aggregate={job.aggregate} says for how many gradients a synchronous step "
            f"waits; with sync=False each is applied alone. Leave one out."
        ),
    ),
    Conflict(
        lambda job, to: (
            by_layer(job.optimizer)
            and (job.aggregate or not to.schedule.in_step or not job.stage_specs)
        ),
        lambda job, to: (
            f"{job.optimizer!r} needs the length of each whole parameter, which only "
            f"workers have that update all of them, in steps that all make together; "
            f"use sync=True without aggregate, or kit.AdamW."
        ),
    ),
    Conflict(
        lambda job, to: job.stage_specs and job.aggregate and to.schedule.is_served,
        lambda job, to: (
            f"compress={job.compress} adds up what every worker sends, and "
            f"aggregate={job.aggregate} leaves some out; leave one out."
        ),
    ),
    Conflict(
        lambda job, to: job.stage_specs and not to.schedule.in_step,
        lambda job, to: (
            f"compress={job.compress} adds up what all workers send in a step, and "
            f"asynchronous workers have no step in common; use sync=True, or leave "
            f"compress out."
        ),
    ),
    Conflict(
        lambda job, to: to.topology.needs_ps and not job.ps,
        lambda job, to: (
            f"topology {to.name!r} needs a parameter server and there is none; start "
            f"the cluster with ps=1, or use "
            f"topology={first(lambda t: not t.needs_ps)!r}."
        ),
    ),
    Conflict(
        lambda job, to: not to.schedule.in_step and not to.topology.may_be_asynchronous,
        lambda job, to: (
            f"asynchronous training meets at parameter servers, not on {to.name!r}; "
            f"use topology={first(lambda t: t.may_be_asynchronous)!r}, or "
            f"sync=True (run.synchronous = True)."
        ),
    ),
    Conflict(
        lambda job, to: job.aggregate and not to.schedule.in_step,
        lambda job, to: (
            f"aggregate={job.aggregate} says for how many gradients a synchronous step "
            f"waits; this training cannot become asynchronous."
        ),
    ),
    Conflict(
        lambda job, to: job.local_steps and not to.schedule.in_step,
        lambda job, to: (
            f"local_steps={job.local_steps} needs workers that all exchange after the "
            f"same number of steps; this training cannot be asynchronous. Leave out "
            f"local_steps, or sync=False (run.synchronous = False)."
        ),
    ),
    Conflict(
        lambda job, to: not to.topology.agrees and not job.local_steps,
        lambda job, to: (
            f"with topology {to.name!r} workers do not agree after a step: each goes "
            f"on with parameters of its own. Give local_steps=1 to exchange after each "
            f"step, or more; or use topology={agreeing(to.name)!r}."
        ),
    ),
    Conflict(
        lambda job, to: not to.topology.agrees and job.stage_specs,
        lambda job, to: (
            f"compress={job.compress} is for gradients that all workers add up, and "
            f"with topology {to.name!r} they send their parameters; leave one out."
        ),
    ),
    Conflict(
        lambda job, to: not to.topology.agrees and job.checkpoints and not job.states,
        lambda job, to: (
            f"with topology {to.name!r} each worker has parameters of its own, and the "
            f"checkpoints of this training have no place for them; begin it with "
            f"topology={to.name!r} and switch then, or leave out checkpoint."
        ),
    ),
    Conflict(
        lambda job, to: (
            job.aggregate and to.schedule.is_served and not to.topology.may_have_backups
        ),
        lambda job, to: (
            f"topology {to.name!r} needs the gradient of every worker in every step, "
            f"and this training takes the first {job.aggregate} of {len(job.workers)} "
            f"(aggregate={job.aggregate}); only the servers of "
            f"topology={first(lambda t: t.may_have_backups)!r} can leave some out."
        ),
    ),
    Conflict(
        lambda job, to: (
            to.schedule.is_served and not is_served(to.topology, job.layout, job.group)
        ),
        lambda job, to: (
            f"topology {to.name!r} says that it may be asynchronous or have backups, "
            f"where workers meet at the parameter servers; but these do not own all "
            f"that they hold. Fix its plan or owners, or use "
            f"topology={first(lambda t: t.needs_ps)!r} with parameter servers."
        ),
    ),
    Conflict(
        lambda job, to: job.aggregate and job.is_elastic,
        lambda job, to: (
            f"aggregate={job.aggregate} goes on without workers that are lost, "
            f"elastic=True with all of them elsewhere; leave one out."
        ),
    ),
    Conflict(
        lambda job, to: (
            to.is_switch
            and job.is_elastic
            and to.topology.agrees != by_name(job.topology).agrees
        ),
        lambda job, to: (
            f"an elastic training does its newest steps again after a loss, as they "
            f"were done; so it cannot switch between {job.topology!r} and {to.name!r}, "
            f"of which only one makes workers agree after a step. Begin with the other "
            f"one, or leave out elastic."
        ),
    ),
    Conflict(
        lambda job, to: job.checkpoints is not None and _kept_by_names(job),
        lambda job, to: (
            f"parameters are called {', '.join(_kept_by_names(job))}, and so is what "
            f"workers keep in a checkpoint; rename the parameters."
        ),
    ),
)


def _kept_by_names(job: Job) -> list[str]:
    """Return the names in a checkpoint that parameters and workers' states share."""
    return sorted({*tensors_of(job.specs, job.slots)} & {*job.states})


def check(
    job: Job, topology: str, synchronous: bool = True, *, is_switch: bool = False
) -> None:
    """Raise `InvalidArgumentError` for a configuration that a job cannot have."""
    wanted = Configuration(job, by_name(topology), synchronous, is_switch)
    for conflict in CONFLICTS:
        if conflict.applies(job, wanted):
            raise InvalidArgumentError(conflict.sentence(job, wanted))
    steps_to_all(wanted.topology, job.group)  # raises where news would never reach all
    # So do these, where a feature is missing.
    for part in (wanted.schedule.worker, job.payload.worker, job.own_work.by):
        _ = load(part) if part else None


def check_change(
    job: Job, foreseen: Callable[[int], Epoch], *, at: int = 0, **changes: Any
) -> None:
    """Check a change from step `at` on together with what is `foreseen` for then."""
    job.check_step(at)
    changed = {name: value for name, value in changes.items() if value is not None}
    then = replace(foreseen(at), **changed)
    LinkSettings.parse(then.link)
    check(job, then.topology, then.synchronous, is_switch="topology" in changed)
