"""`kit.rehearse`: how long a step would take on tasks that do not exist.

    kit.rehearse(100_000_000, worker=1000, link="10gbit,50us", compute=0.02)

The job, the layout, the groups and the plans are those of a training; only the clock,
the links and the computing are simulated. See `kit.rehearsal` for how.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, SupportsIndex

import numpy as np

from kit.errors import InvalidArgumentError, ResourceExhaustedError
from kit.exchange.compression.compressor import Compressor
from kit.exchange.compression.quantization import compressor_of
from kit.exchange.layout import CHUNK_BYTES, Spec
from kit.exchange.plan import Group
from kit.exchange.topologies.time_model import CACHE_BYTES, Rates
from kit.exchange.topologies.topology import by_name, first
from kit.handles import names_its_arguments
from kit.rehearsal.clock import SimulatedClock
from kit.rehearsal.members import members_of, turns
from kit.rehearsal.rehearsal import Rehearsal
from kit.rehearsal.schedule import (
    MOST_PLANNED,
    MOST_ROWS,
    Columns,
    CommunicationSchedule,
    build_schedule,
    too_many,
)
from kit.rehearsal.sizes import (
    Compute,
    Hosts,
    Sizes,
    compute_of,
    hosts_of,
    specs_from,
    tasks_of,
)
from kit.rehearsal.timeline import RowCollector
from kit.settings import current
from kit.task import Task
from kit.training.arguments import compression_of, optimizer_of, whole
from kit.training.core.job import Job
from kit.training.optimizers.rule import Optimizer
from kit.training.optimizers.rules import GradientDescent
from kit.wire.shaping import FULL_SPEED, LinkSettings

_FEWEST_STEPS, _MOST_STEPS = 2, 12
_MOST_CHUNKS = 2_000_000
_SETTLED = 1e-3  # steps with a smaller relative difference count as equally long

_ROUNDS, _NAPS = 7, 100
_NAP_S = 0.0002
_SMALL, _LARGE = CACHE_BYTES // 8, CACHE_BYTES * 8


@names_its_arguments
def rehearse(
    model_or_sizes: Sizes,
    topology: str | None = None,
    *,
    ps: SupportsIndex = 0,
    worker: SupportsIndex = 4,
    link: str = "",
    link_within: str = "",
    compute: Compute = 0.0,
    hosts: Hosts = None,
    optimizer: Optimizer | str = "gradient_descent",
    placement: str = "round_robin",
    compress: Compressor | str | None = None,
    rates: Rates | None = None,
) -> Rehearsal:
    """Play a training's steps on a simulated clock: exact bytes, predicted times.

    No task is started and no array is made, so even a thousand tasks are possible.

    Parameters
    ----------
    model_or_sizes : dict of str to array, list of shapes, int, or callable
        The parameters, as for `kit.train`; or the shapes of float32 parameters; or
        their size in bytes.
    topology : str, optional
        How gradients meet: the name of any registered topology. By default parameter
        servers if there are some, else a ring.
    ps, worker : int
        How many parameter servers and workers there are.
    link : str, default ""
        Speed of the links, as "bandwidth,latency,jitter": "10gbit,50us". Each task has
        one line out and one line in. Empty: as fast as memory.
    link_within : str, default ""
        Speed of the links between the tasks of one host, such as its cards: with
        `hosts`, where `link` is that between hosts. Each task has another line out and
        in for these. Empty: as fast as memory.
    compute : float, sequence or dict, default 0
        The seconds that a worker computes in a step: one number for all, one for each,
        or by name, such as `{"worker:1": 0.03}`; workers that are not named take 0.
    hosts : int or sequence of str, optional
        The host of each task, or over how many hosts they are spread, as many on each;
        `link` is then that between hosts. By default it is that of all tasks, as in a
        training on one machine.
    optimizer : str or Optimizer, default "gradient_descent"
        Its slots take memory, and one without slots is applied earlier.
    placement : {"round_robin", "greedy"}
        How parameters are dealt out to the parameter servers.
    compress : str or Compressor, optional
        How gradients are compressed, as for `kit.train`. What encoding and decoding
        take is not known: add it to `compute`.
    rates : Rates, optional
        What a task's messages, and bytes moved and added, cost; see
        `kit.exchange.topologies.time_model`. By default measured once on this machine.

    Returns
    -------
    Rehearsal
        Seconds of a step, bytes by link, messages, memory, and a trace to draw.

    Raises
    ------
    InvalidArgumentError
        An argument cannot be used, the tasks cannot form the topology, or its plans do
        not fit together.
    ResourceExhaustedError
        There are too many operations to play.

    Notes
    -----
    The time is that of a step once steps take equally long: a member begins its next
    step as soon as it has done its part, so steps overlap if a topology lets them. It
    is assumed that each task has a core to itself, and that all gradients are ready
    when a worker has computed. A rehearsal's own time and memory grow with the
    operations of a step; a ring of 1,000 tasks takes about 3 s and 0.5 GB, and what
    would take more than some 10 s is refused.

    Examples
    --------
    >>> import kit
    >>> rehearsal = kit.rehearse(4_000_000, worker=4, link="100mbit,1ms", compute=0.02)
    >>> rehearsal.n_bytes, rehearsal.n_messages
    (24000000, 48)
    >>> 0.5 < rehearsal.seconds < 0.6
    True
    """
    terms = tasks_of(whole("ps", ps), whole("worker", worker)), hosts, link
    supposed = Supposed(model_or_sizes, *terms, optimizer, placement, compress)
    job = supposed.job(topology or first(lambda item: item.needs_ps == bool(ps)))
    times, within = compute_of(compute, job.tasks), LinkSettings.parse(link_within)
    return play(job, times, rates_of(rates), within)


def rates_of(rates: Rates | None) -> Rates:
    """Return the rates that were given, or else those of this machine."""
    if rates is None:
        return machine_rates()
    if not isinstance(rates, Rates) or not all(0 <= rate < math.inf for rate in rates):
        raise InvalidArgumentError(
            f"rates is {rates!r}; give kit.exchange.topologies.time_model.Rates(base, "
            f"alpha, beta, gamma, delta) in seconds of 0 or more, or None for those of "
            f"this machine."
        )
    return rates


@cache
def machine_rates() -> Rates:
    """Return the rates of this machine as it is now; measured once, in some 50 ms.

    For rehearsals without given `Rates`. They are rough: a fit of real exchanges
    (`kit.exchange.topologies.time_model.fit`) is better, if there are measurements.

    Measured are a byte added in the cache and outside of it, a byte copied, and how
    much later than asked a process wakes up, which is what waiting for a message costs.
    Of several times the shortest counts: other work on the machine only adds to them.
    """
    near, far = (_seconds_a_byte(np.add, size) for size in (_SMALL, _LARGE))
    moved = _seconds_a_byte(np.copyto, _LARGE)
    late = min(_seconds(partial(time.sleep, _NAP_S)) for _ in range(_NAPS))
    return Rates(0.0, max(0.0, late - _NAP_S), moved, near, max(0.0, far - near))


def _seconds_a_byte(do: Callable[..., object], n_bytes: int) -> float:
    own, other = (np.ones(n_bytes // 4, np.float32) for _ in range(2))
    arrays = (own, other, own) if do is np.add else (own, other)
    return min(_seconds(partial(do, *arrays)) for _ in range(_ROUNDS)) / n_bytes


def _seconds(do: Callable[[], object]) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


@dataclass(frozen=True)
class Supposed:
    """A training that is only supposed: the arguments of `rehearse` for its job."""

    model_or_sizes: Sizes
    tasks: Sequence[Task]
    hosts: Hosts
    link: str
    optimizer: Optimizer | str
    placement: str
    compress: Compressor | str | None

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """The parameters; raises `InvalidArgumentError` if these cannot be any."""
        return specs_from(self.model_or_sizes)

    def job(self, topology: str) -> Job:
        """Return its job with a topology.

        Raises `InvalidArgumentError` if there can be no such training, and
        `ResourceExhaustedError` for parameters in more pieces than can be played.
        """
        specs, tasks = self.specs, tuple(self.tasks)
        n_workers = sum(task.job != "ps" for task in tasks)
        n_bytes, settings = sum(spec.n_bytes for spec in specs), current()
        piece = settings.bucket_bytes or CHUNK_BYTES * n_workers
        if -(-n_bytes // piece) * n_workers > _MOST_CHUNKS:
            raise ResourceExhaustedError(
                f"{n_bytes:,} bytes in buckets of {piece:,} for {n_workers:,} workers "
                f"are more than {_MOST_CHUNKS:,} pieces; rehearse larger buckets with "
                f"settings(bucket_bytes=...), or a smaller model."
            )
        optimizer = optimizer_of(self.optimizer)
        compressor = compressor_of(self.compress)
        _, compressed = compression_of(compressor, optimizer, specs, tasks)
        local: dict[str, Any] = {}
        if not by_name(topology).agrees:  # what an exchange takes, after any steps
            local = {"local_steps": 1, "inner": optimizer}
            optimizer = GradientDescent(1.0)
        return Job(
            run="0" * 32,
            tasks=tasks,
            specs=specs,
            optimizer=optimizer,
            topology=topology,
            steps=1,
            batch=len(tasks),
            link=str(LinkSettings.parse(self.link)),
            placement=self.placement,
            hosts=hosts_of(self.hosts, len(tasks)),
            settings=settings,
            **(local | compressed),
        )


def play(
    job: Job,
    compute: Mapping[Task, float],
    rates: Rates,
    within: LinkSettings = FULL_SPEED,
) -> Rehearsal:
    """Play steps of a job until they take equally long.

    `within` is the speed of the links between tasks of one host.
    """
    topology, link = by_name(job.topology), LinkSettings.parse(job.link)
    if within.is_shaped and len(set(job.hosts)) < 2:
        raise InvalidArgumentError(
            f"link_within='{within}' is between the tasks of one host where there are "
            f"several; say how many with hosts=, or write link='{within}' for tasks "
            f"that all have this link."
        )
    longest = job.plan(topology, job.workers[-1])
    most = MOST_ROWS if turns(topology) else MOST_PLANNED
    if longest is not None and len(longest.ops) * len(job.workers) > most:
        raise too_many(topology.name, job.layout, most)  # now, not half-way
    memory = dict.fromkeys((task.short for task in job.tasks), 0)

    def rows() -> Iterator[tuple[int, Columns]]:
        for member, columns, n_bytes in members_of(job, topology):
            memory[job.tasks[member].short] = n_bytes
            yield member, columns

    schedule = build_schedule(rows(), job.layout, topology.name)
    n_in_row = in_row(schedule, job.group)  # first: it lets go of what it needs
    seconds = [compute.get(job.tasks[member], 0.0) for member in schedule.members]
    n_bytes = job.layout.payload_bytes
    recorder = RowCollector(schedule, job.workers, job.settings.trace_rows)
    about = schedule, job.group, link, rates, seconds
    clock = SimulatedClock(*about, n_bytes=n_bytes, within=within)
    step_s = steady(clock, recorder)
    names = tuple(task.short for task in job.tasks)
    trace = recorder.trace(names, topology.name, job.link)
    return Rehearsal(
        topology.name,
        job.link,
        names,
        step_s,
        max(seconds),
        int(schedule.rows.amount[schedule.taken].sum()),
        len(schedule.taken),
        n_in_row,
        memory,
        rates,
        trace,
        job,
        str(within),
    )


def in_row(schedule: CommunicationSchedule, group: Group) -> int:
    """Return how many messages over links follow one another in a step.

    That is how many seconds a step takes if nothing takes time but a latency of 1 s.
    """
    free, still = Rates(0.0, 0.0, 0.0, 0.0), [0.0] * len(schedule.members)
    clock = SimulatedClock(
        schedule, group, LinkSettings(0.0, 1.0), free, still, n_bytes=0
    )
    return round(float(clock.step().end.max()) * 1e-9)


def steady(clock: SimulatedClock, recorder: RowCollector) -> float:
    """Play until a step takes as long as the one before; return its seconds.

    If that never happens, as with jitter, return the mean of the later half.
    """
    # The first steps are not typical: all members begin the first together, and only
    # then do they drift apart until each step overlaps the next as much as the one
    # before.
    ends, lengths = [0.0], list[float]()
    while len(lengths) < _MOST_STEPS:
        played = clock.step()
        recorder.record(played)
        ends.append(float(played.end.max()))
        lengths.append((ends[-1] - ends[-2]) * 1e-9)
        off = abs(lengths[-1] - lengths[max(-2, -len(lengths))])
        if len(lengths) > _FEWEST_STEPS and off <= _SETTLED * lengths[-1]:
            return lengths[-1]
    return float(np.mean(lengths[_MOST_STEPS // 2 :]))
