"""What the builders of networks take and refuse, beside the values in `cases`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit import nn
from kit.errors import InvalidArgumentError
from kit.graph.gradients import dense, gradients
from kit.graph.op import Tensor
from kit.graph.ops.state.source import constant, placeholder
from kit.session.client.session import Session
from tests.cases import for_each
from tests.graph.cases.case import Host
from tests.graph.kernels.sliding import Slide, naive_max_gradient

TABLE = np.arange(22.0).reshape(11, 2)
IDS = np.array([[10, 0, 3], [7, 3, 1]])


def run(fetches: Any, feeds: Any = None) -> Any:
    with Session() as session:
        return session.run(fetches, feeds)


WIDE: dict[str, Callable[[Any], Any]] = {
    name: getattr(nn, name)
    for name in ("elu", "leaky_relu", "sigmoid", "softplus", "softmax", "l2_loss")
}


@for_each("function", WIDE.values(), ids=WIDE)
def test_whole_numbers_become_floats_as_in_numpy(function: Callable[..., Any]) -> None:
    assert function(np.array([1, 2])).dtype == np.exp(np.array([1, 2])).dtype
    assert function(constant([1.0, 2.0])).dtype == np.float32


def test_relu_keeps_whole_numbers_whole() -> None:
    assert nn.relu(np.array([-1, 2])).dtype == np.int64
    assert run(nn.relu6(np.array([-1, 2, 9]))).tolist() == [0, 2, 6]


HALF: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(nn, name) for name in ("relu", "relu6", "log_softmax")},
    **WIDE,
    "bias_add": lambda x: nn.bias_add(x, np.zeros(3, np.float16)),
    "sigmoid_cross_entropy": lambda x: nn.sigmoid_cross_entropy(x, x),
    "softmax_cross_entropy": lambda x: nn.softmax_cross_entropy(x, x),
    "sparse_softmax_cross_entropy": lambda x: nn.sparse_softmax_cross_entropy(
        [0, 2], x
    ),
    "dropout": lambda x: nn.dropout(x, 0.5),
}


@for_each("function", HALF.values(), ids=HALF)
def test_half_precision_stays_half_in_values_and_gradients(
    function: Callable[[Any], Any],
) -> None:
    x = constant(np.array([[0.5, -1.0, 2.0], [3.0, 0.25, -2.0]], np.float16))
    y = function(x)

    value, slope = run([y, gradients(y, x)[0]])

    assert value.dtype == slope.dtype == np.float16
    assert slope.shape == (2, 3)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()


def test_loss_and_gradient_come_from_one_op() -> None:
    logits = placeholder("float32", (None, 10))
    labels = placeholder("int64", (None,))

    gradients(nn.sparse_softmax_cross_entropy(labels, logits), logits)

    types = [op.type for op in logits.graph.ops]
    assert types.count("SparseSoftmaxCrossEntropyWithLogits") == 1
    assert not {"Softmax", "LogSoftmax", "Exp"} & set(types)


def test_label_that_is_no_class_is_named_in_a_run() -> None:
    labels = placeholder("int32", (None,))
    loss = nn.sparse_softmax_cross_entropy(labels, np.zeros((2, 3)))

    with pytest.raises(InvalidArgumentError, match=r"labels\[1\] = 3 .*\[0, 3\)"):
        run(loss, {labels: [0, 3]})


def test_classes_may_be_on_any_axis_that_is_known() -> None:
    logits = np.log([[0.25, 0.5], [0.75, 0.5]])

    result = run(nn.softmax_cross_entropy([[1.0, 0.0], [0.0, 1.0]], logits, axis=0))

    assert result == pytest.approx(-np.log([0.25, 0.5]))
    with pytest.raises(ValueError, match="set_shape"):
        nn.softmax_cross_entropy(placeholder("float32"), [[1.0]], axis=0)


# What a refusal says, and the line that is refused.
WRONG_KINDS: dict[str, Callable[[], Any]] = {
    "string": lambda: nn.relu(["a"]),
    "complex64": lambda: nn.softplus(np.complex64(1)),
    "softmax_cross_entropy": lambda: nn.sparse_softmax_cross_entropy(
        [0.5], [[1.0, 2.0]]
    ),
    "int64": lambda: nn.conv2d(np.ones((1, 4, 4, 1), int), np.ones((2, 2, 1, 1), int)),
    "whole": lambda: nn.dropout([1], 0.5),
    "ids": lambda: nn.embedding_lookup(TABLE, [0.5]),
}
WRONG_VALUES: dict[str, Callable[[], Any]] = {
    "axis": lambda: nn.softmax(1.0),
    "axis is 2": lambda: nn.softmax([[1.0]], axis=2),
    "3 is not 2": lambda: nn.softmax_cross_entropy([[1.0, 0.0]], [[1.0, 2.0, 3.0]]),
    "axes": lambda: nn.sparse_softmax_cross_entropy([[0, 1]], [[1.0, 2.0]]),
    r"not the shape \[1, 2\]": lambda: nn.bias_add([[1.0, 2.0]], [[1.0, 2.0]]),
    "bias of 1 ": lambda: nn.bias_add([[1.0, 2.0]], [1.0]),
    "two axes": lambda: nn.bias_add([1.0, 2.0], [1.0, 2.0]),
    "1.0": lambda: nn.dropout([1.0], 1.0),
    "table": lambda: nn.embedding_lookup([], [0]),
    "mod, div": lambda: nn.embedding_lookup([TABLE, TABLE], [0], strategy="by chance"),
}


@for_each(
    ("kind", "words", "line"),
    [
        *((TypeError, *item) for item in WRONG_KINDS.items()),
        *((ValueError, *item) for item in WRONG_VALUES.items()),
    ],
)
def test_line_that_cannot_be_is_refused_when_it_is_written(
    kind: type[Exception], words: str, line: Callable[[], Any]
) -> None:
    with pytest.raises(kind, match=words):
        line()


def test_sizes_of_windows_are_one_two_or_four_numbers() -> None:
    images = np.arange(16.0).reshape(1, 4, 4, 1)

    pools = [nn.max_pool(images, size) for size in (2, (2, 2), (1, 2, 2, 1))]

    for value in run(pools):
        assert value.ravel().tolist() == [5, 7, 13, 15]
    assert run(nn.max_pool(images, 2, strides=(1, 2))).shape == (1, 3, 2, 1)


@for_each("stride", [1, 2])
def test_slope_of_a_pooled_relu_is_taken_for_each_window(stride: int) -> None:
    slide = Slide(2, (5, 4), 3, (2, 2), (stride, stride), "SAME", seed=8)
    x = constant(slide.normal(*slide.shape) - 0.7)  # some windows have nothing above 0
    y = nn.relu(x)
    pooled = nn.max_pool(y, 2, stride, "SAME")
    dy = slide.normal(2, *slide.counts, 3)

    (by_pool,) = gradients(pooled, x, dy)
    by_both = gradients([pooled, y], x, [dy, np.full(x.shape, 3.0)])

    kinds = [by_pool.op.type, by_pool.op.inputs[2].op.type, by_both[0].op.type]
    assert kinds == ["MaxPoolGrad", "ReluGrad", "ReluGrad"]
    values = np.maximum(run(x), 0)
    expected = naive_max_gradient(slide, values, dy) * (values > 0)
    for slope, rest in zip(run([by_pool, *by_both]), (0, 3), strict=True):
        np.testing.assert_allclose(slope, expected + rest * (values > 0), atol=1e-12)


def test_dropout_decides_anew_in_each_run_and_alike_for_value_and_gradient() -> None:
    x = constant(np.full(200, 3.0))
    y = nn.dropout(x, 0.5)
    (slope,) = gradients(y, x)

    with Session() as session:
        first, second = session.run([y, slope]), session.run([y, slope])

    assert np.array_equal(first[0], 3 * first[1])
    assert not np.array_equal(first[1], second[1])


def test_dropout_at_rate_0_is_its_input() -> None:
    x = constant([1.0])

    assert nn.dropout(x, 0.0) is x


def cut(table: Host, strategy: str, n: int) -> list[Host]:
    """Cut a table as the strategy says: by remainders, or in ranges."""
    if strategy == "mod":
        return [table[k::n] for k in range(n)]
    return np.array_split(table, n)


def split_by(strategy: str, n: int) -> list[Tensor]:
    return [constant(part) for part in cut(TABLE, strategy, n)]


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_gradients_of_parts_are_the_rows_that_were_used(strategy: str) -> None:
    parts = split_by(strategy, 3)
    weights = np.arange(12.0).reshape(2, 3, 2) + 1
    whole = np.zeros_like(TABLE)
    np.add.at(whole, IDS, weights)

    result = gradients(nn.embedding_lookup(parts, IDS, strategy) * weights, parts)

    values = run([dense(item) for item in result])
    for value, part in zip(values, cut(whole, strategy, 3), strict=True):
        assert np.array_equal(value, part)


def test_ids_and_parts_of_unknown_sizes_are_found_in_a_run() -> None:
    ids = placeholder("int64", (None, None))
    parts = [placeholder("float64", (None, 2)) for _ in range(2)]

    result = nn.embedding_lookup(parts, ids, "div")

    value = run(result, {ids: IDS, parts[0]: TABLE[:6], parts[1]: TABLE[6:]})
    assert np.array_equal(value, TABLE[IDS])


@for_each("bad", [-1, 11])
@for_each("strategy", ["mod", "div"])
@for_each("n", [1, 2])
def test_id_that_is_no_row_ends_a_run(bad: int, strategy: str, n: int) -> None:
    ids = placeholder("int32", (1,))
    result = nn.embedding_lookup(split_by(strategy, n), ids, strategy)

    with pytest.raises(InvalidArgumentError, match="is not in"):
        run(result, {ids: [bad]})


def test_each_function_of_kit_nn_is_called_what_it_is_exported_as() -> None:
    called = {name: getattr(nn, name).__name__ for name in nn.__all__}
    assert called == {name: name for name in nn.__all__}
