"""An axis of a training: what a worker does by itself before each exchange.

Pure. `kit.training.worker` has what carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kit.exchange.topologies.topology import Topology
from kit.training.optimizers.rule import Optimizer


@dataclass(frozen=True)
class OwnWork:
    """It computes a gradient, in one piece or in several.

    Attributes:
        hands_over: whether a gradient may leave before all are computed.
        may_keep: whether it may carry on something of its own from step to step.
        optimizers: for each optimizer of `kit.train`, the field of the job.
        by: where what carries it out is.
    """

    n_pieces: int

    hands_over: ClassVar[bool] = True
    may_keep: ClassVar[bool] = False
    optimizers: ClassVar[Mapping[str, str]] = {"optimizer": "optimizer"}
    by: ClassVar[str] = "kit.training.worker.own_gradient:OwnGradient"

    def keeps(self, topology: Topology) -> bool:
        """Whether it carries on something in a training that begins with a topology."""
        return False


@dataclass(frozen=True)
class LocalTraining(OwnWork):
    """It makes steps on parameters of its own; how far they came is what travels."""

    n_steps: int
    optimizer: Optimizer

    hands_over = False
    may_keep = True
    optimizers: ClassVar[Mapping[str, str]] = {
        "outer": "optimizer",
        "optimizer": "inner",
    }
    by = "kit.training.worker.local_steps:LocalSteps"

    def keeps(self, topology: Topology) -> bool:
        """See `OwnWork`: the optimizer's slots, or parameters that differ."""
        return len(self.optimizer.slots) > 0 or not topology.agrees
