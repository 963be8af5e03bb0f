"""From a loss that is a tensor to what `kit.train` needs: step, parameters and data.

The variables that the loss depends on become the parameters. Their initial values are
computed here, once, or read from a session that holds trained ones. Everything else of
the graph must be free of state, because a worker computes it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kit.errors import InvalidArgumentError, NotFoundError
from kit.graph.array_protocol import tensor_of
from kit.graph.dtypes import Array, name_of
from kit.graph.gradients import dense
from kit.graph.graph import Graph
from kit.graph.node import Edge, Node, node_of, to_plain
from kit.graph.op import IndexedSlices, Op, Tensor
from kit.graph.ops.state.function import function_of
from kit.graph.static import agrees, known_shape, text
from kit.graph.subgraph import tokens_in
from kit.graph.table import lookup
from kit.session.client.session import Session
from kit.session.master.partition import prune
from kit.training.core.job import Work
from kit.training.features.graph_step.step import (
    Feed,
    Goal,
    GraphStep,
    compute,
    is_random,
    seeded,
)
from kit.training.optimizers.minimize import check_connected, compute_gradients


class _Learned(NamedTuple):
    """A variable and the gradient of the loss by it."""

    variable: Any
    gradient: Tensor


def work_of(loss: Any, data: Any, session: Any = None, seed: int = 0) -> Work:
    """Return what the workers do to train the variables that `loss` depends on.

    `data` maps placeholders to arrays or dask arrays, one row an example; or one tuple
    of placeholders to mini-batches in any form that `kit.train` takes. Data stand at
    their placeholders, as a run's feeds do, so nobody keeps two lists in one order.

    Raises `InvalidArgumentError` for what cannot be compiled into a local function,
    naming the op, and for data that do not fit the placeholders; `ValueError` for a
    loss that depends on no trainable variable.
    """
    target: Tensor = tensor_of(loss)
    if target.static.shape not in (None, ()):
        raise InvalidArgumentError(
            f"the loss {target!r} is not a single number; take its mean over the "
            f"examples."
        )
    learned = _learned(target)
    feeds, columns = _feeds(target.graph, data)
    nodes = _compilable(target, learned, feeds)
    plain, arrays = to_plain(nodes)
    step = GraphStep(
        plain,
        arrays,
        tuple(
            Feed(_edge(feed), name_of(feed.static.dtype), feed.static.shape)
            for feed in feeds
        ),
        tuple(_goal(learned_variable) for learned_variable in learned),
        _edge(target),
        _functions(nodes),
    )
    return Work(step, columns, _values(learned, session, seed))


def _learned(loss: Tensor) -> list[_Learned]:
    """Return the variables in the order in which they were made.

    The gradients' ops are added to the graph once for each loss.
    """
    kept: dict[Tensor, list[_Learned]] = loss.graph.notes.setdefault("learned", {})
    if loss not in kept:
        with loss.graph.as_default(), loss.graph.control_dependencies(None):
            pairs = compute_gradients(loss)
            check_connected(loss, pairs)
            kept[loss] = [
                _Learned(
                    variable, dense(grad) if isinstance(grad, IndexedSlices) else grad
                )
                for grad, variable in pairs
                if grad is not None
            ]
    return kept[loss]


def _feeds(graph: Graph, data: Any) -> tuple[list[Tensor], Any]:
    """Return the placeholders, and the data in a form without them."""
    if not isinstance(data, Mapping) or not data:
        raise InvalidArgumentError(
            f"the data of a loss are {type(data).__name__}; give a dict from each "
            f"placeholder to its array, {{x: images, y: labels}}, or from all of them "
            f"to mini-batches, {{(x, y): batches}}."
        )
    if len(data) == 1 and isinstance(next(iter(data)), tuple):
        ((keys, arrays),) = data.items()
        return [_placeholder(graph, key) for key in keys], arrays
    for key, value in data.items():
        if not hasattr(value, "shape"):
            raise InvalidArgumentError(
                f"the data of {key!r} are {type(value).__name__}; give an array for "
                f"each placeholder, or mini-batches for all: {{(x, y): batches}}."
            )
    placeholders = [_placeholder(graph, key) for key in data]
    for placeholder, value in zip(placeholders, data.values(), strict=True):
        _check_rows(placeholder, value)
    return placeholders, tuple(data.values())


def _placeholder(graph: Graph, key: Any) -> Tensor:
    if isinstance(key, Tensor) and key.graph is graph:
        return key
    raise InvalidArgumentError(
        f"the data name {key!r}, which is not a tensor of the loss's graph; the keys "
        f"are placeholders."
    )


def _check_rows(placeholder: Tensor, value: Any) -> None:
    shape = placeholder.static.shape
    if shape is None:
        return
    sizes = tuple(value.shape)
    if not agrees(shape, (None, *sizes[1:]) if sizes else ()):
        raise InvalidArgumentError(
            f"the placeholder {placeholder.name!r} has the shape {text(shape)}, but "
            f"its data have {text(sizes)}, whose first axis is the examples."
        )


def _compilable(
    loss: Tensor, learned: Sequence[_Learned], feeds: Sequence[Tensor]
) -> list[Node]:
    """Return what must run, in running order; raises for state besides parameters."""
    fed = [_edge(feed) for feed in feeds] + [
        _edge(item.variable.ref) for item in learned
    ]
    goals = [_edge(item.gradient) for item in learned] + [_edge(loss)]
    nodes = _pruned(loss.graph, goals, fed)
    refused = [node for node in nodes if _has_state(node)]
    if refused:
        # An op that changes a variable says more about the mistake than the variable.
        refused.sort(key=lambda node: node.type == "VariableV2")
        raise InvalidArgumentError(_refusal(refused[0]))
    return nodes


def _has_state(node: Node) -> bool:
    is_free = is_random(node) or node.type == "PyFunc"
    return lookup(node.type).stateful and not is_free


def _functions(nodes: Sequence[Node]) -> dict[str, Callable[..., Any]]:
    """Return the user's functions that the nodes call, as far as they are here."""
    tokens = [token for node in nodes for token in tokens_in(node.attrs)]
    functions_of = {token: function_of(token) for token in tokens}
    return {
        token: function
        for token, function in functions_of.items()
        if function is not None
    }


