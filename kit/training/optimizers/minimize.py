"""Minimise a loss that is a tensor, by the optimizers that train anything else too.

    train = kit.Adam(0.003).minimize(loss)
    session.run(kit.initialize_all())
    session.run(train, {x: images, y: labels})

Pure: it adds ops to the graph, by `kit.training.optimizers.minimize`, and runs
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import tensor
from kit.graph.dtypes import name_of
from kit.graph.gradients import gradients
from kit.graph.graph import Graph
from kit.graph.op import IndexedSlices, Op, Tensor
from kit.graph.ops.array.fill import fill, full_like
from kit.graph.ops.state import state
from kit.graph.static import is_known, known_shape
from kit.graph.variable import Variable

if TYPE_CHECKING:
    from kit.training.optimizers.rule import Rule, Slot


# --------------------------------------------------------------------------------------
# An optimizer at work in a graph: its slots, and one update op for each variable.


# A gradient (None where there is none) and its variable.
Pair: TypeAlias = tuple[Any, Any]
# (initial value, name): makes a variable that is not trained.
MakeVariable: TypeAlias = Callable[[Any, str], Any]


def plain_variable(initial_value: Any, name: str) -> Variable:
    """Return a variable that no optimizer trains."""
    return Variable(initial_value, trainable=False, name=name)


class Minimizer:
    """A rule, and the slots that it keeps in graphs.

    `title` is in the names of slots and ops, by default the rule's own. `variable`
    makes the slots, so that they can be of a class of the caller's.
    """

    def __init__(
        self,
        rule: Rule,
        title: str | None = None,
        variable: MakeVariable = plain_variable,
    ) -> None:
        self.rule, self.title = rule, title or type(rule).__name__
        self._variable = variable
        self._slots: dict[str, dict[Any, Any]] = {}
        self._powers: dict[Graph, list[Any]] = {}

    def slot(self, variable: Any, name: str) -> Any:
        """Return a variable's slot, None if there is none."""
        return self._slots.get(name, {}).get(variable)

    def powers(self, graph: Graph) -> list[Any]:
        """Return what Adam's rate is made of, by step; other rules have none."""
        return list(self._powers.get(graph, []))

    def variables(self, graph: Graph) -> list[Any]:
        """Return all that it keeps in a graph, slots and powers, sorted by name."""
        slots = [var for slot in self._slots.values() for var in slot.values()]
        mine = [slot for slot in slots if slot.graph is graph]
        return sorted([*mine, *self.powers(graph)], key=lambda var: str(var.name))

    def apply(
        self, pairs: Iterable[Pair], global_step: Any = None, name: str | None = None
    ) -> Op:
        """Return an op that applies gradients; see `Minimizes.apply_gradients`."""
        checked = applicable(pairs)
        graph: Graph = checked[0][1].graph
        with graph.as_default():
            slots = self._make_slots(graph, [variable for _, variable in checked])
            with graph.name_scope(name or self.title) as scope:
                updates = [
                    self._update(gradient, variable, own)
                    for (gradient, variable), own in zip(checked, slots, strict=True)
                ]
                updates += self._move_powers(graph, updates)
                if global_step is None:
                    return joined(graph, updates, scope)
                done = joined(graph, updates, "update")
                with graph.control_dependencies([done]):
                    return state.assign_add(global_step.ref, 1, name=scope).op

    def _make_slots(self, graph: Graph, variables: Sequence[Any]) -> list[list[Any]]:
        with graph.control_dependencies(None):
            if self.rule.powers and graph not in self._powers:
                self._powers[graph] = self._make_powers(graph, variables)
            return [
                [self._slot(variable, slot) for slot in self.rule.slots]
                for variable in variables
            ]

    def _make_powers(self, graph: Graph, variables: Sequence[Any]) -> list[Any]:
        """Put them beside the variable whose name sorts first."""
        first = min(variables, key=lambda variable: str(variable.name))
        dtype = first.ref.static.dtype
        with graph.colocate_with(first.op, ignore_existing=True):
            return [
                self._variable(_number(self.rule, name, dtype), f"{name}_power")
                for name in self.rule.powers
            ]

    def _move_powers(self, graph: Graph, updates: Sequence[Op]) -> list[Op]:
        """Multiply each power by its setting once all updates have used it."""
        moved = []
        pairs = zip(self.powers(graph), self.rule.powers, strict=False)
        with graph.control_dependencies(updates):
            for power, name in pairs:
                with graph.colocate_with(power.op, ignore_existing=True):
                    factor = _number(self.rule, name, power.ref.static.dtype)
                    product = power.value() * factor
                    moved.append(state.assign(power.ref, product).op)
        return moved

    def _slot(self, variable: Any, slot: Slot) -> Any:
        slots = self._slots.setdefault(slot.name, {})
        if variable not in slots:
            graph: Graph = variable.graph
            with (
                graph.name_scope(None),
                graph.colocate_with(variable.op, ignore_existing=True),
            ):
                # Of the variable's shape, known now or only in a run.
                static = variable.ref.static
                value = np.asarray(slot.initial, static.dtype)
                if is_known(static.shape):
                    initial = fill(known_shape(static.shape), value)
                else:
                    initial = full_like(variable.initial_value, value)
                name = f"{variable.op.name}/{self.title}"
                slots[variable] = self._variable(initial, name)
        return slots[variable]

    def _update(self, gradient: Any, variable: Any, slots: Sequence[Any]) -> Op:
        graph: Graph = variable.graph
        parts, kind = [gradient], f"Apply{title_of(self.rule)}"
        if isinstance(gradient, IndexedSlices):
            parts, kind = [gradient.values, gradient.indices], f"Sparse{kind}"
        settings, fed = settings_of(self.rule)
        with (
            graph.name_scope(f"update_{variable.op.name}"),
            graph.colocate_with(variable.op, ignore_existing=True),
        ):
            inputs = [
                *(variable_changed.ref for variable_changed in (variable, *slots)),
                *(power.value() for power in self.powers(graph)),
                *(tensor(setting) for setting in fed.values()),
                *parts,
            ]
            return graph.create(kind, *inputs, rule=settings, fed=tuple(fed))


