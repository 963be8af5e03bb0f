"""Recurrent networks whose number of times is known only in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, names_of, tf

X = np.sin(np.arange(30, dtype=np.float32)).reshape(3, 5, 2)


def load(session: Any) -> None:
    session.run(tf.global_variables_initializer())
    for global_variable in tf.global_variables():
        shape = global_variable.shape.as_list()
        global_variable.load(np.cos(np.arange(np.prod(shape))).reshape(shape), session)


def parts(nested: Any) -> list[Any]:
    if isinstance(nested, (list, tuple)):
        return [item for part in nested for item in parts(part)]
    return [nested]


@makes_case
def network(
    session: Any,
    cells: Callable[[Any], Any],
    lengths: Any = None,
    by_time: bool = False,
    **how: Any,
) -> Any:
    """Return a case that feeds five times and three, with slopes."""
    x = tf.placeholder(tf.float32, [None, None, 2])
    result = tf.nn.dynamic_rnn(
        cells(tf.contrib.rnn), x, lengths, time_major=by_time, **how
    )
    shapes = [part.shape.as_list() for part in parts(result)]
    total = tf.add_n([tf.reduce_sum(part * part) for part in parts(result)])
    slopes = tf.gradients(total, [x, *tf.trainable_variables()])
    names = names_of(tf.trainable_variables())
    order = (1, 0, 2) if by_time else (0, 1, 2)
    load(session)
    values = [
        session.run([parts(result), slopes], {x: part.transpose(order)})
        for part in (X, X[:, :3])
    ]
    return names, shapes, values


@makes_case
def both_ways(
    session: Any, lengths: Any = None, by_time: bool = False, **how: Any
) -> Any:
    x = tf.placeholder(tf.float32, [None, None, 2])
    cells = [tf.contrib.rnn.GRUCell(2), tf.contrib.rnn.BasicRNNCell(2)]
    result = tf.nn.bidirectional_dynamic_rnn(
        *cells, x, lengths, dtype=tf.float32, time_major=by_time, **how
    )
    order = (1, 0, 2) if by_time else (0, 1, 2)
    load(session)
    return parts(session.run(result, {x: X.transpose(order)}))


def case_a_loss_that_falls(session: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, None, 2])
    cell = tf.contrib.rnn.BasicLSTMCell(4)
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(outputs[:, -1] - 0.3))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    load(session)
    return [session.run([loss, train], {x: X})[0] for _ in range(5)]


def stacked(rnn: Any) -> Any:
    return rnn.MultiRNNCell([rnn.BasicLSTMCell(3), rnn.GRUCell(2)])


FLOAT: dict[str, Any] = {"dtype": "float32"}
CASES: dict[str, Case] = {
    "a_plain_cell": network(lambda rnn: rnn.BasicRNNCell(2), **FLOAT),
    "an_lstm": network(lambda rnn: rnn.BasicLSTMCell(2), **FLOAT),
    "an_lstm_by_time": network(
        lambda rnn: rnn.LSTMCell(2, num_proj=3), by_time=True, **FLOAT
    ),
    "cells_over_cells": network(stacked, lengths=[3, 2, 1], **FLOAT),
    "a_state_to_begin_with": network(
        lambda rnn: rnn.BasicRNNCell(2), initial_state=np.ones([3, 2], np.float32)
    ),
    "both_ways": both_ways(),
    "both_ways_by_time": both_ways(by_time=True),
    "both_ways_to_the_end_of_each": both_ways([5, 2, 1]),
    "neither_a_state_nor_a_dtype": network(lambda rnn: rnn.BasicRNNCell(2)),
}
