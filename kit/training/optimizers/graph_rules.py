"""Two more update rules, for graphs: Adadelta and FTRL-Proximal, by TensorFlow.

    adadelta   s = d s + (1 - d) g g;     u = sqrt(t + e) / sqrt(s + e) g
               t = d t + (1 - d) u u;     v -= lr u
    ftrl       n' = n + g g;   z += g + 2 k v - (sqrt(n') - sqrt(n)) / lr v
               v = (clip(z, -l1, l1) - z) / (sqrt(n') / lr + 2 l2)

Pure. See `kit.training.optimizers.rules` for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, ClassVar, Final

import numpy as np

from kit.graph.dtypes import name_of
from kit.graph.kernels.bounds import check_indices
from kit.graph.kernels.segments import sum_by_index
from kit.graph.ops.state.state import Ref
from kit.graph.static import Static, merge
from kit.graph.table import Attrs, OpDef, register
from kit.handles import handle
from kit.training.optimizers.layer_rules import LAMB, LARS
from kit.training.optimizers.rule import Flat, Number, Rule, Slot
from kit.training.optimizers.rules import (
    Adagrad,
    Adam,
    AdamW,
    GradientDescent,
    Lion,
    Momentum,
    RMSProp,
)

# --------------------------------------------------------------------------------------
# The update rules as ops: what `minimize` puts beside each variable.
#
# Pure. One op updates a variable and its slots together, while the variable's lock is
# held: two clients' updates never mix. Values are replaced, never changed in place, so
# a reader keeps what it has read. The arithmetic is the rule's own, hence the bits are
# those of a training that exchanges gradients.
#
#     inputs   the variable and its slots, by reference; powers; settings that are
#              tensors; then the gradient, or its rows and their indices

_RULES: Final[dict[str, type[Rule]]] = {}


def enter(rule: type[Rule], title: str, n_slots: int) -> None:
    """Add a rule's ops to the table: `ApplyAdam` and `SparseApplyAdam`."""
    _RULES[rule.name] = rule
    refs = tuple(range(1 + n_slots))
    for sparse in (False, True):
        register(
            OpDef(
                f"{'Sparse' if sparse else ''}Apply{title}",
                partial(_infer, n_slots, sparse),
                partial(_apply, n_slots, sparse),
                stateful=True,
                refs=refs,
            )
        )


def _infer(
    n_slots: int, sparse: bool, inputs: Sequence[Static], attrs: Attrs
) -> Sequence[Static]:
    variable = inputs[0]
    gradient = inputs[-2] if sparse else inputs[-1]
    if gradient.dtype != variable.dtype:
        raise TypeError(
            f"the gradient is {name_of(gradient.dtype)}, its variable "
            f"{name_of(variable.dtype)}; cast the gradient."
        )
    if sparse:
        if variable.shape and gradient.shape:
            merge(variable.shape[1:], gradient.shape[1:], "a row and its gradient")
        return [variable._replace(value=None)]
    shape = merge(variable.shape, gradient.shape, "the variable and its gradient")
    return [Static(shape, variable.dtype)]


def _apply(
    n_slots: int,
    sparse: bool,
    call: Any,
    variable: Ref,
    *rest: Any,
    rule: tuple[tuple[str, Any], ...],
    fed: tuple[str, ...],
) -> Any:
    slots, values = rest[:n_slots], rest[n_slots:]
    chosen = _rule(rule)
    powers, values = values[: len(chosen.powers)], values[len(chosen.powers) :]
    if fed:
        pairs = zip(fed, values, strict=False)
        chosen = replace(chosen, **{name: float(value) for name, value in pairs})
    gradient = values[len(fed) :]

    # Called under the variable's lock, so its slots are read and written under it too.
    def change(old: Any) -> Any:
        rate = chosen.rate(
            old.dtype, [old.dtype.type(float(power)) for power in powers]
        )
        kept = [slot.read() for slot in slots]
        update = update_rows if sparse else update_whole
        new, moved = update(chosen, call.xp, old, kept, gradient, rate)
        for slot, value in zip(slots, moved, strict=True):
            slot.assign(value)
        return new

    return variable.update(change)


def update_whole(
    rule: Rule, xp: ModuleType, old: Any, slots: Sequence[Any], pieces: Any, rate: Any
) -> tuple[Any, list[Any]]:
    """Return the variable's next value and the slots'."""
    (gradient,) = pieces
    if gradient.shape != old.shape:
        raise ValueError(
            f"the gradient has the shape {list(gradient.shape)}, the variable "
            f"{list(old.shape)}."
        )
    # What has no axes may be a scalar of numpy, which cannot be changed.
    moved = [xp.asarray(slot).copy() for slot in slots]
    out = xp.empty(old.shape, old.dtype)
    flat = [slot.reshape(-1) for slot in moved]
    rule.update(old.reshape(-1), gradient.reshape(-1), flat, out.reshape(-1), rate)
    return out, moved


