"""Gradients of a scaled loss, in 16 bits, with a scale on which all workers agree.

Pure. Small gradients would become 0 in float16, so the step function multiplies its
loss by the scale, and the mean is divided by it. Where anything overflowed at any
worker, all of them leave the parameters as they are, and halve the scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kit.errors import InvalidArgumentError, NotFinite
from kit.exchange.compression.compressor import (
    Arrays,
    Compressor,
    Exchange,
    Exchanged,
    Turn,
)
from kit.exchange.compression.feedback import STATE
from kit.exchange.layout import Spec
from kit.handles import handle

_OVERFLOWED: Final = "loss scale/overflowed"  # how many workers have
_SCALE, _IN_A_ROW = "scale", "in a row"


@handle
@dataclass(frozen=True)
class LossScale(Compressor):
    """Dynamic loss scaling for steps that compute in float16; parameters stay float32.

    The step function has a parameter `scale`, multiplies its loss by it before it
    computes gradients, and returns the loss itself. Gradients travel in float16, two
    bytes an element, and the optimizer gets their mean divided by the scale. If a
    gradient of any worker is not finite, or the sum is not, no worker makes an update,
    and the scale is halved; after `growth_interval` updates in a row it is doubled.

    Parameters
    ----------
    initial : float, default 65536
        The scale to begin with; 1 or more.
    growth_interval : int, default 2000
        After how many updates in a row it is doubled.
    dtype : {"float16", "float32"}
        What gradients travel in.

    Raises
    ------
    InvalidArgumentError
        A value is out of range. `kit.train` raises it for a step function without
        `scale`, and with `local_steps`.
    NotFinite
        In a training: gradients are not finite at a scale of 1.

    Notes
    -----
    After Micikevicius et al., "Mixed precision training", arXiv:1710.03740, 2017, with
    the rule of PyTorch's `GradScaler`. A step without an update counts as a step: for
    `steps`, schedules of the learning rate, and Adam's correction of its means. The
    scale is in checkpoints.

    Examples
    --------
    A step function that computes in float16::

        def step(params, batch, scale):
            x, y = batch
            w = params["w"].astype(np.float16)
            error = (x.astype(np.float16) @ w - y).astype(np.float32)
            gradient = x.T.astype(np.float16) @ (error * scale / len(y)).astype("f2")
            return float((error**2).mean() / 2), {"w": gradient.astype(np.float32)}

        run = kit.train(step, params, data, compress=kit.LossScale(), topology="ring")

    >>> LossScale(1024)
    LossScale(initial=1024, growth_interval=2000, dtype='float16')
    """

    initial: float = 65536.0
    growth_interval: int = 2000
    dtype: str = "float16"

    def __post_init__(self) -> None:
        is_number = isinstance(self.initial, int | float) and self.initial is not True
        if not (is_number and 1 <= self.initial < np.inf):
            raise InvalidArgumentError(
                f"LossScale's initial is {self.initial!r}; give 1 or more."
            )
        if not isinstance(self.growth_interval, int) or self.growth_interval < 1:
            raise InvalidArgumentError(
                f"LossScale's growth_interval is {self.growth_interval!r}; give 1 "
                f"update or more."
            )
        if self.dtype not in ("float16", "float32"):
            raise InvalidArgumentError(
                f"LossScale's dtype is {self.dtype!r}; give 'float16' or 'float32'."
            )

    def scale_of(self, kept: Mapping[str, Any]) -> float:
        """Return the scale of the next step, of what a worker's compressor has kept."""
        return float(kept.get(STATE + _SCALE, self.initial))

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage, the gradients and who has overflowed."""
        halves = [spec._replace(dtype=self.dtype) for spec in specs]
        return [[*halves, Spec(_OVERFLOWED, (), "int32")]]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        scale = float(state.get(_SCALE, self.initial))
        in_a_row = int(state.get(_IN_A_ROW, 0))
        with np.errstate(all="ignore"):  # what overflows is the matter here
            small: dict[str, Any] = {
                name: (gradient * gradient.dtype.type(1 / turn.n_workers)).astype(
                    self.dtype
                )
                for name, gradient in gradients.items()
            }
        has_overflowed = not _are_finite(small)
        if has_overflowed:
            small = {name: np.zeros_like(value) for name, value in small.items()}
        sums = yield {**small, _OVERFLOWED: np.array(has_overflowed, np.int32)}
        totals = {name: sums[name] for name in gradients}
        if sums[_OVERFLOWED] or not _are_finite(totals):
            if scale <= 1:
                raise NotFinite(
                    f"worker {turn.worker}, step {turn.step}: gradients are not finite "
                    f"at a loss scale of {scale:g}. Lower the learning rate, or look "
                    f"at the data of that step."
                )
            state[_SCALE], state[_IN_A_ROW] = np.array(max(1.0, scale / 2)), np.array(0)
            return Exchanged(None)
        unit = {name: g.dtype.type(1 / scale) for name, g in gradients.items()}
        grows = in_a_row + 1 == self.growth_interval
        state[_SCALE] = np.array(scale * 2 if grows else scale)
        state[_IN_A_ROW] = np.array(0 if grows else in_a_row + 1)
        return Exchanged(
            {name: totals[name].astype(x.dtype) * x for name, x in unit.items()}
        )


def _are_finite(arrays: Arrays) -> bool:
    return all(bool(np.isfinite(value).all()) for value in arrays.values())
