"""Minimise a loss that is a tensor, by the optimizers that train anything else too.

    train = kit.Adam(0.003).minimize(loss)
    session.run(kit.initialize_all())
    session.run(train, {x: images, y: labels})

Pure: it adds ops to the graph, by `kit.training.optimizers.minimizer`, and runs
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kit.graph.convert import tensor
from kit.graph.dtypes import name_of
from kit.graph.gradients import gradients
from kit.graph.graph import Graph
from kit.graph.op import Op
from kit.graph.variable import Variable
from kit.training.optimizers.minimizer import Minimizer, Pair, applicable


class Minimizes:
    """Lets an update rule train a graph. Its slots are kept with the graph."""

    def minimize(
        self,
        loss: Any,
        global_step: Variable | None = None,
        variables: Sequence[Variable] | None = None,
        *,
        grad_loss: Any = None,
        colocate: bool = True,
        name: str | None = None,
    ) -> Op:
        """Return an op that makes one step towards a smaller loss.

        It is `compute_gradients`, then `apply_gradients`, and raises what they raise;
        `ValueError` also when the loss depends on none of the variables.
        """
        pairs = compute_gradients(loss, variables, grad_loss, colocate=colocate)
        check_connected(loss, pairs)
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        variables: Sequence[Variable] | None = None,
        grad_loss: Any = None,
        *,
        colocate: bool = True,
    ) -> list[Pair]:
        """Return (gradient, variable) for each of `variables`; see `kit.gradients`.

        They are the trainable variables of the graph unless given; a gradient is None
        where the loss does not depend on one. Raises `ValueError` for a loss that is no
        floating point number, and when there are no variables.
        """
        return compute_gradients(loss, variables, grad_loss, colocate=colocate)

    def apply_gradients(
        self,
        pairs: Iterable[Pair],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Op:
        """Return an op that updates each variable with its gradient.

        Variables whose gradient is None are left out. Rows (`IndexedSlices`) of one
        index are summed first. An update and its slots change together, where the
        variable lives; `global_step` counts 1 after all updates.

        Raises `ValueError` when nothing is left to apply, or for another shape than the
        variable's, `TypeError` for what is no gradient of its dtype, and
        `NotImplementedError` for what is no variable.
        """
        checked = applicable(pairs)
        return self._in(checked[0][1].graph).apply(checked, global_step, name)

    def slot(self, variable: Variable, name: str) -> Variable | None:
        """Return the variable that it keeps beside another one, None if none."""
        found: Variable | None = self._in(variable.graph).slot(variable, name)
        return found

    def _in(self, graph: Graph) -> Minimizer:
        """Return what it keeps in a graph.

        Found by identity: optimizers with equal settings have slots of their own.
        """
        kept: dict[int, Minimizer] = graph.notes.setdefault("minimizers", {})
        if id(self) not in kept:
            kept[id(self)] = Minimizer(self)  # type: ignore[arg-type]  # a Rule
        return kept[id(self)]


def trainable(graph: Graph) -> list[Any]:
    """Return the variables of a graph that are there to be trained."""
    return [one for one in graph.variables if one.trainable]


def compute_gradients(
    loss: Any,
    variables: Sequence[Any] | None = None,
    grad_loss: Any = None,
    *,
    colocate: bool = True,
) -> list[Pair]:
    """Return (gradient, variable) pairs; see `Minimizes.compute_gradients`."""
    target = tensor(loss)
    if target.static.dtype.kind not in "fc":
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
    found = gradients(target, chosen, grad_loss, colocate=colocate)
    return list(zip(found, chosen, strict=True))


def check_connected(loss: Any, pairs: Sequence[Pair]) -> None:
    """Raise `ValueError` when no pair has a gradient."""
    if all(gradient is None for gradient, _ in pairs):
        names = ", ".join(repr(variable.name) for _, variable in pairs)
        raise ValueError(
            f"no gradient leads from the loss {loss!r} to any of {names}; compute the "
            f"loss from them by differentiable ops."
        )
