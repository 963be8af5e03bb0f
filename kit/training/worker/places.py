"""Where a worker's steps find the parameters and leave the gradients, in its memory."""

from __future__ import annotations

from kit.exchange.plan import GRAD, NOW
from kit.exchange.ports.memory import Array, Memory
from kit.exchange.ports.port import Stamp
from kit.training.worker.gradient_buffer import GradientBuffer


class Places:
    """Where a worker's steps read the parameters and write the gradients.

    Each in turn, as the regions of the memory change places; looked up when first used.
    """

    def __init__(
        self,
        memory: Memory,
        stamp: Stamp,
        task: str,
        *,
        native: bool = True,
        may_overflow: bool = False,
    ) -> None:
        self.memory, self.stamp, self.task, self.native = memory, stamp, task, native
        self.may_overflow = may_overflow
        self._parameters: dict[int, dict[str, Array]] = {}
        self._gradients: dict[int, GradientBuffer] = {}

    def params(self) -> dict[str, Array]:
        """Return read-only views of the parameters of this step."""
        region = self.stamp.where(NOW)
        if region not in self._parameters:
            views = self.memory.leaves(region)
            for view in views.values():
                view.flags.writeable = False
            self._parameters[region] = views
        return self._parameters[region]

    def gradients(self) -> GradientBuffer:
        """Return where this step's gradients go."""
        region = self.stamp.where(GRAD)
        if region not in self._gradients:
            self._gradients[region] = GradientBuffer(
                *(self.memory, self.task, region),
                native=self.native,
                may_overflow=self.may_overflow,
            )
        return self._gradients[region]
