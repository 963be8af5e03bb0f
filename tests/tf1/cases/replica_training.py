"""Replicated training on servers of one process: in one graph, and between graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import initialized, makes_case, tf
from tests.tf1.servers import cluster

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25], [-2.0, 1.0]], np.float32)
Y = np.array([[1.0], [0.0], [2.0], [-1.0]], np.float32)
STEPS = 5


def loss_of(x: Any, y: Any, weights: Any) -> Any:
    return tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))


@makes_case
def in_one_graph(workers: int) -> Any:
    """Train with a tower on each worker; the ps averages their gradients."""
    servers = cluster(ps=1, worker=workers)
    x, y = tf.placeholder(tf.float32, [4, 2]), tf.placeholder(tf.float32, [4, 1])
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable([[0.5], [-0.5]], name="w")
        optimizer = tf.train.AdagradOptimizer(0.5)
    xs, ys = tf.split(x, workers), tf.split(y, workers)
    gradients = []
    for task in range(workers):
        with tf.device(f"/job:worker/task:{task}"):
            loss = loss_of(xs[task], ys[task], weights)
            gradients += tf.gradients(loss, weights.value())
    with tf.device("/job:ps/task:0"):
        mean = tf.add_n(gradients) / float(workers)
        train = optimizer.apply_gradients([(mean, weights)])
    with tf.Session(servers["worker"][0].target) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train, {x: X, y: Y})
        return session.run(weights)


def replica(spec: Any, task: int) -> Any:
    """Build a worker's graph; return what its session needs."""
    graph = tf.Graph()
    worker = f"/job:worker/task:{task}"
    setter = tf.train.replica_device_setter(worker_device=worker, cluster=spec)
    with graph.as_default(), tf.device(setter):
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("w", initializer=tf.constant([0.0, 0.0]))
        optimizer = tf.train.GradientDescentOptimizer(1.0, use_locking=True)
        train = optimizer.minimize(tf.reduce_sum(weights), global_step=step)
        start = tf.global_variables_initializer()
        missing = tf.report_uninitialized_variables()
    return graph, start, train, weights, step, missing


def case_two_graphs_share_parameters_and_count_every_update() -> Any:
    servers = cluster(ps=2, worker=2)
    spec = servers["ps"][0].server_def.cluster
    graphs = [replica(spec, task) for task in range(2)]
    targets = [server.target for server in servers["worker"]]
    chief, other = [
        tf.Session(targets[task], graph=graphs[task][0]) for task in range(2)
    ]
    with chief, other:
        before = [item.decode() for item in other.run(graphs[1][5])]
        chief.run(graphs[0][1])
        after = other.run(graphs[1][5]).tolist()
        for _ in range(STEPS):
            chief.run(graphs[0][2])
            other.run(graphs[1][2])
        devices = [graphs[1][3].device, graphs[1][4].device]
        return [sorted(before), after, other.run(graphs[1][3:5]), devices]


def case_a_worker_that_leaves_does_not_stop_the_other() -> Any:
    """One worker leaves; the other goes on with the shared parameters."""
    servers = cluster(ps=1, worker=2)
    spec = servers["ps"][0].server_def.cluster
    graphs = [replica(spec, task) for task in range(2)]
    with tf.Session(servers["worker"][0].target, graph=graphs[0][0]) as chief:
        chief.run(graphs[0][1])
        chief.run(graphs[0][2])
    with tf.Session(servers["worker"][1].target, graph=graphs[1][0]) as other:
        for _ in range(3):
            other.run(graphs[1][2])
        return other.run(graphs[1][3:5])


def case_one_process_trains_on_the_whole_batch() -> Any:
    weights = tf.Variable([[0.5], [-0.5]], name="w")
    train = tf.train.AdagradOptimizer(0.5).minimize(
        loss_of(tf.constant(X), tf.constant(Y), weights)
    )
    with initialized() as session:
        for _ in range(STEPS):
            session.run(train)
        return session.run(weights)


def case_layers_on_two_ps_train_from_a_worker() -> Any:
    """Variables on two ps, arithmetic on a worker, the target of that worker."""
    servers = cluster(ps=2, worker=1)
    with tf.device("/job:ps/task:0"):
        first = tf.Variable([[0.5, -0.5], [0.25, 1.0]], name="w1")
    with tf.device("/job:ps/task:1"):
        second = tf.Variable([[1.0], [-1.0]], name="w2")
    x, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 1])
    with tf.device("/job:worker/task:0"):
        hidden = tf.nn.relu(tf.matmul(x, first))
        loss = loss_of(hidden, y, second)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session(servers["worker"][0].target) as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train], {x: X, y: Y})[0] for _ in range(STEPS)]
        return [losses, session.run([first, second])]


def case_adagrad_on_a_ps_counts_its_steps() -> Any:
    servers = cluster(ps=1, worker=1)
    setter = tf.train.replica_device_setter(cluster=servers["ps"][0].server_def.cluster)
    with tf.device(setter):
        step = tf.train.get_or_create_global_step()
        weights = tf.Variable([[0.5], [-0.5]], name="w")
        loss = loss_of(tf.constant(X), tf.constant(Y), weights)
        optimizer = tf.train.AdagradOptimizer(0.01)
        train = optimizer.minimize(loss, global_step=step)
    with tf.Session(servers["worker"][0].target) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train)
        slot = optimizer.get_slot(weights, "accumulator")
        return [session.run([weights, slot, step]), slot.device]


CASES = {
    "one_graph_with_two_towers_trains_alike": in_one_graph(2),
    "one_graph_with_one_tower_trains_alike": in_one_graph(1),
}
