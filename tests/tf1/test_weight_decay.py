"""`tf.contrib.opt` against the same steps in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import initialized

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


def after(train: Any, variable: Any, steps: int) -> Any:
    with initialized() as session:
        for _ in range(steps):
            session.run(train)
        return session.run(variable)


def made(kind: str) -> Any:
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
    result = after(made(kind).minimize(loss), variable, steps=4)

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