def _pruned(
    graph: Graph, goals: Sequence[Edge], fed: Iterable[Edge] = ()
) -> list[Node]:
    done = {edge[0] for edge in fed}
    nodes = {
        node.name: replace(node, control=tuple(set(node.control) - done))
        for node in map(node_of, graph.ops)
    }
    return prune(nodes, goals, (), list(fed))


def _refusal(node: Node) -> str:
    what = f"the loss needs op {node.name!r} ({node.type}"
    what += f", made at {node.source_line})" if node.source_line else ")"
    match node.type:
        case "Placeholder":
            return f"{what}, and the data have nothing for it; add it to the dict."
        case "VariableV2":
            return (
                f"{what}, a variable that this training does not train: the workers "
                f"cannot share it. Make it trainable, or a constant or a placeholder."
            )
    return (
        f"{what}, which has a state of its own: the workers compute the loss each by "
        f"itself and share the trained variables alone. Leave it out of the loss, or "
        f"train with minimize() in a session."
    )


def _goal(learned: _Learned) -> Goal:
    op: Op = learned.variable.op
    static = learned.variable.ref.static
    n_bytes = static.dtype.itemsize
    for size in known_shape(static.shape):
        n_bytes *= size
    return Goal(op.name, _edge(learned.variable.ref), _edge(learned.gradient), n_bytes)


def _values(learned: Sequence[_Learned], session: Any, seed: int) -> dict[str, Array]:
    """Return the values to begin with, by the variables' names."""
    names = [learned_variable.variable.op.name for learned_variable in learned]
    if session is not None:
        values = session.run([item.variable.ref for item in learned])
    else:
        goals = [_edge(item.variable.initial_value) for item in learned]
        nodes = _pruned(learned[0].variable.graph, goals)
        for node in nodes:
            if _has_state(node):
                raise InvalidArgumentError(
                    f"an initial value needs op {node.name!r} ({node.type}), which has "
                    f"a state of its own; initialise in a session, and give session=."
                )
        values = compute(seeded(nodes, seed), {}, goals)
    return dict(zip(names, values, strict=True))


def _edge(tensor: Tensor) -> Edge:
    return tensor.op.name, tensor.index


def load_variables(session: Session, values: Mapping[str, Any]) -> None:
    """Set variables of the session's graph, by name, for example from `run.params`.

    Variables that are not named keep their values, and nothing is added to the graph.
    Costs one run, and one transfer for each task that holds some.

    Parameters
    ----------
    session : Session
        Sets the variables.
    values : dict of str to array-like
        By the name of the variable, "w" or "w:0".

    Raises
    ------
    NotFoundError
        The graph has no variable of this name. Nothing has been set.
    ValueError
        A value has another shape than its variable.
    """
    variable_of = {variable.op.name: variable for variable in session.graph.variables}
    names = {name: name.removesuffix(":0") for name in values}
    missing = [name for name, own in names.items() if own not in variable_of]
    if missing:
        raise NotFoundError(
            f"the graph has no variable {missing[0]!r}; its variables are "
            f"{', '.join(variable_of) or 'none'}."
        )
    left = {variable_of[own]: values[name] for name, own in names.items()}
    while left:
        # A variable is set by feeding its initial value and running its initializer, so
        # two that begin with the same tensor need two runs.
        by_initial = {variable.initial_value: variable for variable in reversed(left)}
        feeds = {initial: left.pop(var) for initial, var in by_initial.items()}
        session.run([variable.initializer for variable in by_initial.values()], feeds)
