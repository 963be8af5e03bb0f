"""The program that everybody writes first."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.servers import cluster


def two_layers(tf: Any) -> Any:
    """Variables on two parameter servers, and the loss of one worker."""
    with tf.device("/job:ps/task:0"):
        w1 = tf.Variable([[0.5, -0.5], [0.25, 1.0]], name="w1")
        b1 = tf.Variable([0.1, 0.2], name="b1")
    with tf.device("/job:ps/task:1"):
        w2 = tf.Variable([[1.0], [-2.0]], name="w2")
        b2 = tf.Variable([0.5], name="b2")
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        y = tf.placeholder(tf.float32, [None, 1], name="y")
        hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
        out = tf.matmul(hidden, w2) + b2
        loss = tf.reduce_mean(tf.square(out - y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return x, y, loss, train, [w1, b1, w2, b2]


BATCH = (
    np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]], np.float32),
    np.array([[1.0], [0.0], [2.0]], np.float32),
)


def case_variables_on_two_servers_and_work_on_a_worker(tf: Any) -> Any:
    servers = cluster(tf, ps=2, worker=2)
    x, y, loss, train, variables = two_layers(tf)
    feeds = {x: BATCH[0], y: BATCH[1]}
    with tf.Session(servers["worker"][1].target) as session:
        session.run(tf.global_variables_initializer())
        losses = []
        for _ in range(3):
            losses.append(session.run(loss, feeds))
            session.run(train, feeds)
        return losses, session.run(variables)


def case_the_devices_of_that_program(tf: Any) -> Any:
    *_, loss, train, variables = two_layers(tf)
    return [thing.device for thing in [loss, train, *variables]]
