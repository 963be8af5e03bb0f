"""`tf.cond` and `tf.case`: of several branches only the one that is chosen runs.

What a branch takes from outside is computed in any case, as in the original; what is
made in it has effects only if it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.graph.op import IndexedSlices, Op
from kit.tf1.graph.graph import Graph
from kit.tf1.ops.nested import packed, parts, same_parts
from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import bool_


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """Return what `true_fn()` gives if `pred` is true, else what `false_fn()` gives.

    Both are called now, and add to the graph; a run computes one of them. They return
    tensors, operations, or equal structures of these. A list of one is that one unless
    `strict`. Raises `TypeError` for a Python bool and for what cannot be called,
    `ValueError` for branches without a result, and for results that differ in dtype or
    structure.
    """
    chosen = [true_fn if fn1 is None else fn1, false_fn if fn2 is None else fn2]
    for function, which in zip(chosen, ("true_fn", "false_fn"), strict=True):
        if not callable(function):
            raise TypeError(f"{which} must be callable.")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    with op_scope(name, "cond", [pred]):
        choice = convert_to_tensor(pred, bool_, name="pred")
        if choice.shape.ndims not in (None, 0):
            raise ValueError(f"pred is one bool, not of shape {choice.shape}.")
        choice = create("Identity", choice, name="pred_id")
        graph: Graph = choice.graph
        true, false = (
            _branch(graph, choice, which, item, strict)
            for which, item in zip((True, False), chosen, strict=True)
        )
        others = same_parts(true, false, "return types of true_fn and false_fn")
        pairs = zip(parts(true), others, strict=True)
        merged = [_merged(graph, choice, *pair) for pair in pairs]
        return packed(true, merged)


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return what the function of the first true predicate gives, else `default`'s.

    Raises in a run `InvalidArgumentError` if none is true and there is no default, or,
    with `exclusive`, if several are; `TypeError` for anything but pairs of a tensor of
    one bool and a function.
    """
    pairs = _pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    with op_scope(name, "case", [pred for pred, _ in pairs]):
        choices = [convert_to_tensor(pred, bool_) for pred, _ in pairs]
        graph: Graph = choices[0].graph
        if exclusive or default is None:
            options = {"needs_one": default is None, "at_most_one": bool(exclusive)}
            check = create("CheckCases", *choices, name="check", **options)
            with graph.control_dependencies([check]):
                choices = [
                    create("Identity", choice, name="pred") for choice in choices
                ]
        functions = [function for _, function in pairs]
        last = functions[-1] if default is None else default
        n = len(pairs) - (default is None)
        return _chain(choices[:n], functions[:n], last, strict)


def _chain(choices: Any, functions: Any, last: Any, strict: bool) -> Any:
    if not choices:
        # One branch, which is taken in any case.
        return cond(convert_to_tensor(True), last, last, strict)
    otherwise = last
    if len(choices) > 1:

        def otherwise() -> Any:
            return _chain(choices[1:], functions[1:], last, strict)

    return cond(choices[0], functions[0], otherwise, strict)


def _pairs(pairs: Any) -> list[tuple[Any, Any]]:
    if isinstance(pairs, Mapping):
        pairs = list(pairs.items())
    if not isinstance(pairs, list | tuple):
        raise TypeError("fns must be a list, tuple, or dict")
    if not pairs:
        raise ValueError("case needs at least one pair of a predicate and a function.")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple")
        if not callable(pair[1]):
            raise TypeError(f"fn for pred {pair[0]!r} must be callable.")
    return list(pairs)


def _branch(graph: Graph, choice: Any, which: bool, function: Any, strict: bool) -> Any:
    """Return the results of one branch, as tensors that exist only if it is taken."""
    begin = graph.version
    with graph.guarded((*graph.guards, (choice, which))):
        result = function()
        if result is None:
            raise ValueError(f"{str(which).lower()}_fn must have a return value.")
        if not strict and isinstance(result, list | tuple) and len(result) == 1:
            result = result[0]
        made = [_result(graph, choice, part) for part in parts(result)]
    for op in graph.ops[begin:]:
        if op.guards:
            graph.prevent_fetching(op)
    return packed(result, made)


def _result(graph: Graph, choice: Any, value: Any) -> Any:
    if value is None:
        raise ValueError("a branch returned None among its results.")
    if isinstance(value, Op):
        # An operation stands for the choice, known when the operation has run.
        with graph.control_dependencies([value]):
            return create("Identity", choice, name=None)
    if isinstance(value, IndexedSlices):
        shape = value.dense_shape
        return IndexedSlices(
            create("Identity", value.values, name=None),
            create("Identity", value.indices, name=None),
            None if shape is None else create("Identity", shape, name=None),
        )
    return create("Identity", convert_to_tensor(value), name=None)


def _merged(graph: Graph, choice: Any, true: Any, false: Any) -> Any:
    if isinstance(true, IndexedSlices) and isinstance(false, IndexedSlices):
        shape = None
        if true.dense_shape is not None and false.dense_shape is not None:
            shape = _merged(graph, choice, true.dense_shape, false.dense_shape)
        return IndexedSlices(
            _merged(graph, choice, true.values, false.values),
            _merged(graph, choice, true.indices, false.indices),
            shape,
        )
    true, false = convert_to_tensor(true), convert_to_tensor(false)
    if true.dtype.base_dtype != false.dtype.base_dtype:
        raise ValueError(
            f"Outputs of true_fn and false_fn must have the same type: "
            f"{true.dtype.name}, {false.dtype.name}"
        )
    return create("Merge", choice, true, false, name="Merge")
