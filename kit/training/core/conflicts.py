"""Which options of a training contradict each other, and the sentence that says so.

Pure. One table, read from above: the first row that applies is what the user is told. A
row sees a job, and to which configuration it is to come: the one that it begins with,
or that of a switch. What is wrong with a single value that has a type of its own, such
as a link, its type says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from kit.training.core.workplace import WORKPLACES
from kit.training.optimizers.rule import by_layer
from kit.wire.shaping import LinkSettings

if TYPE_CHECKING:
    from kit.training.core.job import Job
    from kit.training.core.log import Epoch


def conflicts_of(
    job: Job, to: Topology, synchronous: bool, is_switch: bool
) -> Iterator[tuple[object, str]]:
    """Yield whether each row of the table applies, and the sentence for it.

    A row is read when none above it applies. `is_switch`: a user asks for the topology
    meanwhile.
    """
    yield job.steps < 0, f"steps is {job.steps}; give 0 or more."
    yield (
        job.hosts and len(job.hosts) != len(job.tasks),
        f"hosts has {len(job.hosts)} names for {len(job.tasks)} tasks; give the host "
        f"of each, or none where all are on one.",
    )
    name, n, schedule = to.name, len(job.workers), job.schedule_of(synchronous)
    yield (
        not n,
        f"no task would compute: there is no worker among "
        f"{', '.join(task.short for task in job.tasks) or 'no tasks'}.",
    )
    yield not job.specs, "there are no parameters to train; give some."
    yield (
        job.batch < n,
        f"a batch of {job.batch} cannot be split over {n} workers; give a batch of at "
        f"least {n}.",
    )
    yield (
        not 0 <= job.aggregate <= n,
        f"aggregate is {job.aggregate}, but {n} workers send a gradient each; give a "
        f"number from 1 to {n}.",
    )
    yield (
        job.accumulate < 1,
        f"accumulate is {job.accumulate}; give in how many pieces a worker computes "
        f"its gradient, at least 1.",
    )
    yield (
        job.local_steps < 0 or bool(job.local_steps) != (job.inner is not None),
        f"local_steps is {job.local_steps}, with {job.inner!r} as the optimizer of "
        f"these steps; give at least 1 and an optimizer, or neither.",
    )
    yield (
        job.staleness is not None and job.staleness < 0,
        f"staleness is {job.staleness}; give 0 updates or more.",
    )
    yield (
        job.staleness is not None and job.synchronous,
        f"staleness={job.staleness} bounds how far asynchronous workers run ahead, and "
        f"no worker of a synchronous step does; use sync=False, or leave it out.",
    )
    yield (
        job.staleness is not None and len(job.ps) > 1,
        f"staleness={job.staleness} needs one parameter server, which knows how far "
        f"each worker is, and there are {len(job.ps)}; start the cluster with ps=1.",
    )
    yield (
        job.aggregate and not job.synchronous,
        f"aggregate={job.aggregate} says for how many gradients a synchronous step "
        f"waits; with sync=False each is applied alone. Leave one out.",
    )
    yield (
        by_layer(job.optimizer)
        and (job.aggregate or not schedule.in_step or not job.stage_specs),
        f"{job.optimizer!r} needs the length of each whole parameter, which only "
        f"workers have that update all of them, in steps that all make together; use "
        f"sync=True without aggregate, or kit.AdamW.",
    )
    yield (
        job.stage_specs and job.aggregate and schedule.is_served,
        f"compress={job.compress} adds up what every worker sends, and "
        f"aggregate={job.aggregate} leaves some out; leave one out.",
    )
    yield (
        job.stage_specs and not schedule.in_step,
        f"compress={job.compress} adds up what all workers send in a step, and "
        f"asynchronous workers have no step in common; use sync=True, or leave "
        f"compress out.",
    )
    yield (
        to.needs_ps and not job.ps,
        f"topology {name!r} needs a parameter server and there is none; start the "
        f"cluster with ps=1, or use topology={first(lambda t: not t.needs_ps)!r}.",
    )
    yield (
        not schedule.in_step and not to.may_be_asynchronous,
        f"asynchronous training meets at parameter servers, not on {name!r}; use "
        f"topology={first(lambda t: t.may_be_asynchronous)!r}, or sync=True "
        f"(run.synchronous = True).",
    )
    yield (
        job.aggregate and not schedule.in_step,
        f"aggregate={job.aggregate} says for how many gradients a synchronous step "
        f"waits; this training cannot become asynchronous.",
    )
    yield (
        job.local_steps and not schedule.in_step,
        f"local_steps={job.local_steps} needs workers that all exchange after the same "
        f"number of steps; this training cannot be asynchronous. Leave out "
        f"local_steps, or sync=False (run.synchronous = False).",
    )
    yield (
        not to.agrees and not job.local_steps,
        f"with topology {name!r} workers do not agree after a step: each goes on with "
        f"parameters of its own. Give local_steps=1 to exchange after each step, or "
        f"more; or use topology={agreeing(name)!r}.",
    )
    yield (
        not to.agrees and job.stage_specs,
        f"compress={job.compress} is for gradients that all workers add up, and with "
        f"topology {name!r} they send their parameters; leave one out.",
    )
    yield (
        not to.agrees and job.checkpoints and not job.states,
        f"with topology {name!r} each worker has parameters of its own, and the "
        f"checkpoints of this training have no place for them; begin it with "
        f"topology={name!r} and switch then, or leave out checkpoint.",
    )
    yield (
        job.aggregate and schedule.is_served and not to.may_have_backups,
        f"topology {name!r} needs the gradient of every worker in every step, and this "
        f"training takes the first {job.aggregate} of {n} "
        f"(aggregate={job.aggregate}); only the servers of "
        f"topology={first(lambda t: t.may_have_backups)!r} can leave some out.",
    )
    yield (
        schedule.is_served and not is_served(to, job.layout, job.group),
        f"topology {name!r} says that it may be asynchronous or have backups, where "
        f"workers meet at the parameter servers; but these do not own all that they "
        f"hold. Fix its plan or owners, or use "
        f"topology={first(lambda t: t.needs_ps)!r} with parameter servers.",
    )
    yield (
        job.aggregate and job.is_elastic,
        f"aggregate={job.aggregate} goes on without workers that are lost, "
        f"elastic=True with all of them elsewhere; leave one out.",
    )
    yield (
        is_switch and job.is_elastic and to.agrees != by_name(job.topology).agrees,
        f"an elastic training does its newest steps again after a loss, as they were "
        f"done; so it cannot switch between {job.topology!r} and {name!r}, of which "
        f"only one makes workers agree after a step. Begin with the other one, or "
        f"leave out elastic.",
    )
    yield (
        job.device not in WORKPLACES,
        f"device is {job.device!r}; give one of {', '.join(map(repr, WORKPLACES))}.",
    )
    yield (
        job.stays_on_host(schedule) and not job.stays_on_host(job.schedule),
        f"with device={job.device!r} the parameters of this training are on GPUs, and "
        f"those of asynchronous steps on hosts; begin it with sync=False.",
    )
    named = {*tensors_of(job.specs, job.slots)} if job.checkpoints else set()
    kept = sorted(named & {*job.states})
    yield (
        kept,
        f"parameters are called {', '.join(kept)}, and so is what workers keep "
        f"in a checkpoint; rename the parameters.",
    )


def check(
    job: Job, topology: str, synchronous: bool = True, *, is_switch: bool = False
) -> None:
    """Raise `InvalidArgumentError` for a configuration that a job cannot have."""
    to = by_name(topology)
    for applies, sentence in conflicts_of(job, to, synchronous, is_switch):
        if applies:
            raise InvalidArgumentError(sentence)
    steps_to_all(to, job.group)  # raises where news would never reach all
    # So do these, where a feature is missing.
    parts = job.schedule_of(synchronous).worker, job.payload.worker, job.own_work.by
    for part in parts:
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
