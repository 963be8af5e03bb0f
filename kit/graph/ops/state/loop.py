"""A loop as one op: functions of the graph that its task calls until one says no.

The gradient is a second op. It runs the loop again, keeps what the variables were
before each iteration, and goes back through these:

    While            v0 -> body -> v1 -> body -> v2
    WhileGradient    d0 <- back <- d1 <- back <- d2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.convert import make, make_op
from kit.graph.gradients import dense, gradients
from kit.graph.op import Op, Tensor
from kit.graph.static import Static
from kit.graph.subgraph import function_from
from kit.graph.table import Attrs, enter, missing

_FLOATS = "fc"


def _infer(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    pairs = zip(attrs["shapes"], attrs["dtypes"], strict=True)
    return [Static(shape, dtype) for shape, dtype in pairs]


def _programs(call: Any, attrs: Attrs) -> Any:
    names = [name for name in ("condition", "body", "back") if name in attrs]
    return call.own(lambda: [call.program(attrs[name]) for name in names])


def _passes(call: Any, inputs: Sequence[Any], attrs: Attrs) -> Any:
    """Yield what the variables are, before each iteration and after the last."""
    goes_on, body = _programs(call, attrs)[:2]
    n, n_first = len(attrs["dtypes"]), attrs["n_first"]
    variables = list(inputs[:n])
    outside = [inputs[n : n + n_first], inputs[n + n_first :]]
    yield variables
    while bool(goes_on.run(call.step, [*variables, *outside[0]])[0]):
        call.step.check("the end of a loop")
        variables = body.run(call.step, [*variables, *outside[1]])
        yield variables


def _loop(call: Any, *inputs: Any, **attrs: Any) -> Any:
    variables: list[Any] = []
    for current in _passes(call, inputs, attrs):
        variables = current
    return tuple(variables) if len(variables) != 1 else variables[0]


def _gradient(op: Op, gradients_in: Sequence[Tensor | None]) -> Sequence[Any]:
    attrs, n = op.attrs, len(op.attrs["dtypes"])
    if not attrs["back_prop"]:
        return [None] * len(op.inputs)
    _check_repeatable(op, op)
    tensors = {
        key: [op.graph.tensor(f"{name}:{i}") for name, i in attrs["body"][key]]
        for key in ("feeds", "fetches")
    }
    starts, ends = tensors["feeds"], tensors["fetches"]
    floats = [i for i in range(n) if kind_of(ends[i].static.dtype) in _FLOATS]
    wanted = [
        i for i, start in enumerate(starts) if kind_of(start.static.dtype) in _FLOATS
    ]
    begin = op.graph.version
    with op.graph.guarded(()):
        weights = [
            make(
                "Placeholder",
                name="weight",
                dtype=ends[i].static.dtype,
                shape=ends[i].static.shape,
            )
            for i in floats
        ]
        made_gradients = gradients(
            [ends[i] for i in floats],
            [starts[i] for i in wanted],
            weights,
            colocate=False,
            stop_gradients=starts,
            unconnected="zero",
        )
        back, outside = function_from(
            min(begin, attrs["begin"]),
            [*starts, *weights],
            [dense(gradient) for gradient in made_gradients],
        )
    assert not outside, "the gradient of a body needs what the body needs"
    seeds: list[Any] = [
        make("ZerosLike", op.outputs[i]) if gradients_in[i] is None else gradients_in[i]
        for i in floats
    ]
    made = make_op(
        "WhileGradient",
        *op.inputs,
        *seeds,
        **{
            **attrs,
            **{"back": back, "floats": tuple(floats), "wanted": tuple(wanted)},
            **{"tokens": [*attrs["tokens"], *back["tokens"]], "of": op.name},
        },
    )
    # What the body takes from outside stands last among the inputs, after that of the
    # condition, through which no gradient goes.
    results: list[Any] = [None] * len(op.inputs)
    for i, output in zip(wanted, made.outputs, strict=True):
        results[i if i < n else i + attrs["n_first"]] = output
    return results


def _check_repeatable(loop: Op, op: Op) -> None:
    """Raise `LookupError` for a loop that would not do the same when it runs again."""
    for part in ("condition", "body"):
        for name, *_ in op.attrs[part]["nodes"]:
            inner = op.graph.op(name)
            if inner.op_def.name == "While":
                _check_repeatable(loop, inner)
            elif inner.op_def.stateful:
                raise LookupError(
                    f"the loop {loop.name!r} has no gradient, for which it runs again: "
                    f"{inner.name!r} ({inner.op_def.name}) in it need not give the "
                    f"same then. Compute that before the loop, or write the loop in "
                    f"Python."
                )


def _infer_gradient(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    n, n_first = len(attrs["dtypes"]), attrs["n_first"]
    places = [i if i < n else i + n_first for i in attrs["wanted"]]
    return [Static(inputs[i].shape, inputs[i].dtype) for i in places]


def _loop_back(call: Any, *inputs: Any, **attrs: Any) -> Any:
    floats, wanted = attrs["floats"], attrs["wanted"]
    n, n_first, end = len(attrs["dtypes"]), attrs["n_first"], len(inputs) - len(floats)
    seeds, outside = list(inputs[end:]), inputs[n + n_first : end]
    *before, _ = _passes(call, inputs[:end], attrs)
    back = _programs(call, attrs)[2]
    of_variables = dict(zip(floats, seeds, strict=True))
    sums: dict[int, Any] = {}
    for variables in reversed(before):
        call.step.check("the gradient of a loop")
        weights = [of_variables[i] for i in floats]
        back_values = back.run(call.step, [*variables, *outside, *weights])
        for i, value in zip(wanted, back_values, strict=True):
            if i < n:
                of_variables[i] = value
            else:
                sums[i] = value if i not in sums else sums[i] + value
    made = [
        of_variables[i]
        if i < n
        else sums.get(i, np.zeros_like(np.asarray(inputs[i + n_first])))
        for i in wanted
    ]
    return tuple(made) if len(made) != 1 else made[0]


def _infer_row(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [inputs[0]]


def _with_row(_: Any, rows: Any, row: Any, number: Any) -> Any:
    # The rows are this loop's own from its first iteration on, so they are changed in
    # place: a copy each time would take memory as the square of their number.
    made = rows.copy() if int(number) == 0 else rows
    made[int(number)] = row
    return made


def _row_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    # Earlier iterations read other rows, so this one need not be emptied for them.
    (gradient,) = gradients
    return [gradient, make("GatherV2", dense(gradient), op.inputs[2], axis=0), None]


# Of a loop's variable that collects a row an iteration, numbered 0, 1, 2 ...
enter("WithRow", _infer_row, _with_row, _row_gradient, hosted=True)
enter(
    "While",
    _infer,
    _loop,
    _gradient,
    stateful=True,
    hosted=True,
    n_outputs=lambda attrs: len(attrs["dtypes"]),
)
enter(
    "WhileGradient",
    _infer_gradient,
    _loop_back,
    missing,
    stateful=True,
    hosted=True,
    n_outputs=lambda attrs: len(attrs["wanted"]),
)
