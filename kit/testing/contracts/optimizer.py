"""What a training relies on in an optimizer, as one quick check.

It is the same for the optimizers of this package and for yours. No task is started: the
rule is applied to arrays as the owners of the parameters apply it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kit.training.optimizers.rule import (
    PIECE,
    Flat,
    MeanUpdate,
    Optimizer,
    Slot,
    by_layer,
)

_MOST_SLOTS = 5  # a task's memory has room for no more
_STEPS = 6
_SIZE = PIECE + 37  # with a boundary inside for a rule that works in pieces
_SAVED = 3  # the steps before a restart


class _State(NamedTuple):
    """What a checkpoint holds: the parameters and the slots."""

    value: Flat
    slots: tuple[Flat, ...]

    def copied(self) -> _State:
        return _State(self.value.copy(), tuple(slot.copy() for slot in self.slots))


def check_optimizer(rule: Optimizer) -> None:
    """Check that a rule does what a training relies on.

    It is applied to flat arrays of float32 and of float64, as by the tasks that own the
    parameters: whole and in slices, in place and into another array, again from the
    start, and from a copy of its state as after a restart.

    Parameters
    ----------
    rule : Optimizer
        An object with `slots` and `apply`; a correct one is not changed.

    Raises
    ------
    AssertionError
        With what is wrong, where, and what a rule has to do instead.

    Examples
    --------
    >>> import kit
    >>> from kit.testing import check_optimizer
    >>> check_optimizer(kit.Adam(0.01))

    A rule that forgets that its gradient belongs to others:

    >>> class Clipped:
    ...     slots = ()
    ...     def apply(self, parameter, gradient, slots, out, step):
    ...         gradient.clip(-1, 1, out=gradient)
    ...         out[:] = parameter - parameter.dtype.type(0.1) * gradient
    >>> check_optimizer(Clipped())
    Traceback (most recent call last):
    AssertionError: Clipped, float32, step 0: the gradient was changed; read it only...
    """
    name = type(rule).__name__
    _check_slots(name, rule.slots)
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        _Check(rule, f"{name}, {dtype}", dtype).all()


def _check_slots(name: str, slots: Sequence[Slot]) -> None:
    names = [slot.name for slot in slots]
    assert len(names) <= _MOST_SLOTS, (
        f"{name}: there are {len(names)} slots; a task has room for {_MOST_SLOTS}."
    )
    assert len(set(names)) == len(names), (
        f"{name}: slots are called {names}; a checkpoint knows each by its name, so no "
        f"two may share one."
    )
    for slot in slots:
        assert math.isfinite(slot.initial), (
            f"{name}: slot {slot.name!r} begins as {slot.initial!r}; begin with a "
            f"finite number."
        )


class _Check:
    """The check of one rule on arrays of one dtype."""

    def __init__(self, rule: Optimizer, what: str, dtype: np.dtype[Any]) -> None:
        self._fresh = copy.deepcopy(rule)  # as every task gets its own copy
        self._rule, self._what, self._dtype = rule, what, dtype
        dice = np.random.default_rng(7)
        self._start = dice.normal(size=_SIZE).astype(dtype)
        scale = 10.0 ** dice.uniform(-4, 1, (_STEPS, _SIZE))
        self._gradients = (dice.normal(size=(_STEPS, _SIZE)) * scale).astype(dtype)
        self._gradients[:, ::101] = 0  # a parameter that was not used

    def all(self) -> None:
        """Compare every way of applying the rule with one: whole, into a new array."""
        whole = [self._new(self._start)]
        for step in range(_STEPS):
            whole.append(self._apply(self._rule, whole[-1], step))
        last = whole[-1]
        self._same(
            "applied to the same arrays again",
            "a rule may keep nothing but its slots",
            last,
            self._trained(self._rule),
        )
        self._same(
            "with `out` being the parameter itself",
            "write an element of `out` when it is read for the last time",
            last,
            self._trained(self._rule, in_place=True),
        )
        if not by_layer(self._rule):
            self._same(
                "cut into slices",
                "an element's result may depend on that element alone",
                last,
                self._sliced(),
            )
        restored = whole[_SAVED].copied()
        for step in range(_SAVED, _STEPS):
            restored = self._apply(copy.deepcopy(self._fresh), restored, step)
        self._same(
            f"restored from parameters and slots after {_SAVED} steps",
            "what a rule remembers belongs in its slots, which are saved",
            last,
            restored,
        )
        if MeanUpdate(self._rule, 1).spends:
            self._same(
                "written over its gradient",
                "it says that it `spends` it, and reads it too late",
                last,
                self._trained(self._rule, spends=True),
            )

    def _new(self, start: Flat) -> _State:
        slots = self._rule.slots
        made = tuple(np.full(start.size, slot.initial, self._dtype) for slot in slots)
        return _State(start.copy(), made)

    def _apply(self, rule: Optimizer, state: _State, step: int) -> _State:
        """Do one step into a new array; nothing else but the slots may change."""
        before, after = state.copied(), state.copied()
        gradient = self._gradients[step].copy()
        out = np.full(before.value.size, np.nan, self._dtype)
        rule.apply(before.value, gradient, after.slots, out, step)
        where = f"{self._what}, step {step}"
        assert gradient.tobytes() == self._gradients[step].tobytes(), (
            f"{where}: the gradient was changed; read it only, and use memory of the "
            f"rule's own."
        )
        assert before.value.tobytes() == state.value.tobytes(), (
            f"{where}: the parameter was changed, and `out` is another array; write to "
            f"`out` alone."
        )
        names = ["out", *(f"slot {slot.name!r}" for slot in rule.slots)]
        for name, array in zip(names, (out, *after.slots), strict=True):
            bad = np.flatnonzero(~np.isfinite(array))
            assert not bad.size, (
                f"{where}: {name} is {array[bad[0]]} at element {bad[0]}, from "
                f"gradient {gradient[bad[0]]:g}; write every element, and divide by "
                f"nothing that may be zero."
            )
        return _State(out, after.slots)

    def _trained(
        self, rule: Optimizer, *, in_place: bool = False, spends: bool = False
    ) -> _State:
        state = self._new(self._start)
        for step in range(_STEPS):
            gradient = self._gradients[step].copy()
            out = np.empty_like(state.value)
            if in_place:
                out = state.value
            if spends:
                out = gradient
                MeanUpdate(rule, 1)(state.value, gradient, state.slots, out, step)
            else:
                rule.apply(state.value, gradient, state.slots, out, step)
            state = _State(out, state.slots)
        return state

    def _sliced(self) -> _State:
        """Train slice by slice, as servers do that hold a shard each; one is empty."""
        edges = [0, 1, 8, 1000, 1000, _SIZE // 2, _SIZE]
        whole = self._new(self._start)
        for low, high in pairwise(edges):
            rule, cut = copy.deepcopy(self._fresh), slice(low, high)
            value, slots = whole.value[cut], [slot[cut] for slot in whole.slots]
            for step in range(_STEPS):
                gradient = self._gradients[step, cut].copy()
                rule.apply(value, gradient, slots, value, step)
        return whole

    def _same(self, how: str, why: str, wanted: _State, state: _State) -> None:
        names = ["the parameter", *(f"slot {slot.name!r}" for slot in self._rule.slots)]
        pairs = zip(
            names,
            (wanted.value, *wanted.slots),
            (state.value, *state.slots),
            strict=True,
        )
        for name, value, other in pairs:
            differs = np.flatnonzero(value != other)
            assert not differs.size, (
                f"{self._what}: {how}, {name} is {other[differs[0]]:.9g} at element "
                f"{differs[0]} after {_STEPS} steps, else {value[differs[0]]:.9g}; "
                f"{why}."
            )