def update_rows(
    rule: Rule, xp: ModuleType, old: Any, slots: Sequence[Any], pieces: Any, rate: Any
) -> tuple[Any, list[Any]]:
    """Do the rows that have a gradient; all rows if the rule moves all."""
    values, indices = pieces
    check_indices(xp, indices, old.shape[0])
    rows, sums = sum_by_index(xp, values, indices)
    if rule.moves_all:
        whole = xp.zeros(old.shape, old.dtype)
        whole[rows] = sums
        return update_whole(rule, xp, old, slots, (whole,), rate)
    parts = [slot[rows] for slot in slots]
    part, parts = update_whole(rule, xp, old[rows], parts, (sums,), rate)
    out, moved = old.copy(), [slot.copy() for slot in slots]
    for target, value in zip([out, *moved], [part, *parts], strict=True):
        target[rows] = value
    return out, moved


@lru_cache(maxsize=256)
def _rule(settings: tuple[tuple[str, Any], ...]) -> Rule:
    """Return the rule that an op's attribute describes; its settings are checked."""
    plain = dict(settings)
    return _RULES[plain.pop("name")](**plain)


# --------------------------------------------------------------------------------------
# The rules.

_INF = float("inf")


@handle
@dataclass(frozen=True)
class Adadelta(Rule):
    """Adadelta: steps as long as the last ones were, relative to the gradients.

    After Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701, 2012.

    >>> Adadelta().rho
    0.95
    """

    learning_rate: Number = 0.001
    rho: float = 0.95
    epsilon: float = 1e-8
    name: ClassVar[str] = "adadelta"
    # Mean squares of the gradients and of the updates.
    slots = Slot("accum", 0.0), Slot("accum_update", 0.0)
    limits = ("rho", 0, 1), ("epsilon", 0, _INF)
    spends: ClassVar[bool] = True

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        kept, epsilon = number(self.rho), number(self.epsilon)
        rest = number(1) - kept
        of_gradients, of_updates = slots
        of_gradients *= kept
        np.multiply(g, g, out=work)
        work *= rest
        of_gradients += work
        np.add(of_updates, epsilon, out=work)
        change = np.sqrt(work)
        np.add(of_gradients, epsilon, out=work)
        change /= np.sqrt(work)
        change *= g
        of_updates *= kept
        np.multiply(change, change, out=work)
        work *= rest
        of_updates += work
        change *= rate
        np.subtract(v, change, out=out)


@handle
@dataclass(frozen=True)
class Ftrl(Rule):
    """FTRL-Proximal: of weights that matter little, exact zeros, by `l1`.

    After McMahan et al., "Ad click prediction: a view from the trenches", 2013; `k` is
    a cost of the weights that does not enter n.

    >>> Ftrl(0.1, l1=0.5).initial_accumulator_value
    0.1
    """

    learning_rate: Number
    initial_accumulator_value: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    l2_shrinkage: float = 0.0
    name: ClassVar[str] = "ftrl"
    limits = (
        ("initial_accumulator_value", 0, _INF),
        ("l1", 0, _INF),
        ("l2", 0, _INF),
        ("l2_shrinkage", 0, _INF),
    )
    spends: ClassVar[bool] = True

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The sum of squared gradients n, and z."""
        start = self.initial_accumulator_value
        return (Slot("accum", start), Slot("linear", 0.0))

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        l1, two = number(self.l1), number(2)
        n, z = slots
        before = np.sqrt(n)
        np.multiply(g, g, out=work)
        n += work
        root = np.sqrt(n)
        z += g
        if self.l2_shrinkage:
            np.multiply(v, two * number(self.l2_shrinkage), out=work)
            z += work
        np.subtract(root, before, out=work)
        work /= rate
        work *= v
        z -= work
        root /= rate
        root += two * number(self.l2)
        np.clip(z, -l1, l1, out=work)
        work -= z
        np.divide(work, root, out=out)


# The ops of `minimize`, as TensorFlow calls them.
enter(GradientDescent, "GradientDescent", n_slots=0)
enter(Momentum, "Momentum", n_slots=1)
enter(Adagrad, "Adagrad", n_slots=1)
enter(RMSProp, "RMSProp", n_slots=2)
enter(RMSProp, "CenteredRMSProp", n_slots=3)
enter(Adam, "Adam", n_slots=2)
enter(AdamW, "AdamW", n_slots=2)
enter(Lion, "Lion", n_slots=1)
enter(LAMB, "LAMB", n_slots=2)
enter(LARS, "LARS", n_slots=1)
enter(Adadelta, "Adadelta", n_slots=2)
enter(Ftrl, "Ftrl", n_slots=2)
