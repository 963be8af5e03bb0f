"""Every entry of the table of ops against plain numpy: values, shapes, slopes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kit.graph.ops
from kit.graph.default import default_graph
from kit.graph.gradients import dense, gradients
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.ops.math.arithmetic import add_n, multiply
from kit.graph.ops.math.reduce import reduce_sum
from kit.graph.ops.state.source import placeholder
from kit.graph.static import agrees
from kit.graph.table import TABLE, missing
from kit.session.client.session import Session
from tests.cases import for_each
from tests.graph.cases.case import (
    Case,
    Host,
    all_cases,
    evaluate,
    in_a_new_graph,
    listed,
    numbers,
)
from tests.graph.kernels.slopes import host, slopes

CASES = all_cases()
SLOPED = [case for case in CASES if case.has_slope]

# Entries that are tried elsewhere: they need a session, a variable or an error.
ELSEWHERE = {"Const", "Placeholder", "Identity", "StopGradient", "NoOp"}
ELSEWHERE |= {"Merge", "ZerosUnlessRun"}  # which need a branch that was not taken
ELSEWHERE |= {"IdentityN"}  # a gradient of one's own, as tests/tf1/cases/composed_names
ELSEWHERE |= {"AlongAxis"}  # of another op: tests/tf1/cases/ops_shapes.py
ELSEWHERE |= {"WithRow"}  # a network of any length, in tests/tf1/test_rnn.py
STRINGS = {"AsString", "ShardedFilename", "StringJoin"}
# Tried in tests/graph/test_examples.py and as tests/tf1/cases/record_files.py.
STRINGS |= {"DecodeCSV", "DecodeRaw", "ParseExample"}
# Tried as tests/tf1/cases/images.py.
STRINGS |= {"DecodeImage", "DrawBoundingBoxesV2", "SampleDistortedBoundingBoxV2"}
# Tried in tests/tf1/test_summary.py, by what TensorBoard reads.
SUMMARIES = {"HistogramSummary", "ImageSummary", "MergeSummary", "ScalarSummary"}
SUMMARIES |= {"TensorSummaryV2"}


def name_of(case: Case) -> str:
    return f"{case.op}-{'-'.join(str(list(array.shape)) for array in case.arrays)}"


def placeholders(case: Case, *, has_shape: bool = True) -> list[Tensor]:
    """Return a placeholder for each input, with all sizes or with none."""
    return [
        placeholder(array.dtype, array.shape if has_shape else (None,) * array.ndim)
        for array in case.arrays
    ]


@for_each("case", CASES, name_of)
@in_a_new_graph()
def test_an_op_gives_what_plain_numpy_gives_in_a_shape_that_was_known(
    case: Case,
) -> None:
    xs = placeholders(case)
    results = listed(case.build(*xs))
    expected = listed(case.expect(*case.arrays))

    with Session() as session:
        outputs = session.run(results, dict(zip(xs, case.arrays, strict=True)))

    assert case.op in {op.type for op in default_graph().ops}
    for value, wanted, result in zip(outputs, expected, results, strict=True):
        assert value.dtype == np.asarray(wanted).dtype == result.static.dtype
        assert np.shape(value) == np.shape(wanted)
        assert agrees(result.static.shape, np.shape(value))
        assert case.is_dynamic or result.static.shape == np.shape(value)
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)


@for_each("case", CASES, name_of)
@in_a_new_graph()
def test_unknown_sizes_change_nothing_in_a_value(case: Case) -> None:
    xs = placeholders(case, has_shape=False)
    results = listed(case.build(*xs))
    expected = listed(case.expect(*case.arrays))

    outputs = evaluate(np, results, dict(zip(xs, case.arrays, strict=True)))

    for value, wanted, result in zip(outputs, expected, results, strict=True):
        assert agrees(result.static.shape, np.shape(value))
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)


def weights_of(case: Case) -> list[Host]:
    """Return a weight for each number of the result, to make one number of all."""
    expected = listed(case.expect(*case.arrays))
    return [numbers(50 + i, *np.shape(item)) for i, item in enumerate(expected)]


def slopes_of(case: Case, number: int) -> Host:
    """Return the slopes of the weighted result by one input, by finite differences."""
    weights = weights_of(case)

    def weighted(x: Host) -> float:
        arrays = [*case.arrays[:number], x, *case.arrays[number + 1 :]]
        results = listed(case.expect(*arrays))
        return float(
            sum((w * item).sum() for w, item in zip(weights, results, strict=True))
        )

    return slopes(weighted, case.arrays[number])


def gradients_of(case: Case, xs: list[Tensor]) -> list[Any]:
    results = listed(case.build(*xs))
    weighted = [
        reduce_sum(multiply(item, w))
        for item, w in zip(results, weights_of(case), strict=True)
    ]
    return gradients(add_n(weighted), xs)


@pytest.mark.slow
@pytest.mark.parametrize("has_shape", [True, False], ids=["known", "unknown"])
@for_each("case", SLOPED, name_of)
@in_a_new_graph()
def test_a_gradient_is_the_slope(case: Case, has_shape: bool) -> None:
    xs = placeholders(case, has_shape=has_shape)
    result = gradients_of(case, xs)
    feeds = dict(zip(xs, case.arrays, strict=True))

    for i, (x, gradient) in enumerate(zip(xs, result, strict=True)):
        if x.static.dtype.kind != "f":
            assert gradient is None
        elif gradient is None:
            assert not slopes_of(case, i).any()
        else:
            assert agrees(dense(gradient).static.shape, case.arrays[i].shape)
            (value,) = evaluate(np, [dense(gradient)], feeds)
            np.testing.assert_allclose(value, slopes_of(case, i), rtol=2e-6, atol=2e-8)


@pytest.mark.gpu
def test_every_op_runs_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")

    for case in CASES:
        with Graph().as_default():
            compare_modules(case, cupy)


def compare_modules(case: Case, xp: ModuleType) -> None:
    """Compare values and gradients of numpy's with those of another array module."""
    xs = placeholders(case)
    results = listed(case.build(*xs))
    if case.has_slope:
        result = [item for item in gradients_of(case, xs) if item is not None]
        results += [dense(item) for item in result]
    feeds = dict(zip(xs, case.arrays, strict=True))

    mine, theirs = evaluate(np, results, feeds), evaluate(xp, results, feeds)

    for value, other in zip(mine, theirs, strict=True):
        assert isinstance(other, xp.ndarray)
        assert value.dtype == other.dtype
        np.testing.assert_allclose(host(other), value, rtol=1e-12, atol=1e-12)


def test_every_entry_has_a_case() -> None:
    tried = {case.op for case in CASES} | ELSEWHERE | STRINGS | SUMMARIES
    pure = {name for name, entry in TABLE.items() if not entry.stateful}

    assert pure <= tried


def test_every_gradient_has_a_case() -> None:
    tried = {case.op for case in SLOPED} | ELSEWHERE
    sloped = {
        name
        for name, entry in TABLE.items()
        if entry.gradient not in (None, missing) and not entry.stateful
    }

    assert sloped <= tried


def test_importing_the_ops_fills_the_table() -> None:
    assert kit.graph.ops is not None
    assert {"MatMul", "ConcatV2", "ScatterAdd", "VariableV2"} <= set(TABLE)
