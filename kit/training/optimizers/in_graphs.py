"""What an optimizer does in a graph; loaded late, because trainings do without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kit.features import load

if TYPE_CHECKING:
    from kit.graph.graph import Graph
    from kit.graph.op import Op
    from kit.graph.variable import Variable
    from kit.training.optimizers.minimize import Pair

_GRAPH: Final = "kit.training.optimizers.minimize"


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
        pairs = self.compute_gradients(loss, variables, grad_loss, colocate=colocate)
        load(f"{_GRAPH}:check_connected")(loss, pairs)
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
        where the loss does not depend on one. Raises `ValueError` when the loss is not
        floating point, and when there are no variables.
        """
        computed = load(f"{_GRAPH}:compute_gradients")
        pairs: list[Pair] = computed(loss, variables, grad_loss, colocate=colocate)
        return pairs

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
        variable's, `TypeError` for anything that is not a gradient of its dtype, and
        `NotImplementedError` for anything that is not a variable.
        """
        checked = load(f"{_GRAPH}:applicable")(pairs)
        op: Op = self._in(checked[0][1].graph).apply(checked, global_step, name)
        return op

    def slot(self, variable: Variable, name: str) -> Variable | None:
        """Return the variable that it keeps beside another one, None if none."""
        variable_slot: Variable | None = self._in(variable.graph).slot(variable, name)
        return variable_slot

    def _in(self, graph: Graph) -> Any:
        return load(f"{_GRAPH}:minimizer_of")(self, graph)
