"""An optimizer that makes up for parameters which are older than the update.

Pure. What a worker had pulled is known to the server that updates: it keeps a copy for
each worker, from which it sends (`kit.training.features.asynchronous.async_steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.exchange.layout import Layout, Range
from kit.handles import handle
from kit.training.optimizers.rule import Around, Flat, Optimizer, over


@handle
@dataclass(frozen=True)
class DelayCompensated(Around):
    """An optimizer that corrects gradients of asynchronous workers for their delay.

    A gradient g of parameters w_old that others have moved to w meanwhile becomes
    g + strength * g * g * (w - w_old), element by element, before the rule gets it: the
    first term by which the gradient at w differs, with g * g for the second derivative.
    In synchronous steps nothing is changed.

    Parameters
    ----------
    rule : Optimizer
        What updates the parameters: such as `kit.GradientDescent(0.1)`.
    strength : float, default 0.04
        Lambda of the paper, 0 or more; 0 corrects nothing.

    Raises
    ------
    InvalidArgumentError
        The rule is not an optimizer, or the strength is out of range.

    Notes
    -----
    After Zheng et al., "Asynchronous stochastic gradient descent with delay
    compensation", arXiv:1609.08326, 2017. It costs no bytes and no memory: a server
    has a copy for each worker anyway.

    Examples
    --------
    Train without waiting for each other::

        optimizer = kit.DelayCompensated(kit.GradientDescent(0.1), strength=0.04)
        kit.train(step, params, data, optimizer=optimizer, sync=False)
    """

    kind = "compensated"
    limits = (("strength", 0, float("inf")),)

    strength: float = 0.04

    def over(self, layout: Layout, part: Range) -> Optimizer:
        """Return the optimizer of a range of the flat parameters, of one dtype."""
        return over(self.rule, layout, part)

    def apply(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        """See `Optimizer`: let the rule update."""
        self.rule.apply(parameter, gradient, slots, out, step)


def compensation(optimizer: Optimizer | None) -> float:
    """Return the strength with which an optimizer, or its rule, compensates delays."""
    if isinstance(optimizer, DelayCompensated):
        return optimizer.strength
    rule = getattr(optimizer, "rule", None)
    return 0.0 if rule is None else compensation(rule)


def compensate(gradient: Flat, now: Flat, pulled: Flat, strength: float) -> None:
    """Correct a gradient of the parameters `pulled` in place.

    >>> import numpy as np
    >>> gradient = np.array([2.0, -1.0])
    >>> compensate(gradient, np.array([1.0, 1.0]), np.array([0.5, 1.0]), 0.5)
    >>> gradient
    array([ 3., -1.])
    """
    way = now - pulled
    way *= gradient
    way *= gradient
    way *= gradient.dtype.type(strength)
    gradient += way
