"""Update rules of one's own and those of `tf.contrib.opt`, by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import initialized, names_of, op_names_of


class SignDescent(tf.train.Optimizer):
    """v -= rate * sign(g), and counts how often each element was touched."""

    def __init__(self, rate: float, name: str = "SignDescent") -> None:
        super().__init__(False, name)
        self._rate = rate

    def _create_slots(self, var_list: Any) -> None:
        for variable in var_list:
            self._zeros_slot(variable, "touched", self._name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        counted = tf.assign_add(self.get_slot(var, "touched"), tf.ones_like(grad))
        moved = tf.assign_sub(var, self._rate * tf.sign(grad))
        return tf.group(counted, moved)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        change = -self._rate * tf.sign(grad.values)
        counted = tf.scatter_add(
            self.get_slot(var, "touched"), grad.indices, tf.ones_like(change)
        )
        return tf.group(counted, tf.scatter_add(var, grad.indices, change))


def after(train: Any, fetches: Any, steps: int = 1) -> Any:
    """Run steps in a new session and return the values of the fetches."""
    with initialized() as session:
        for _ in range(steps):
            session.run(train)
        return session.run(fetches)


def test_a_rule_gets_the_gradient_of_each_variable() -> None:
    variable = tf.Variable([1.0, -2.0, 3.0])
    train = SignDescent(0.5).minimize(tf.reduce_sum(variable * [2.0, -7.0, 0.0]))

    assert after(train, variable, steps=2).tolist() == [0.0, -1.0, 3.0]


def test_a_rule_gets_each_row_once_however_often_it_was_used() -> None:
    table = tf.Variable([[1.0], [2.0], [3.0]])
    optimizer = SignDescent(0.5)
    train = optimizer.minimize(tf.reduce_sum(tf.gather(table, [2, 0, 2, 2])))

    values, touched = after(train, [table, optimizer.get_slot(table, "touched")])

    assert values.tolist() == [[0.5], [2.0], [2.5]]
    assert touched.tolist() == [[1.0], [0.0], [1.0]]


def test_slots_of_a_rule_are_called_by_variable_and_optimizer() -> None:
    variable = tf.Variable([1.0], name="weights")
    optimizer = SignDescent(0.5, name="Own")
    optimizer.minimize(tf.reduce_sum(variable))

    assert names_of(optimizer.variables()) == ["weights/Own:0"]


def test_a_rule_that_says_nothing_of_updates_is_refused() -> None:
    variable = tf.Variable([1.0])

    with pytest.raises(NotImplementedError):
        tf.train.Optimizer(False, "Bare").minimize(tf.reduce_sum(variable))


def test_a_constraint_holds_after_each_update() -> None:
    variable = tf.Variable(
        [0.9, 0.1], constraint=lambda x: tf.clip_by_value(x, 0.0, 1.0)
    )
    train = tf.train.GradientDescentOptimizer(0.25).minimize(
        tf.reduce_sum(variable * [-1.0, 1.0])
    )

    assert after(train, variable).tolist() == [1.0, 0.0]


def test_a_constraint_and_sparse_rows_do_not_go_together() -> None:
    table = tf.Variable([[1.0], [2.0]], constraint=lambda x: x)

    with pytest.raises(RuntimeError, match="constraint"):
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_sum(tf.gather(table, [0]))
        )


@pytest.mark.parametrize(
    "optimizer",
    [
        tf.train.MomentumOptimizer(0.1, 0.9),
        tf.train.AdagradOptimizer(0.1),
        tf.train.AdamOptimizer(0.1),
        tf.train.RMSPropOptimizer(0.1, momentum=0.9),
        tf.train.RMSPropOptimizer(0.1, centered=True),
    ],
    ids=lambda item: f"{type(item).__name__}",
)
def test_a_scalar_of_open_shape_moves_as_a_vector_with_one_element(
    optimizer: Any,
) -> None:
    scalar = tf.Variable(tf.constant(1.0), validate_shape=False)
    vector = tf.Variable([1.0])
    pairs = [(tf.constant(0.1), scalar), (tf.constant([0.1]), vector)]
    train = optimizer.apply_gradients(pairs)
    slots = [
        optimizer.get_slot(variable, name)
        for name in optimizer.get_slot_names()
        for variable in (scalar, vector)
    ]

    result = after(train, [scalar, vector, *slots], steps=3)

    assert result[::2] == [float(row[0]) for row in result[1::2]]


def test_a_rate_that_is_a_schedule_changes_from_step_to_step() -> None:
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(1.0, step, 1, 0.5)
    variable = tf.Variable(0.0)
    train = tf.train.GradientDescentOptimizer(rate).minimize(-variable, step)

    assert after(train, variable, steps=3) == np.float32(1.0 + 0.5 + 0.25)


def test_a_rate_that_is_a_variable_can_be_changed_between_steps() -> None:
    rate, variable = tf.Variable(1.0, trainable=False), tf.Variable(0.0)
    train = tf.train.MomentumOptimizer(rate, 0.0).minimize(-variable)

    with initialized() as session:
        session.run(train)
        rate.load(10.0, session)
        session.run(train)

        assert session.run(variable) == 11.0


def test_ftrl_in_a_graph_makes_weights_that_matter_little_zero() -> None:
    w = tf.Variable([1.0, -2.0, 0.5], name="w")
    rate = tf.placeholder_with_default(0.5, [])
    ftrl = tf.train.FtrlOptimizer(rate, l1_regularization_strength=0.3)
    train = ftrl.apply_gradients([(tf.constant([0.1, 2.0, -2.0]), w)])
    slots = [ftrl.get_slot(w, name) for name in ftrl.get_slot_names()]

    result, n, z = after(train, [w, *slots])

    start, g = np.array([1.0, -2.0, 0.5]), np.array([0.1, 2.0, -2.0])
    accum = 0.1 + g**2
    linear = g - (np.sqrt(accum) - np.sqrt(0.1)) / 0.5 * start
    moved = (0.3 * np.sign(linear) - linear) / (np.sqrt(accum) / 0.5)
    expected = np.where(np.abs(linear) > 0.3, moved, 0)
    assert op_names_of(slots) == ["w/Ftrl", "w/Ftrl_1"]
    assert expected[0] == 0 != expected[1]
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    np.testing.assert_allclose([n, z], [accum, linear], rtol=1e-5)
    with pytest.raises(ValueError, match=r"only -0\.5 is supported"):
        tf.train.FtrlOptimizer(0.1, learning_rate_power=-1.0)


def test_adadelta_moves_only_the_rows_that_have_a_gradient() -> None:
    w = tf.Variable([[1.0], [2.0], [3.0]], name="w")
    loss = tf.reduce_sum(tf.square(tf.gather(w, [2, 0])))
    adadelta = tf.train.AdadeltaOptimizer(1.0, rho=0.9, epsilon=1e-2)
    train = adadelta.minimize(loss)

    result, accum = after(train, [w, adadelta.get_slot(w, "accum")])

    g = np.array([[2.0], [0.0], [6.0]])
    change = np.sqrt(1e-2) / np.sqrt(0.1 * g**2 + 1e-2) * g
    np.testing.assert_allclose(result, [[1], [2], [3]] - change, rtol=1e-5)
    np.testing.assert_allclose(accum, 0.1 * g**2, rtol=1e-5)
    assert op_names_of(adadelta.variables()) == [
        "w/Adadelta",
        "w/Adadelta_1",
    ]


RATE, DECAY = 0.1, 0.25
START = np.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]], np.float32)


class Momentum:
    def __init__(self) -> None:
        self.kept = np.zeros_like(START)

    def step(self, gradient: Any) -> Any:
        self.kept = 0.9 * self.kept + gradient
        return RATE * self.kept


class Adam:
    def __init__(self) -> None:
        self.mean, self.square = np.zeros_like(START), np.zeros_like(START)
        self.n = 0

    def step(self, gradient: Any) -> Any:
        self.n += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        rate = RATE * np.sqrt(1 - 0.999**self.n) / (1 - 0.9**self.n)
        return rate * self.mean / (np.sqrt(self.square) + 1e-8)


def decaying(kind: str) -> Any:
    if kind == "adam":
        return tf.contrib.opt.AdamWOptimizer(DECAY, RATE)
    if kind == "momentum":
        return tf.contrib.opt.MomentumWOptimizer(DECAY, RATE, 0.9)
    extend = tf.contrib.opt.extend_with_decoupled_weight_decay
    return extend(tf.train.MomentumOptimizer)(DECAY, RATE, momentum=0.9)


@for_each("kind", ["adam", "momentum", "extended"])
def test_weights_decay_beside_the_means_of_the_optimizer(kind: str) -> None:
    variable = tf.Variable(START)
    loss = tf.reduce_sum(variable**2)  # so a gradient is of the weights before a decay
    result = after(decaying(kind).minimize(loss), variable, steps=4)

    expected, rule = START.copy(), Adam() if kind == "adam" else Momentum()
    for _ in range(4):
        gradient = 2 * expected
        expected = expected - DECAY * expected - rule.step(gradient)
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)


def test_rows_that_were_used_decay_once_and_others_not() -> None:
    table = tf.Variable(START)
    loss = tf.reduce_sum(tf.gather(table, [0, 2, 0]))
    optimizer = tf.contrib.opt.MomentumWOptimizer(DECAY, RATE, 0.9)
    result = after(optimizer.minimize(loss), table, steps=1)

    gradient = np.array([[2.0], [0.0], [1.0]], np.float32)
    decay = DECAY * np.array([[1.0], [0.0], [1.0]], np.float32)
    np.testing.assert_allclose(result, START - decay * START - RATE * gradient)


def test_only_the_variables_of_the_list_decay() -> None:
    decaying, other = tf.Variable(START), tf.Variable(START)
    optimizer = tf.contrib.opt.MomentumWOptimizer(DECAY, RATE, 0.0)
    loss = tf.reduce_sum(decaying + other)
    train = optimizer.minimize(loss, decay_var_list=[decaying])
    results = after(train, [decaying, other], steps=1)

    np.testing.assert_allclose(results[0], START * (1 - DECAY) - RATE)
    np.testing.assert_allclose(results[1], START - RATE)
