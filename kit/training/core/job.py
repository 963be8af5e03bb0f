"""What a training is: the part that all members must agree on, and a worker's own part.

Theory of operation. A `Job` is plain data, checked when it is made; nothing in it
changes. Every member derives the same layout, shards, owners and plans from it, so none
of these travels. What holds from some step on is an epoch's, and which process hosts
whom is a generation's: each generation has a job of its own, with another run id. What
makes a step, what travels in it and what a worker does by itself are asked of three
objects (`axes`). A `Work` holds what only a worker needs: the step function, the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Final

from kit import machine
from kit.errors import InvalidArgumentError, NotEnoughMemory
from kit.exchange.compression import stages
from kit.exchange.compression.compressor import Compressor
from kit.exchange.compression.stages import StageSpecs
from kit.exchange.layout import ITEMSIZE, Layout, Spec, lay_out
from kit.exchange.plan import Group, Owned, Plan, by_host
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import Topology, Traffic, by_name
from kit.features import load
from kit.message_fields import (
    anything,
    check,
    fields_of,
    flag,
    list_of,
    maybe,
    optional,
    row_of,
    table_of,
    text,
    whole,
)
from kit.settings import Settings
from kit.task import Task
from kit.training.core import conflicts
from kit.training.core.axes import (
    CompressedPayload,
    LocalTraining,
    OneGeneration,
    OwnWork,
    Payload,
    Schedule,
    schedule_of,
)
from kit.training.core.log import Epoch
from kit.training.core.workplace import CPU
from kit.training.data.splits import check_seed
from kit.training.optimizers import rules
from kit.training.optimizers.rule import Optimizer, check_names
from kit.training.worker import kept_state
from kit.wire.shaping import LinkSettings

_SPEC: Final = row_of(text(), list_of(whole(0)), text(pattern="float(32|64)"))
_STAGE_SPEC: Final = row_of(text(), list_of(whole(0)), text(pattern="|".join(ITEMSIZE)))
_OF_FEATURES: Final = {
    "checkpoints": "kit.training.features.checkpointing.policy:Checkpoints",
    "generation": "kit.training.features.elastic.generation:Generation",
}


@dataclass(frozen=True)
class Job:
    """The agreed part of a training. Members are numbered by their place in `tasks`."""

    # Each field with what a message may hold for it.
    run: Annotated[str, text(pattern="[0-9a-f]{32}")]
    tasks: Annotated[tuple[Task, ...], list_of(text(1000))]
    specs: Annotated[tuple[Spec, ...], list_of(_SPEC)]
    # For the owner of each range; with local steps the outer one.
    optimizer: Annotated[Optimizer, table_of(anything())]
    topology: Annotated[str, text(100)]
    steps: Annotated[int, whole(0)]
    batch: Annotated[int, whole(0)]
    seed: Annotated[int, whole(0, 2**64 - 1)] = 0
    synchronous: Annotated[bool, flag()] = True
    # How many gradients make a step; 0: all workers'.
    aggregate: Annotated[int, whole(0)] = 0
    # By how many updates an asynchronous worker may be ahead; None: by any. Older
    # recordings lack it.
    staleness: Annotated[int | None, optional(maybe(whole(0)))] = None
    # In how many pieces a worker computes its gradient.
    accumulate: Annotated[int, whole(1)] = 1
    # Of a worker before each exchange, and their optimizer; 0: it sends gradients.
    local_steps: Annotated[int, whole(0)] = 0
    inner: Annotated[Optimizer | None, maybe(table_of(anything()))] = None
    link: Annotated[str, text(100)] = ""
    placement: Annotated[str, text(100)] = "round_robin"
    # Where and how often: `kit.Checkpoints`; which one: the newest "", "step-400",
    # "afresh".
    checkpoints: Annotated[Any, maybe(table_of(anything()))] = None
    restore: Annotated[str, text(1000)] = ""
    # Whether workers keep something from step to step.
    keeps_state: Annotated[bool, flag()] = False
    # What a run calls its compressor, and the arrays of each stage of it.
    compress: Annotated[str, text(1000)] = ""
    stage_specs: Annotated[StageSpecs, list_of(list_of(_STAGE_SPEC))] = ()
    # Where workers compute. Older recordings lack it.
    device: Annotated[str, optional(text(pattern="cpu|gpu"))] = CPU
    # Of each task; empty: one for all.
    hosts: Annotated[tuple[str, ...], list_of(text(1000))] = ()
    # Of a training that survives losses: `Generation`.
    generation: Annotated[Any, maybe(table_of(anything()))] = field(
        default_factory=OneGeneration
    )
    settings: Annotated[Settings, table_of(anything())] = field(
        default_factory=Settings
    )

    def __post_init__(self) -> None:
        """Check everything that can be known to be wrong before a task is asked."""
        check_seed(self.seed)
        LinkSettings.parse(self.link)
        if self.stage_specs:
            stages.checked_specs(self.stage_specs, f"compress={self.compress}")
        self.generation.check(len(self.tasks))
        for optimizer in (self.optimizer, self.inner):
            check_names(optimizer, [spec.name for spec in self.specs])
        conflicts.check(self, self.topology, self.synchronous)
        _ = self.group

    def check_step(self, at: int) -> None:
        """Raise `InvalidArgumentError` for a step that this training does not have."""
        if not 0 <= at <= self.steps:
            raise InvalidArgumentError(
                f"at is {at}, and this training has {self.steps} steps; give a step "
                f"from 0 to {self.steps}."
            )

    def stays_on_host(self, schedule: Schedule) -> bool:
        """Whether parameters, sums and slots stay in the memory of hosts."""
        keeps_more = self.local_steps or self.stage_specs or self.is_elastic
        is_plain = schedule.in_step and not schedule.is_served and not keeps_more
        return self.device == CPU or not is_plain

    @property
    def schedule(self) -> Schedule:
        """Which gradients make a step, as the training begins."""
        return self.schedule_of(self.synchronous)

    def schedule_of(self, synchronous: bool) -> Schedule:
        """Return which gradients make a step in epochs that are synchronous, or not."""
        return schedule_of(self.workers, self.ps, self.aggregate, synchronous)

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """Member numbers of the tasks that compute, in the order of their turns.

        Those of one host stand together: a ring then has one link to each host and one
        from there. A worker's place decides its data and its turn in the sums, so the
        bits are the same wherever the tasks are.
        """
        numbers = [n for n, task in enumerate(self.tasks) if task.job != "ps"]
        return by_host(numbers, self.hosts) if self.hosts else tuple(numbers)

    @property
    def states(self) -> dict[str, int]:
        """What workers keep: its names in a checkpoint, and the members."""
        keeps = self.keeps_state or self.own_work.keeps(by_name(self.topology))
        keep = self.workers if keeps else ()
        return {kept_state.name_of(self.tasks[member]): member for member in keep}

    @cached_property
    def ps(self) -> tuple[int, ...]:
        """Member numbers of the parameter servers."""
        return tuple(n for n, task in enumerate(self.tasks) if task.job == "ps")

    @property
    def coordinator(self) -> int:
        """The member that owns the step loop and the epochs: the first worker."""
        return self.workers[0]

    def process_of(self, member: int) -> Task:
        """Return the task whose process hosts a member in this generation."""
        places = self.generation.places
        host = places[member] if places else ""
        return Task.parse(host) if host else self.tasks[member]

    def address(self, member: int) -> str:
        """Return where a member listens in this generation; "" where all know that."""
        addresses = self.generation.addresses
        return str(addresses[member]) if addresses else ""

    def check_member(self, number: int) -> None:
        """Raise `InvalidArgumentError` unless there is a member of this number."""
        if number >= len(self.tasks):
            raise InvalidArgumentError(
                f"there is no member {number}; this training has "
                f"{', '.join(task.short for task in self.tasks)}, counted from 0."
            )

    @property
    def is_elastic(self) -> bool:
        """Whether other processes take over the members of one that is lost."""
        return bool(self.generation.rehosts)

    @property
    def absent(self) -> frozenset[int]:
        """The members that no process hosts in this generation."""
        places = enumerate(self.generation.places)
        return frozenset(n for n, process in places if not process)

    @property
    def crash(self) -> str:
        """The crash plan, for tests of faults: later generations repeat the steps."""
        is_repeated = self.is_elastic and self.generation.number > 0
        return "" if is_repeated else self.settings.crash

    @property
    def needs_preparing(self) -> bool:
        """Whether all processes must hear of it before the first one begins.

        They do where a member is not at home, and where one stands by: the first copy
        may come to it before it has begun.
        """
        now = self.generation
        return bool(now.standby) or not now.is_at_home(self.tasks)

    def at(self, *addresses: Mapping[int, str]) -> Job:
        """Return the job with the addresses of its members, by their numbers."""
        address_of = {n: text for some in addresses for n, text in some.items()}
        texts = tuple(address_of[member] for member in range(len(self.tasks)))
        return replace(self, generation=replace(self.generation, addresses=texts))

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the optimizer's slots."""
        return tuple(slot.name for slot in self.optimizer.slots)

    @cached_property
    def layout(self) -> Layout:
        """Where each parameter is; behind them, what compressed gradients travel in."""
        size = self.settings.bucket_bytes
        return replace(
            lay_out(self.specs, len(self.workers), size),
            stages=stages.lay_out_stages(self.stage_specs, len(self.workers), size),
        )

    @cached_property
    def group(self) -> Group:
        """Who takes part, and what each parameter server holds."""
        shards = shards_of(self.layout, len(self.ps), self.placement)
        names = list(dict.fromkeys(self.hosts))
        hosts = tuple(names.index(name) for name in self.hosts)
        return Group(self.ps, self.workers, shards, hosts)

    def owners(self, epoch: Epoch) -> tuple[Owned, ...]:
        """Return who updates which part of the parameters in an epoch."""
        return self.payload.owners(by_name(epoch.topology))

    @property
    def own_work(self) -> OwnWork:
        """What a worker does by itself before each exchange."""
        if self.inner is None:
            return OwnWork(self.accumulate)
        return LocalTraining(self.accumulate, self.local_steps, self.inner)

    @cached_property
    def payload(self) -> Payload:
        """What travels in a step, and who updates the parameters."""
        kind = CompressedPayload if self.stage_specs else Payload
        return kind(self.layout, self.group, self.optimizer, self.placement)

    def plan(self, topology: Topology, member: int) -> Plan | None:
        """Return what a member does in a synchronous step; None if nothing at all."""
        return self.payload.plan(topology, member)

    def traffic(self, topology: Topology) -> Traffic:
        """Return the bytes of a step by the topology's formula."""
        return self.payload.traffic(topology)

    @property
    def resumes(self) -> bool:
        """Whether it begins with copies that members hold; see `Generation`."""
        return bool(self.generation.resumes)

    @property
    def start(self) -> Epoch:
        """Epoch 0: what should hold from the first step on."""
        return Epoch(0, self.topology, self.synchronous, self.link)

    def to_plain(self) -> dict[str, Any]:
        """Return the job as data that JSON can carry."""
        return {name: getattr(self, name) for name in _FIELDS} | {
            "tasks": [str(task) for task in self.tasks],
            "hosts": list(self.hosts),
            "specs": _plain(self.specs),
            "stage_specs": [_plain(stage) for stage in self.stage_specs],
            "optimizer": rules.named(self.optimizer),
            "inner": rules.named(self.inner) if self.inner else None,
            "checkpoints": self.checkpoints.to_plain() if self.checkpoints else None,
            "generation": self.generation.to_plain(),
            "settings": self.settings.as_plain(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], like: Job | None = None) -> Job:
        """Rebuild a job from `to_plain`; every field is checked again.

        Optimizers of the user's own class do not travel over links: they are those of
        `like`, a job of the same training.
        Raises `InvalidArgumentError` for anything that `to_plain` would not write.
        """
        values = check("job", _FIELDS, plain)
        values["tasks"] = tuple(Task.parse(task) for task in values["tasks"])
        values["hosts"] = tuple(values["hosts"])
        values["specs"] = _specs(values["specs"])
        values["stage_specs"] = tuple(_specs(stage) for stage in values["stage_specs"])
        specs = [*values["specs"], *chain.from_iterable(values["stage_specs"])]
        n_bytes = sum(ITEMSIZE[spec.dtype] * math.prod(spec.shape) for spec in specs)
        if n_bytes > (limit := machine.memory().limit_mib * 2**20):
            raise NotEnoughMemory(
                f"the parameters of a training have {n_bytes} bytes at least, and this "
                f"task's machine has {limit}."
            )
        try:
            for name in ("optimizer", "inner"):
                if values[name] is not None:
                    own = getattr(like, name, None)
                    values[name] = rules.from_plain(values[name], own)
            values["settings"] = Settings.from_plain(values["settings"])
            for name, where in _OF_FEATURES.items():
                plain_value = values.pop(name)
                if (
                    plain_value is not None
                ):  # else it is as in a job without the feature
                    values[name] = load(where).from_plain(plain_value)
        except (TypeError, ValueError, OverflowError) as exc:
            raise InvalidArgumentError(
                f"a job came that cannot be read: {exc}."
            ) from exc
        return cls(**values)


_FIELDS: Final = fields_of(Job)


def _plain(specs: Iterable[Spec]) -> list[list[Any]]:
    return [[spec.name, list(spec.shape), spec.dtype] for spec in specs]


def _specs(plain: Iterable[Any]) -> tuple[Spec, ...]:
    return tuple(Spec(name, tuple(shape), dtype) for name, shape, dtype in plain)


@dataclass
class Work:
    """A worker's own part. `params` are the initial values, given to the coordinator.

    The coordinator's values are broadcast; what the other workers were given only has
    to be of the same names, shapes and dtypes. `hooks` are the coordinator's too.
    """

    step: Any  # a function, or the plain data of one
    data: Any
    params: dict[str, Any] | None = None
    hooks: Any = ()
    compressor: Compressor | None = None
