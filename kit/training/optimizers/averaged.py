"""An optimizer that keeps a running mean of its parameters beside them.

Pure. The mean is one more slot: it lies where the parameters are updated, moves with
them at a switch, and is in checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.exchange.layout import Layout, Range
from kit.handles import handle
from kit.training.optimizers.rule import Around, Flat, Slot, over, piece_size


@handle
@dataclass(frozen=True)
class Averaged(Around):
    """An optimizer that keeps an exponential mean of the parameters (EMA) as well.

    After each update it moves by 1 - decay of the way to the parameters; after the
    first it is equal to them, as with PyTorch's `AveragedModel`. `run.params` are the
    parameters themselves; the mean is in checkpoints, and
    `kit.hooks.ValidationHook(..., decay=0.999)` measures it while it trains.

    Parameters
    ----------
    rule : Optimizer
        What updates the parameters: such as `kit.AdamW(0.001)`, or a `kit.Groups`.
    decay : float, default 0.999
        How much of the mean is kept in a step, from 0 to below 1.

    Raises
    ------
    InvalidArgumentError
        The rule is not an optimizer, or the decay is out of range.

    Notes
    -----
    Costs one more array of the parameters' size, where they are updated, and no bytes.

    Examples
    --------
    Train, and evaluate the mean::

        optimizer = kit.Averaged(kit.AdamW(0.001), decay=0.999)
        kit.train(step, params, data, optimizer=optimizer, checkpoint="run-1").wait()
        average = kit.load_checkpoint("run-1").slots["average"]
    """

    kind = "average"
    limits = (("decay", 0, 1, True),)

    decay: float = 0.999

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Those of the rule, and the mean."""
        return (*self.rule.slots, Slot("average", 0.0))

    def over(self, layout: Layout, part: Range) -> Averaged:
        """Return the optimizer of a range of the flat parameters, of one dtype."""
        return Averaged(over(self.rule, layout, part), self.decay)

    def apply(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        """See `Optimizer`: let the rule update, and the mean follow."""
        *own, average = slots
        self.rule.apply(parameter, gradient, own, out, step)
        rest = out.dtype.type(1 - self.decay) if step else out.dtype.type(1)
        size = piece_size(out)
        work = np.empty_like(out[:size])
        for start in range(0, out.size, size):
            mean, value = (array[start : start + size] for array in (average, out))
            way = np.subtract(value, mean, out=work[: mean.size])
            way *= rest
            mean += way
