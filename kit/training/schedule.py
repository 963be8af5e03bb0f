"""An axis of a training: which gradients make a step, and where they meet.

Pure. A training has two more, the payload (`payload`) and what a worker does by itself
(`own_work`).

| schedule      | a step is made of      | workers meet                          |
|---------------|------------------------|---------------------------------------|
| Synchronous   | all workers' gradients | by the plan of a topology             |
| FirstArrivals | the first R gradients  | at the servers, each when it is ready |
| Asynchronous  | one gradient           | at the servers, each when it is ready |

Each names the parts of members that carry it out, see `kit.training.member.part`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from kit.exchange.group.links import partners_of
from kit.exchange.plan import Plan


@dataclass(frozen=True)
class Schedule:
    """Which gradients make a step. Members are given by their numbers.

    Attributes:
        in_step: whether all members do the same numbered steps, so that they hold the
            same parameters before each.
        is_served: whether workers meet at the servers, each when it is ready; the order
            in which the servers took what came then decides the bits.
        takes_back: whether a lost worker may come back to the same training.
        server, worker: where the parts of members are that carry it out.
    """

    workers: tuple[int, ...]
    ps: tuple[int, ...]

    in_step: ClassVar[bool] = True
    is_served: ClassVar[bool] = True
    takes_back: ClassVar[bool] = False
    server: ClassVar[str]
    worker: ClassVar[str]

    def partners(self, plan: Plan | None, me: int) -> set[int]:
        """Return the members with which one deals in a step; here at the servers."""
        return {*self.workers} if me in self.ps else {*self.ps}

    def spares(self, lost: Collection[int], *, is_elastic: bool = False) -> bool:
        """Whether steps go on when these members are lost."""
        return False


class Synchronous(Schedule):
    """Each step is made of the gradients of all workers."""

    is_served = False
    server = "kit.training.member.sync_steps:SyncServer"
    worker = "kit.training.member.sync_steps:SyncWorker"

    def partners(self, plan: Plan | None, me: int) -> set[int]:
        """See `Schedule`: those that the plan names."""
        return {*partners_of(plan)}


@dataclass(frozen=True)
class FirstArrivals(Schedule):
    """Each step is made of the gradients that come first; the others are dropped."""

    n_awaited: int

    takes_back = True
    server = "kit.training.backup_workers.steps:QuorumServer"
    worker = "kit.training.backup_workers.steps:QuorumWorker"

    def partners(self, plan: Plan | None, me: int) -> set[int]:
        """See `Schedule`; the servers tell each other whose turn it is."""
        return super().partners(plan, me) | {*self.ps}

    def spares(self, lost: Collection[int], *, is_elastic: bool = False) -> bool:
        """See `Schedule`: workers but the first, if enough are left."""
        is_enough = len(self.workers) - len({*lost}) >= self.n_awaited
        return is_enough and {*lost} <= {*self.workers[1:]}


class Asynchronous(Schedule):
    """Each gradient is a step; a worker goes on with what the servers have by then."""

    in_step = False
    server = "kit.training.member.async_steps:AsyncServer"
    worker = "kit.training.member.async_steps:AsyncWorker"

    def spares(self, lost: Collection[int], *, is_elastic: bool = False) -> bool:
        """See `Schedule`: in an elastic training all workers but the first."""
        # They have steps of their own: the others go on until all copy, and lose none
        # of theirs.
        return is_elastic and {*lost} <= {*self.workers[1:]}