def applicable(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs that have a gradient, as tensors or rows; raises for misuse."""
    all_pairs = list(pairs)
    checked = [(_gradient(g, v), _variable(v)) for g, v in all_pairs]
    pairs_left = [(g, v) for g, v in checked if g is not None]
    if not pairs_left:
        names = ", ".join(repr(v.name) for _, v in checked) or "no variables"
        raise ValueError(
            f"there is no gradient to apply: none was given for {names}; does the loss "
            f"depend on these variables?"
        )
    return pairs_left


def joined(graph: Graph, ops: Sequence[Op], name: str) -> Op:
    """Return an op that is done when all `ops` are; one message from each device."""
    places: dict[str, list[Op]] = {}
    for op in ops:
        places.setdefault(op.device, []).append(op)
    if len(places) > 1:
        return _join(
            graph, [_join(graph, own, "done", own[0]) for own in places.values()], name
        )
    return _join(graph, ops, name, ops[0])


def _join(graph: Graph, ops: Sequence[Op], name: str, beside: Op | None = None) -> Op:
    with graph.control_dependencies(None), graph.control_dependencies(ops):
        if beside is None:
            return graph.create("NoOp", name=name)
        with graph.colocate_with(beside, ignore_existing=True):
            return graph.create("NoOp", name=name)


def _gradient(gradient: Any, variable: Any) -> Any:
    """Return a gradient as a tensor or as rows; None stays."""
    if gradient is None or isinstance(gradient, IndexedSlices):
        return gradient
    try:
        return tensor(gradient, name="gradient")
    except (TypeError, ValueError) as exc:
        raise TypeError(
            f"{gradient!r} is not a gradient of {variable!r}: {exc} Give a tensor, an "
            f"array, an IndexedSlices, or None."
        ) from exc


def _variable(variable: Any) -> Any:
    if isinstance(getattr(variable, "ref", None), Tensor):
        return variable
    raise NotImplementedError(
        f"{variable!r} of type {type(variable).__name__} cannot be updated; only a "
        f"variable can: kit.Variable(...)."
    )


def title_of(rule: Rule) -> str:
    """Return how the rule's op is called, after the word Apply."""
    centered = "Centered" if getattr(rule, "centered", False) else ""
    return centered + type(rule).__name__


def settings_of(rule: Rule) -> tuple[tuple[tuple[str, Any], ...], dict[str, Any]]:
    """Return the settings as plain data, and those that are tensors by name."""
    values = {field.name: getattr(rule, field.name) for field in fields(rule)}
    if callable(rule.learning_rate):
        raise InvalidArgumentError(
            f"{rule.name}: the learning rate is {rule.learning_rate!r}, a function of "
            f"the step, which is for kit.train; in a graph give a tensor."
        )
    fed = {
        name: setting
        for name, setting in values.items()
        if isinstance(setting, ArrayProtocol)
    }
    # Any number that every setting may have stands for those that are fed.
    plain = {name: 0.5 if name in fed else setting for name, setting in values.items()}
    return (("name", rule.name), *plain.items()), fed


def _number(rule: Rule, name: str, dtype: Any) -> Tensor:
    value = getattr(rule, name)
    if isinstance(value, ArrayProtocol):
        return tensor(value, dtype)
    return tensor(np.asarray(value, dtype), name=name)


def minimizer_of(rule: Rule, graph: Graph) -> Minimizer:
    """Return what a rule keeps in a graph.

    Found by identity: optimizers with equal settings have slots of their own.
    """
    kept: dict[int, Minimizer] = graph.notes.setdefault("minimizers", {})
    if id(rule) not in kept:
        kept[id(rule)] = Minimizer(rule)
    return kept[id(rule)]


def trainable(graph: Graph) -> list[Any]:
    """Return the variables of a graph that are there to be trained."""
    return [variable for variable in graph.variables if variable.trainable]


def compute_gradients(
    loss: Any,
    variables: Sequence[Any] | None = None,
    grad_loss: Any = None,
    *,
    colocate: bool = True,
) -> list[Pair]:
    """Return (gradient, variable) pairs; see `Minimizes.compute_gradients`."""
    target = tensor(loss)
    if kind_of(target.static.dtype) not in "fc":
        raise ValueError(
            f"the loss {target!r} is {name_of(target.static.dtype)}; only a floating "
            f"point number can be minimised: cast it before it is summed up."
        )
    chosen = trainable(target.graph) if variables is None else list(variables)
    if not chosen:
        raise ValueError(
            "there are no variables to train; make one with kit.Variable(...), or give "
            "variables=[...]."
        )
    slopes = gradients(target, chosen, grad_loss, colocate=colocate)
    return list(zip(slopes, chosen, strict=True))


def check_connected(loss: Any, pairs: Sequence[Pair]) -> None:
    """Raise `ValueError` when no pair has a gradient."""
    if all(gradient is None for gradient, _ in pairs):
        names = ", ".join(repr(variable.name) for _, variable in pairs)
        raise ValueError(
            f"no gradient leads from the loss {loss!r} to any of {names}; compute the "
            f"loss from them by differentiable ops."
        )
