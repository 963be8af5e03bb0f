"""What a training is: the part that all members must agree on, and a worker's own part.

A `Job` is plain data; every member derives the same layout, shards and plans from it. A
`Work` holds what only a worker needs: the step function and the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kit.errors import InvalidArgumentError
from kit.exchange.layout import Layout, Spec, lay_out
from kit.exchange.placement import place
from kit.exchange.plan import Group
from kit.exchange.topology import Topology, by_name
from kit.membership import Epoch
from kit.settings import Settings
from kit.task import Task
from kit.train import optimizers
from kit.train.elementwise import Optimizer
from kit.train.graph_step import GraphStep
from kit.train.splits import check_seed
from kit.wire.shaping import LinkSettings


@dataclass(frozen=True)
class Job:
    """The agreed part of a training. Members are numbered by their place in `tasks`."""

    run: str  # 32 hexadecimal digits
    tasks: tuple[Task, ...]
    specs: tuple[Spec, ...]
    optimizer: Optimizer
    topology: str
    steps: int
    batch: int
    seed: int = 0
    synchronous: bool = True
    link: str = ""
    placement: str = "round_robin"
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        """Check everything that can be known to be wrong before a task is asked."""
        if self.steps < 0:
            raise InvalidArgumentError(f"steps is {self.steps}; give 0 or more.")
        if not self.workers:
            raise InvalidArgumentError(
                f"nobody would compute: there is no worker among "
                f"{', '.join(task.short for task in self.tasks) or 'no tasks'}."
            )
        if self.batch < len(self.workers):
            raise InvalidArgumentError(
                f"a batch of {self.batch} cannot be split over {len(self.workers)} "
                f"workers; give a batch of at least {len(self.workers)}."
            )
        check_seed(self.seed)
        LinkSettings.parse(self.link)
        self.check_topology(self.topology)
        _ = self.group

    def check_topology(self, name: str) -> Topology:
        """Return a topology that these members can form, or say why they cannot."""
        topology = by_name(name)
        if topology.needs_ps and not self.ps:
            raise InvalidArgumentError(
                f"topology {name!r} needs a parameter server and there is none; start "
                f"the cluster with ps=1, or use topology='ring'."
            )
        if not self.synchronous and name != "ps":
            raise InvalidArgumentError(
                f"asynchronous training meets at parameter servers, not on {name!r}; "
                f"use topology='ps' or sync=True."
            )
        return topology

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """Member numbers of the tasks that compute."""
        return tuple(n for n, task in enumerate(self.tasks) if task.job != "ps")

    @cached_property
    def ps(self) -> tuple[int, ...]:
        """Member numbers of the parameter servers."""
        return tuple(n for n, task in enumerate(self.tasks) if task.job == "ps")

    @property
    def coordinator(self) -> int:
        """The member that owns the step loop and the epochs: the first worker."""
        return self.workers[0]

    @cached_property
    def layout(self) -> Layout:
        """Where each parameter lies."""
        return lay_out(self.specs, len(self.workers), self.settings.bucket_bytes)

    @cached_property
    def group(self) -> Group:
        """Who takes part, and what each parameter server holds."""
        shards = place(self.layout, len(self.ps), self.placement)
        return Group(self.ps, self.workers, shards)

    @property
    def start(self) -> Epoch:
        """Epoch 0: what shall hold from the first step on."""
        return Epoch(0, self.topology, self.synchronous, self.link)

    def to_plain(self) -> dict[str, Any]:
        """Return the job as data that JSON can carry."""
        return {
            "run": self.run,
            "tasks": [str(task) for task in self.tasks],
            "specs": [[spec.name, list(spec.shape), spec.dtype] for spec in self.specs],
            "optimizer": optimizers.to_plain(self.optimizer),
            "topology": self.topology,
            "steps": self.steps,
            "batch": self.batch,
            "seed": self.seed,
            "synchronous": self.synchronous,
            "link": self.link,
            "placement": self.placement,
            "settings": self.settings.as_plain(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Job:
        """Rebuild a job from `to_plain`; every field is checked again."""
        values = dict(plain)
        values["tasks"] = tuple(Task.parse(task) for task in plain["tasks"])
        values["specs"] = tuple(
            Spec(name, tuple(shape), dtype) for name, shape, dtype in plain["specs"]
        )
        values["optimizer"] = optimizers.from_plain(plain["optimizer"])
        values["settings"] = Settings.from_plain(plain["settings"])
        return cls(**values)


@dataclass
class Work:
    """A worker's own part. `params` are the initial values, given to the coordinator.

    The coordinator's values are broadcast; what the other workers were given only has
    to be of the same names, shapes and dtypes.
    """

    step: Callable[..., Any] | GraphStep
    data: Any
    params: dict[str, Any] | None = None
