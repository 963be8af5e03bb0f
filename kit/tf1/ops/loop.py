"""`tf.while_loop`: a loop whose end is known only in a run, as one operation.

Condition and body are functions of the graph (`kit.graph.subgraph`), computed on the
task of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.graph.static import agrees
from kit.graph.subgraph import function_from
from kit.tf1.graph.graph import Graph
from kit.tf1.ops.arithmetic import add, less, logical_and
from kit.tf1.ops.nested import packed, parts, same_parts
from kit.tf1.tensor.convert import convert_to_tensor, create_op, op_scope
from kit.tf1.tensor.dtypes import bool_, int32
from kit.tf1.tensor.shape import static_of


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Return what `loop_vars` are after `body` was applied while `cond` was true.

    Both are called once, with tensors, and add to the graph. Iterations run one after
    the other. A list of one variable gives that one, unless `return_same_structure`.
    Raises `TypeError` for what cannot be called and for another dtype or structure than
    that of the variables, `ValueError` for a shape that changes without a
    `shape_invariants`, `NotImplementedError` for a body that assigns a variable.
    """
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if not parts(loop_vars):
        raise ValueError("No loop variables provided")
    with op_scope(name, "while", parts(loop_vars)) as scope:
        tensors = [convert_to_tensor(part) for part in parts(loop_vars)]
        shapes = [tensor.static.shape for tensor in tensors]
        if shape_invariants is not None:
            shapes = _invariants(loop_vars, shape_invariants, tensors)
        form = loop_vars
        if maximum_iterations is not None:
            most = convert_to_tensor(maximum_iterations, int32)
            cond, body, form = _counted(cond, body, loop_vars, most)
            tensors, shapes = [convert_to_tensor(0), *tensors], [(), *shapes]
        op = _loop(cond, body, form, tensors, shapes, back_prop, scope)
        outputs = op.outputs[1:] if form is not loop_vars else op.outputs
    result = packed(loop_vars, list(outputs))
    is_one = isinstance(result, list | tuple) and len(result) == 1
    return result[0] if is_one and not return_same_structure else result


def _loop(
    cond: Any,
    body: Any,
    form: Any,
    tensors: list[Any],
    shapes: list[Any],
    back_prop: bool,
    scope: str,
) -> Any:
    graph: Graph = tensors[0].graph
    begin = graph.version
    with graph.control_dependencies(None), graph.device(None):
        inputs = [
            create_op(
                "Placeholder", name="variable", dtype=tensor.static.dtype, shape=shape
            ).outputs[0]
            for tensor, shape in zip(tensors, shapes, strict=True)
        ]
        arguments = packed(form, inputs)
        spread = arguments if isinstance(arguments, list | tuple) else [arguments]
        choice = convert_to_tensor(cond(*spread), bool_)
        made = body(*spread)
        if not isinstance(made, list | tuple) and len(inputs) == 1:
            made = packed(form, parts(made))
        what = "structures of loop_vars and what the body returns"
        after = [
            convert_to_tensor(part)
            for part in same_parts(_listed(form), _listed(made), what)
        ]
    _check(inputs, after, tensors)
    goes_on, first = function_from(begin, inputs, [choice])
    function, second = function_from(begin, inputs, after)
    for op in graph.ops[begin:]:
        graph.prevent_fetching(op)
    return create_op(
        "While",
        *tensors,
        *first,
        *second,
        name=scope,
        condition=goes_on,
        body=function,
        n_first=len(first),
        dtypes=tuple(tensor.static.dtype for tensor in inputs),
        shapes=tuple(shapes),
        back_prop=bool(back_prop),
        begin=begin,
        tokens=[*goes_on["tokens"], *function["tokens"]],
    )


def _listed(form: Any) -> Any:
    """Return a structure with a list at its top, since a body may return either."""
    return list(form) if isinstance(form, list | tuple) else [form]


def _check(inputs: list[Any], after: list[Any], first_tensors: list[Any]) -> None:
    for before, other, first in zip(inputs, after, first_tensors, strict=True):
        if before.dtype.base_dtype != other.dtype.base_dtype:
            raise TypeError(
                f"the loop variable {first.name!r} is {before.dtype.name}, and the "
                f"body returns {other.dtype.name} for it; cast one."
            )
        is_wider = before.shape.ndims is not None and (
            other.shape.ndims is None
            or len(before.static.shape) != len(other.static.shape)
            or any(
                mine is not None and mine != its
                for mine, its in zip(
                    before.static.shape, other.static.shape, strict=True
                )
            )
        )
        if is_wider:
            raise ValueError(
                f"The shape for {first.name} is not an invariant for the loop. It "
                f"enters the loop with shape {before.shape}, but has shape "
                f"{other.shape} after one iteration. Provide shape invariants using "
                f"either the `shape_invariants` argument of tf.while_loop or "
                f"set_shape() on the loop variables."
            )


def _invariants(form: Any, wanted: Any, tensors: list[Any]) -> list[Any]:
    # A TensorShape is a part, though it can be taken apart; None and lists are not.
    wanted_parts = same_parts(
        form, wanted, "structures of loop_vars and shape_invariants"
    )
    shapes = [static_of(part) for part in wanted_parts]
    for tensor, shape in zip(tensors, shapes, strict=True):
        if not agrees(shape, tensor.static.shape):
            raise ValueError(
                f"The shape invariant specified for {tensor.name} is not compatible "
                f"with the initial shape of the loop variable. It enters the loop with "
                f"shape {tensor.shape}, but the specified shape invariant is {shape}."
            )
    return shapes


def _counted(cond: Any, body: Any, form: Any, most: Any) -> tuple[Any, Any, Any]:
    """Return the loop with a counter before its variables."""

    def spread(nest: Any) -> Any:
        return nest if isinstance(nest, list | tuple) else [nest]

    def goes_on(count: Any, variables: Any) -> Any:
        return logical_and(less(count, most), cond(*spread(variables)))

    def next_of(count: Any, variables: Any) -> Any:
        made = body(*spread(variables))
        if not isinstance(made, list | tuple) and isinstance(form, list | tuple):
            made = type(form)([made]) if not hasattr(form, "_fields") else made
        return [add(count, 1), made]

    return goes_on, next_of, [0, form]
