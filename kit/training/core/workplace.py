"""Where a member computes: the memory of its steps, and what comes there and goes back.

Here that is the memory which its neighbours see, and nothing moves. A GPU has memory of
its own (`kit.training.features.on_gpu`): what steps use is brought there when they
begin, and is back here at every boundary, so all that happens there finds it here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from kit.exchange.execution.bound_operations import Binder
from kit.exchange.ports.memory import Memory

if TYPE_CHECKING:
    from kit.training.core.context import MemberContext

CPU: Final = "cpu"
#: Where a worker computes, by what `kit.train` calls it.
WORKPLACES: Final = {
    CPU: "kit.training.core.workplace:Workplace",
    "gpu": "kit.training.features.on_gpu.workplace:workplace_of",
}


class Workplace:
    """The memory that is shared with neighbours.

    Attributes:
        memory: where steps read and write.
        held: where the parameters of the last committed step are, and the slots.
        binder: looks up for the operations of a plan what they use of `memory`.
        may_overlap: whether a thread may exchange what is ready while steps compute.
        stays_bound: whether a plan that is bound serves until the epoch ends.
    """

    binder: Callable[..., Binder] = Binder
    may_overlap = stays_bound = True
    memory: Memory
    held: Memory

    def __init__(self, context: MemberContext) -> None:
        self.memory = self.held = context.memory

    # It is given the context, and does not keep it: a cycle would keep the buffers.
    def at_work(self, context: MemberContext) -> AbstractContextManager[object]:
        """Do steps in a block; all that they need is in `memory` then."""
        return nullcontext()

    def leave(self) -> bool:
        """Give up what was made for the steps of an epoch.

        Returns whether arrays of `memory` are to be looked up anew after that.
        """
        return False

    def take_in(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a mini-batch as a step function gets it."""
        return batch

    def step_of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step function as it is called here."""
        return step
