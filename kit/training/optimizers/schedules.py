"""Learning rates that change from step to step: functions of the number of the step.

Pure. A schedule takes the place of a learning rate: `kit.Adam(kit.Cosine(0.003, 900))`.
Any function of the step will do; these have a plain form too, so that they travel over
links and stand in a recording.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Final

from kit.errors import InvalidArgumentError

_KEY: Final = "schedule"  # under which the plain form has the name


@dataclass(frozen=True)
class RateSchedule:
    """Base of the schedules: a learning rate by the number of steps before."""

    name: ClassVar[str]

    rate: float
    steps: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name == "steps" else 0
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and least <= value < math.inf):
                raise InvalidArgumentError(
                    f"{type(self).__name__}: {field.name} is {value!r}; give a number "
                    f"of at least {least}."
                )

    def __call__(self, step: int) -> float:
        """Return the learning rate of the step that follows `step` others."""
        raise NotImplementedError

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data; see `schedule_from`."""
        return {_KEY: self.name, **asdict(self)}


@dataclass(frozen=True)
class Cosine(RateSchedule):
    """A rate that falls along half a cosine, after it has risen for `warmup` steps.

    Parameters
    ----------
    rate : float
        The highest one.
    steps : int
        After how many steps it is at its `end`, the warm-up included; it stays there.
    warmup : int, default 0
        For how many steps it rises from 0 in equal parts: the first has 1 / warmup.
    end : float, default 0
        The rate at the end.

    Raises
    ------
    InvalidArgumentError
        A value is negative, or the warm-up does not end before the rest.

    Notes
    -----
    After Loshchilov and Hutter, "SGDR: Stochastic gradient descent with warm restarts",
    arXiv:1608.03983, 2016.

    Examples
    --------
    >>> falling = Cosine(0.1, steps=100, warmup=10)
    >>> [round(falling(step), 3) for step in (0, 9, 10, 55, 100, 1000)]
    [0.01, 0.1, 0.1, 0.05, 0.0, 0.0]
    """

    name: ClassVar[str] = "cosine"

    warmup: int = 0
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup >= self.steps:
            raise InvalidArgumentError(
                f"Cosine: a warm-up of {self.warmup} steps does not end before step "
                f"{self.steps}; give a shorter one, or more steps."
            )

    def __call__(self, step: int) -> float:
        """See `RateSchedule`."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        passed = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return _between(self.rate, self.end, passed)


@dataclass(frozen=True)
class WarmUp(RateSchedule):
    """A rate that rises in equal parts for `steps` steps, and stays.

    Parameters
    ----------
    rate : float
        The rate afterwards.
    steps : int
        For how many steps it rises; the first has 1 / steps.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Examples
    --------
    >>> [WarmUp(0.1, steps=4)(step) for step in (0, 1, 3, 9)]
    [0.025, 0.05, 0.1, 0.1]
    """

    name: ClassVar[str] = "warm_up"

    def __call__(self, step: int) -> float:
        """See `RateSchedule`."""
        return self.rate * min(1.0, (step + 1) / self.steps)


@dataclass(frozen=True)
class OneCycle(RateSchedule):
    """A rate that rises along half a cosine and falls along another one.

    Parameters
    ----------
    rate : float
        The highest one; it begins with a 25th of it.
    steps : int
        How many steps the cycle has, at least 2; after it the rate stays as it ended.
    rising : float, default 0.3
        The part of the steps in which it rises.
    end : float, default 4e-6
        The part of the highest rate with which it ends.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After Smith and Topin, "Super-convergence: Very fast training of neural networks
    using large learning rates", arXiv:1708.07120, 2017, as
    `torch.optim.lr_scheduler.OneCycleLR` by default.

    Examples
    --------
    >>> cycle = OneCycle(1.0, steps=101)
    >>> [round(cycle(step), 6) for step in (0, 29, 100, 500)]
    [0.04, 0.999752, 4e-06, 4e-06]
    """

    name: ClassVar[str] = "one_cycle"

    rising: float = 0.3
    end: float = 4e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps * self.rising <= 1 or self.rising >= 1:
            raise InvalidArgumentError(
                f"OneCycle: rising is {self.rising!r} of {self.steps} steps; give a "
                f"part below 1 that has more than one step."
            )

    def __call__(self, step: int) -> float:
        """See `RateSchedule`."""
        top, last = self.rising * self.steps - 1, self.steps - 1
        if step <= top:
            return _between(self.rate / 25, self.rate, step / top)
        passed = min(1.0, (step - top) / (last - top))
        return _between(self.rate, self.rate * self.end, passed)


def _between(first: float, last: float, passed: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * passed)) / 2


_SCHEDULES: Final = {kind.name: kind for kind in (Cosine, WarmUp, OneCycle)}


def schedule_from(plain: Any) -> Any:
    """Rebuild a schedule from its plain form; anything else is returned as it is.

    >>> schedule_from(Cosine(0.1, 100).to_plain())
    Cosine(rate=0.1, steps=100, warmup=0, end=0.0)
    """
    if not (isinstance(plain, Mapping) and plain.get(_KEY) in _SCHEDULES):
        return plain
    settings = {str(name): value for name, value in plain.items() if name != _KEY}
    try:
        return _SCHEDULES[plain[_KEY]](**settings)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{plain!r:.200} is not the description of a schedule."
        ) from error
