"""Recurrent cells by numpy, their unrolling, and the names of their variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.tf1.look import op_names_of

BATCH, TIMES, WIDTH, UNITS = 3, 4, 2, 5
INPUTS = np.random.default_rng(1).normal(size=(BATCH, TIMES, WIDTH)).astype("float32")
LENGTHS = [2, 4, 1]


def values(session: Any) -> dict[str, Any]:
    """Give the variables random values and return these by name."""
    chance = np.random.default_rng(2)
    result = {}
    for global_variable in tf.global_variables():
        result[global_variable.op.name] = chance.normal(
            size=global_variable.shape.as_list()
        ).astype("float32")
        global_variable.load(result[global_variable.op.name], session)
    return result


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: Any, c: Any, h: Any, kernel: Any, bias: Any, forget: float = 1.0) -> Any:
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, axis=1)
    c = c * sigmoid(f + forget) + sigmoid(i) * np.tanh(j)
    return c, np.tanh(c) * sigmoid(o)


def names() -> list[str]:
    return op_names_of(tf.global_variables())


def test_a_basic_lstm_is_its_formula_at_each_time(session: Any) -> None:
    cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(INPUTS), dtype=tf.float32)
    options = values(session)
    result, last = session.run([outputs, state])
    c = h = np.zeros((BATCH, UNITS))
    expected = []
    for time in range(TIMES):
        c, h = lstm(INPUTS[:, time], c, h, *options.values())
        expected.append(h)

    assert names() == ["rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"]
    np.testing.assert_allclose(result, np.stack(expected, 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.c, c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.h, h, rtol=1e-4, atol=1e-6)


def test_gates_of_a_gated_unit_begin_with_a_bias_of_one(session: Any) -> None:
    tf.nn.rnn_cell.GRUCell(2)(INPUTS[:, 0], tf.zeros([BATCH, 2]))
    session.run(tf.global_variables_initializer())

    result = dict(zip(names(), session.run(tf.global_variables()), strict=True))
    assert result["gru_cell/gates/bias"].tolist() == [1.0] * 4
    assert result["gru_cell/candidate/bias"].tolist() == [0.0] * 2


def test_an_lstm_with_peepholes_clips_and_projects(session: Any) -> None:
    cell = tf.nn.rnn_cell.LSTMCell(
        UNITS, use_peepholes=True, cell_clip=0.5, num_proj=3, proj_clip=0.4
    )
    x = INPUTS[:, 0]
    state = tf.nn.rnn_cell.LSTMStateTuple(tf.ones([BATCH, UNITS]), tf.ones([BATCH, 3]))
    output, new = cell(x, state)
    inputs = values(session)
    h, result = session.run([output, new.c])

    first = np.ones((BATCH, 3))
    product = (
        np.hstack([x, first]) @ inputs["lstm_cell/kernel"] + inputs["lstm_cell/bias"]
    )
    i, j, f, o = np.split(product, 4, axis=1)
    c = sigmoid(f + 1 + inputs["lstm_cell/w_f_diag"])
    c = c + sigmoid(i + inputs["lstm_cell/w_i_diag"]) * np.tanh(j)
    c = np.clip(c, -0.5, 0.5)
    out = sigmoid(o + inputs["lstm_cell/w_o_diag"] * c) * np.tanh(c)
    out = np.clip(out @ inputs["lstm_cell/projection/kernel"], -0.4, 0.4)
    np.testing.assert_allclose(result, c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h, out, rtol=1e-4, atol=1e-6)


def test_after_its_end_a_sequence_gives_zeros_and_keeps_its_state(
    session: Any,
) -> None:
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    outputs, state = tf.nn.dynamic_rnn(
        cell, tf.constant(INPUTS), sequence_length=LENGTHS, dtype=tf.float32
    )
    whole, _ = tf.nn.dynamic_rnn(cell, tf.constant(INPUTS), dtype=tf.float32)
    values(session)
    result, last, free = session.run([outputs, state, whole])

    for example, length in enumerate(LENGTHS):
        assert not result[example, length:].any()
        np.testing.assert_array_equal(result[example, :length], free[example, :length])
        np.testing.assert_array_equal(last[example], result[example, length - 1])


def test_static_and_dynamic_unrolling_agree_in_all_layouts(session: Any) -> None:
    cell = tf.contrib.rnn.BasicLSTMCell(UNITS, state_is_tuple=False)
    x = tf.placeholder(tf.float32, [None, TIMES, WIDTH])
    steps, state = tf.contrib.rnn.static_rnn(
        cell, tf.unstack(x, TIMES, 1), dtype=tf.float32
    )
    by_example, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    by_time, last = tf.nn.dynamic_rnn(
        cell, tf.transpose(x, [1, 0, 2]), dtype=tf.float32, time_major=True
    )
    values(session)
    result = session.run([steps, by_example, by_time, state, last], {x: INPUTS})

    assert len(names()) == 2
    np.testing.assert_array_equal(np.stack(result[0], 1), result[1])
    np.testing.assert_array_equal(np.stack(result[0]), result[2])
    np.testing.assert_array_equal(result[3], result[4])
    assert result[3].shape == (BATCH, 2 * UNITS)


def test_cells_one_above_the_other_have_variables_of_their_own() -> None:
    cells = [
        tf.nn.rnn_cell.DropoutWrapper(
            tf.nn.rnn_cell.BasicLSTMCell(UNITS), output_keep_prob=0.5
        )
        for _ in range(2)
    ]
    stack = tf.nn.rnn_cell.MultiRNNCell(cells)
    state = stack.zero_state(BATCH, tf.float32)
    outputs, last = tf.nn.dynamic_rnn(stack, tf.constant(INPUTS), initial_state=state)

    below = "rnn/multi_rnn_cell/cell_"
    assert names() == [
        f"{below}{i}/basic_lstm_cell/{name}"
        for i in range(2)
        for name in ("kernel", "bias")
    ]
    assert outputs.shape.as_list() == [BATCH, TIMES, UNITS]
    assert [type(item).__name__ for item in last] == ["LSTMStateTuple"] * 2


def test_dropout_of_a_cell_drops_its_outputs_and_not_its_memory(session: Any) -> None:
    plain = tf.nn.rnn_cell.BasicLSTMCell(200)
    cell = tf.nn.rnn_cell.DropoutWrapper(
        plain, output_keep_prob=0.5, state_keep_prob=0.5, seed=1
    )
    state = plain.zero_state(BATCH, tf.float32)
    output, new = cell(INPUTS[:, 0], state)
    values(session)
    result, c, h = session.run([output, *new])

    assert (result == 0).mean() == pytest.approx(0.5, abs=0.1)
    assert (h == 0).mean() == pytest.approx(0.5, abs=0.1)
    assert c.all()


@pytest.mark.parametrize("lengths", [LENGTHS, None])
def test_both_directions_agree_whether_times_are_steps_or_open(
    lengths: Any, session: Any
) -> None:
    cells = [tf.nn.rnn_cell.GRUCell(UNITS) for _ in range(2)]
    x = tf.placeholder(tf.float32, [None, None, WIDTH])
    steps = tf.unstack(tf.constant(INPUTS), TIMES, 1)
    by_step = tf.nn.static_bidirectional_rnn(
        *cells, steps, None, None, tf.float32, lengths
    )
    by_time = tf.nn.bidirectional_dynamic_rnn(*cells, x, lengths, dtype=tf.float32)
    values(session)

    (rows, *states), (open_rows, last) = session.run([by_step, by_time], {x: INPUTS})

    np.testing.assert_allclose(np.stack(rows, 1), np.concatenate(open_rows, 2), 1e-5)
    np.testing.assert_allclose(states, last, 1e-5)


def test_the_gradient_of_a_network_is_its_finite_difference(session: Any) -> None:
    x = tf.constant(INPUTS, tf.float64)
    outputs, _ = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.LSTMCell(2), x, sequence_length=LENGTHS, dtype=tf.float64
    )
    loss = tf.reduce_sum(tf.square(outputs))
    (kernel, _) = tf.trainable_variables()
    (slope,) = tf.gradients(loss, kernel)
    start = values(session)[kernel.op.name].astype(np.float64)
    kernel.load(start, session)
    exact = session.run(slope)

    for at in [(0, 0), (3, 5), (2, 7)]:
        moved = []
        for sign in (1, -1):
            change = np.zeros_like(start)
            change[at] = sign * 1e-5
            kernel.load(start + change, session)
            moved.append(session.run(loss))
        assert exact[at] == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-6)


class Adding(tf.nn.rnn_cell.RNNCell):  # type: ignore[misc]
    """A cell as users write them, which asks for its variable at each time."""

    @property
    def state_size(self) -> Any:
        return UNITS

    @property
    def output_size(self) -> Any:
        return UNITS

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        with tf.variable_scope(scope or "adding"):
            weights = tf.get_variable("w", [WIDTH, UNITS])
            new = state + tf.matmul(inputs, weights)
            return new, new


def test_a_cell_of_the_users_own_gets_the_same_variable_at_each_time(
    session: Any,
) -> None:
    _, state = tf.nn.dynamic_rnn(Adding(), tf.constant(INPUTS), dtype=tf.float32)
    (weights,) = values(session).values()

    assert names() == ["rnn/adding/w"]
    expected = INPUTS.sum(1) @ weights
    np.testing.assert_allclose(session.run(state), expected, rtol=1e-4, atol=1e-5)


def test_no_times_at_all_give_no_outputs_and_the_state_as_it_was(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None, None, WIDTH])
    cell = tf.nn.rnn_cell.BasicRNNCell(UNITS)
    outputs, last = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    values(session)

    rows, state = session.run([outputs, last], {x: INPUTS[:, :0]})

    assert rows.shape == (BATCH, 0, UNITS)
    np.testing.assert_array_equal(state, np.zeros((BATCH, UNITS)))


def test_dropout_in_a_network_of_any_length_differs_by_time_and_has_its_gradient(
    session: Any,
) -> None:
    x = tf.placeholder(tf.float32, [None, None, WIDTH])
    cell = tf.nn.rnn_cell.BasicRNNCell(UNITS, activation=tf.identity)
    outputs, _ = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=0.5), x, dtype=tf.float32
    )
    slope = tf.gradients(tf.reduce_sum(outputs), tf.trainable_variables())[1]
    session.run(tf.global_variables_initializer())
    kernel, bias = tf.trainable_variables()
    kernel.load(np.zeros(kernel.shape.as_list()), session)
    bias.load(np.ones(UNITS), session)

    result, of_bias = session.run([outputs, slope], {x: INPUTS})

    # Each output is the bias, kept and doubled or dropped.
    assert set(np.unique(result)) == {0.0, 2.0}
    assert any((result[:, 0] != result[:, time]).any() for time in range(1, TIMES))
    np.testing.assert_array_equal(of_bias, result.sum((0, 1)))


def test_cell_that_draws_by_itself_has_no_gradient_in_a_network_of_any_length() -> None:
    class Noisy(tf.nn.rnn_cell.BasicRNNCell):  # type: ignore[misc]
        def call(self, inputs: Any, state: Any) -> Any:
            return super().call(tf.nn.dropout(inputs, 0.5), state)

    x = tf.placeholder(tf.float32, [None, None, WIDTH])
    outputs, _ = tf.nn.dynamic_rnn(Noisy(UNITS), x, dtype=tf.float32)

    with pytest.raises(LookupError, match="has no gradient, for which it runs again"):
        tf.gradients(outputs, tf.trainable_variables())


def test_what_cannot_be_unrolled_says_what_is_missing() -> None:
    cell = tf.nn.rnn_cell.BasicRNNCell(2)

    with pytest.raises(ValueError, match="you must give a dtype"):
        tf.nn.dynamic_rnn(cell, tf.constant(INPUTS))
    with pytest.raises(TypeError, match="inputs must be a sequence"):
        tf.nn.static_rnn(cell, tf.constant(INPUTS), dtype=tf.float32)
    with pytest.raises(TypeError, match="is not an RNNCell"):
        tf.nn.dynamic_rnn("cell", tf.constant(INPUTS), dtype=tf.float32)
    with pytest.raises(TypeError, match="cells must be a list"):
        tf.nn.rnn_cell.MultiRNNCell(cell)
