"""The update rules as ops: what `minimize` puts beside each variable.

Pure. One op updates a variable and its slots together, while the variable's lock is
held: two clients' updates never mix. Values are replaced, never changed in place, so
a reader keeps what it has read. The arithmetic is the rule's own, hence the bits are
those of a training that exchanges gradients.

    inputs   the variable and its slots, by reference; powers; settings that are
             tensors; then the gradient, or its rows and their indices
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Final

from kit.graph.dtypes import name_of
from kit.graph.kernels.bounds import check_indices
from kit.graph.kernels.segments import sum_by_index
from kit.graph.ops.state.state import Ref
from kit.graph.static import Static, merge
from kit.graph.table import Attrs, OpDef, register
from kit.training.optimizers.rule import Rule

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
    rule: Rule, xp: ModuleType, old: Any, slots: Sequence[Any], given: Any, rate: Any
) -> tuple[Any, list[Any]]:
    """Return the variable's next value and the slots'."""
    (gradient,) = given
    if gradient.shape != old.shape:
        raise ValueError(
            f"the gradient has the shape {list(gradient.shape)}, the variable "
            f"{list(old.shape)}."
        )
    # What has no axes may be a scalar of numpy, which cannot be changed.
    moved = [xp.asarray(slot).copy() for slot in slots]
    out = xp.empty(old.shape, old.dtype)
    flat = [slot.reshape(-1) for slot in moved]
    rule.update(old.reshape(-1), gradient.reshape(-1), flat, out.reshape(-1), rate, xp)
    return out, moved


def update_rows(
    rule: Rule, xp: ModuleType, old: Any, slots: Sequence[Any], given: Any, rate: Any
) -> tuple[Any, list[Any]]:
    """Do the rows that have a gradient; all rows if the rule moves all."""
    values, indices = given
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
