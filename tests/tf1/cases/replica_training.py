"""Replicated training on servers of one process: in one graph, and between graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import initialized
from tests.tf1.servers import cluster

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25], [-2.0, 1.0]], np.float32)
Y = np.array([[1.0], [0.0], [2.0], [-1.0]], np.float32)
STEPS = 5


def loss_of(tf: Any, x: Any, y: Any, weights: Any) -> Any:
    return tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))


def in_one_graph(workers: int) -> Callable[[Any], Any]:
    """Train with a tower on each worker; the ps averages their gradients."""

    def case(tf: Any) -> Any:
        servers = cluster(tf, ps=1, worker=workers)
        x, y = tf.placeholder(tf.float32, [4, 2]), tf.placeholder(tf.float32, [4, 1])
        with tf.device("/job:ps/task:0"):
            weights = tf.Variable([[0.5], [-0.5]], name="w")
            optimizer = tf.train.AdagradOptimizer(0.5)
        xs, ys = tf.split(x, workers), tf.split(y, workers)
        gradients = []
        for task in range(workers):
            with tf.device(f"/job:worker/task:{task}"):
                loss = loss_of(tf, xs[task], ys[task], weights)
                gradients += tf.gradients(loss, weights.value())
        with tf.device("/job:ps/task:0"):
            mean = tf.add_n(gradients) / float(workers)
            train = optimizer.apply_gradients([(mean, weights)])
        with tf.Session(servers["worker"][0].target) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(train, {x: X, y: Y})
            return session.run(weights)

    return case


def case_one_process_trains_on_the_whole_batch(tf: Any) -> Any:
    weights = tf.Variable([[0.5], [-0.5]], name="w")
    train = tf.train.AdagradOptimizer(0.5).minimize(
        loss_of(tf, tf.constant(X), tf.constant(Y), weights)
    )
    with initialized(tf) as session:
        for _ in range(STEPS):
            session.run(train)
        return session.run(weights)


CASES: dict[str, Callable[[Any], Any]] = {
    "one_graph_with_two_towers_trains_alike": in_one_graph(2),
    "one_graph_with_one_tower_trains_alike": in_one_graph(1),
}
