"""Gradients of whole expressions: sums of paths, weights, stops, rows, placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.graph.ops
from kit.graph.gradients import dense, gradients
from kit.graph.graph import Graph
from kit.graph.op import IndexedSlices, Tensor
from kit.graph.ops.array import rows
from kit.graph.ops.math.cast import cast
from kit.graph.ops.state.source import constant, identity, placeholder, stop_gradient
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from tests.graph.cases.case import evaluate, numbers
from tests.graph.kernels.slopes import slopes

assert kit.graph.ops  # fills the table


def value(tensor: Tensor, **feeds: Any) -> Any:
    by_tensor = {tensor.graph.tensor(f"{name}:0"): x for name, x in feeds.items()}
    return evaluate(np, [tensor], by_tensor)[0]


def test_gradients_of_one_task_are_added_there_and_travel_as_one() -> None:
    graph, parts = Graph(), []
    with graph.as_default():
        with graph.device("/job:ps/task:0"):
            w = Variable(np.ones((2, 2), np.float32), name="w")
        for task in (1, 0, 1):
            with graph.device(f"/job:worker/task:{task}"):
                parts.append(w * np.float32(task + 3))

        (total,) = gradients(parts, w, colocate=True)

    sums = {item.op.device: item for item in total.op.inputs}
    assert total.op.device == "/job:ps/task:0"
    assert sorted(sums) == ["/job:worker/task:0", "/job:worker/task:1"]
    assert sums["/job:worker/task:1"].op.type == "AddN"
    assert len(sums["/job:worker/task:1"].op.inputs) == 2


def test_weights_of_another_shape_are_refused() -> None:
    x = constant([1.0, 2.0])

    with pytest.raises(ValueError, match=r"\[3\]"):
        gradients(x, x, grad_ys=[constant([1.0, 2.0, 3.0])])
    with pytest.raises(ValueError, match="2 entries"):
        gradients(x, x, grad_ys=[x, x])


def test_an_unconnected_x_gives_none_or_zeros() -> None:
    x, other = constant([1.0, 2.0]), constant([3.0, 4.0])

    assert gradients(x * 2.0, [other]) == [None]
    (zeros,) = gradients(x * 2.0, [other], unconnected="zero")
    np.testing.assert_array_equal(value(zeros), [0.0, 0.0])
    with pytest.raises(ValueError, match="'nothing'"):
        gradients(x, x, unconnected="nothing")


def test_a_tensor_between_takes_its_own_gradient() -> None:
    x = constant(2.0)
    middle = x * 3.0

    by_middle, by_x = gradients(middle * middle, [middle, x])

    assert (value(by_middle), value(by_x)) == (12.0, 36.0)


def test_no_gradient_flows_through_a_stop() -> None:
    x = constant(2.0)

    assert value(gradients(x * stop_gradient(x), x)[0]) == 2.0
    middle = x * 3.0
    assert gradients(middle * 2.0, x, stop_gradients=[middle]) == [None]


def test_integers_and_comparisons_have_no_gradient() -> None:
    x = constant([1.5, -2.0])

    assert gradients(cast(cast(x, "int32"), "float32"), x) == [None]
    assert gradients(np.where(x > 0, 1.0, 2.0), x) == [None]
    with pytest.raises(TypeError, match="floating"):
        gradients(cast(x, "int32"), x)


def test_an_op_without_a_gradient_on_the_way_is_named() -> None:
    x = constant([1.5, -2.0])

    with pytest.raises(LookupError, match="'Mod' of type Mod has no gradient"):
        gradients(np.fmod(x, 2.0), x)


def test_gathered_rows_give_rows(graph: Graph) -> None:
    v = Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    taken = rows.gather(v, [2, 0, 2])

    (by_v,) = gradients(np.sum(taken * taken), v)

    assert isinstance(by_v, IndexedSlices)
    with Session() as session:
        session.run(initialize_all())
        result = session.run(by_v)
        whole = session.run(dense(by_v))
        once = session.run(rows.sum_rows(by_v))
    np.testing.assert_array_equal(result.indices, [2, 0, 2])
    np.testing.assert_array_equal(result.values, [[8, 10], [0, 2], [8, 10]])
    np.testing.assert_array_equal(whole, [[0, 2], [0, 0], [16, 20]])
    np.testing.assert_array_equal(once.indices, [0, 2])
    np.testing.assert_array_equal(once.values, [[0, 2], [16, 20]])


def test_rows_and_a_dense_gradient_add_up_to_a_dense_one() -> None:
    x = placeholder("float64", (None, 2), name="x")

    (by_x,) = gradients(np.sum(rows.gather(x, [1, 1])) + np.sum(x * 3.0), x)

    assert isinstance(by_x, Tensor)
    np.testing.assert_array_equal(value(by_x, x=np.ones((3, 2)))[:, 0], [3, 5, 3])


def test_rows_of_rows_are_made_dense_where_an_op_needs_all() -> None:
    x = placeholder("float64", (3, 2), name="x")

    (by_x,) = gradients(np.sum(rows.gather(x * x, [1, 1])), x)

    result = value(by_x, x=np.full((3, 2), 5.0))
    np.testing.assert_array_equal(result[:, 0], [0, 20, 0])


def test_a_variable_has_a_gradient_through_each_way_to_read_it() -> None:
    v = Variable([1.0, 2.0], dtype="float64")

    loss = np.sum(v * v) + np.sum(v.read_value() * 5.0) + np.sum(identity(v.ref))
    (by_v,) = gradients(loss, v)

    with Session() as session:
        session.run(initialize_all())
        np.testing.assert_array_equal(session.run(by_v), [8.0, 10.0])


def test_gradients_enter_the_graph_of_y_whatever_the_default_is(graph: Graph) -> None:
    x = constant([1.0, 2.0])
    y = np.mean(np.square(x)) ** 3.0
    with Graph().as_default() as other:
        (by_x,) = gradients(y, x)

    assert by_x.graph is graph
    assert other.version == 0


CHAINS: list[Callable[[Any], Any]] = [
    lambda x: np.tanh(x) * 1.5,
    lambda x: x @ np.linspace(-1, 1, 9).reshape(3, 3),
    lambda x: np.concatenate([x[1:], x[:1] * x[1:2]]),
    lambda x: x - np.mean(x, axis=0),
    lambda x: np.stack([x, x * x], axis=0).sum(axis=0),
    lambda x: np.exp(x * 0.1) / (np.sum(np.exp(x * 0.1), axis=1, keepdims=True) + 1),
    lambda x: np.swapaxes(x, 0, 1),
    lambda x: x * x[0] + x[:, :1],
    lambda x: np.sqrt(x * x + 1.0),
    lambda x: np.pad(x, 1)[1:-1, 1:-1] * 0.5,
]


@given(
    st.lists(st.integers(0, len(CHAINS) - 1), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_the_gradient_of_any_chain_is_its_slope(chain: list[int], seed: int) -> None:
    start = numbers(seed, 3, 3)
    weights = numbers(seed + 100, 3, 3)

    def loss(x: Any) -> Any:
        for number in chain:
            x = CHAINS[number](x)
        return np.sum(x * weights)

    with Graph().as_default():
        x = placeholder("float64", (None, 3), name="x")
        (by_x,) = gradients(loss(x), x)
        result = value(by_x, x=start)

    expected = slopes(lambda x: float(loss(x)), start)
    close = 1e-6 * max(1.0, abs(expected).max())
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=close)
