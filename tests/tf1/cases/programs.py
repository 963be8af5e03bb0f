"""The programs that everybody writes first; trainings by replicas."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import initialized, makes_case, tf
from tests.tf1.servers import cluster


def case_hello() -> Any:
    greeting = tf.constant("Hello, distributed TensorFlow!")
    server = tf.train.Server.create_local_server()
    session = tf.Session(server.target)
    result = session.run(greeting)
    session.close()
    return result


def case_two_tasks_of_one_job() -> Any:
    """Either task is a target, and what is pinned to the other runs there."""
    servers = cluster(local=2)["local"]
    result = []
    for here in (0, 1):
        with tf.Graph().as_default():
            with tf.device(f"/job:local/task:{1 - here}"):
                x = tf.placeholder(tf.float32, [None])
                total = tf.reduce_sum(x * 2.0)
            with tf.Session(servers[here].target) as session:
                result.append((session.run(total, {x: [1.0, 2.0]}), total.device))
    return result


def two_layers() -> Any:
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


def case_variables_on_two_servers_and_work_on_a_worker() -> Any:
    servers = cluster(ps=2, worker=2)
    x, y, loss, train, variables = two_layers()
    feeds = {x: BATCH[0], y: BATCH[1]}
    with tf.Session(servers["worker"][1].target) as session:
        session.run(tf.global_variables_initializer())
        losses = []
        for _ in range(3):
            losses.append(session.run(loss, feeds))
            session.run(train, feeds)
        return losses, session.run(variables)


def case_the_devices_of_that_program() -> Any:
    *_, loss, train, variables = two_layers()
    return [thing.device for thing in [loss, train, *variables]]


def case_the_members_of_a_cluster_spec() -> Any:
    spec = tf.train.ClusterSpec(
        {"ps": ["ps0:2222", "ps1:2222"], "worker": ["w0:2222", "w1:2222", "w2:2222"]}
    )
    return [
        sorted(spec.jobs),
        str(spec.as_cluster_def()),
        spec.as_dict(),
        spec.job_tasks("worker"),
        spec.num_tasks("ps"),
        spec.task_address("worker", 2),
        spec.task_indices("worker"),
    ]


def case_servers_of_one_process_exchange_constants() -> Any:
    """The name `a` is bound anew, so what was built with the old one stays as it is."""
    servers = cluster(ps=1, worker=2)
    sessions = [
        tf.Session(server.target) for server in servers["ps"] + servers["worker"]
    ]
    with tf.device("/job:ps/task:0"):
        a = tf.constant(3.0)
        b = tf.constant(4.0)
    with tf.device("/job:worker/task:0"):
        total = a + b
    with tf.device("/job:worker/task:1"):
        nine = tf.constant(9.0)
    old = a
    with tf.device("/job:ps/task:0"):
        a = nine + b
    result = [session.run([total, a, old, a * 1.0]) for session in sessions]
    for session in sessions:
        session.close()
    return result


def case_workers_change_what_all_of_them_read() -> Any:
    servers = cluster(ps=1, worker=2)
    with tf.device("/job:ps/task:0"):
        a = tf.Variable(3.0, name="a")
        b = tf.Variable(4.0, name="b")
    with tf.device("/job:worker/task:0"):
        total = a + b
    with tf.device("/job:worker/task:1"):
        change = a.assign(total + 2.0)
    with tf.Session(servers["worker"][0].target) as item:
        item.run(tf.global_variables_initializer())
        with tf.Session(servers["worker"][1].target) as two:
            return item.run(total), two.run(change), item.run(total), two.run(a)


def case_networks_in_parallel_are_updated_together() -> Any:
    """Each worker tries its own variant of the weights; the best one is taken up."""
    servers = cluster(ps=1, worker=2)
    x = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
    y = np.array([[1.0], [2.0]], np.float32)
    variants = np.array([[[0.1], [0.0]], [[0.0], [0.1]]], np.float32)
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable([[0.5], [0.25]], name="weights")
    scores = []
    for task in (0, 1):
        with tf.device(f"/job:worker/task:{task}"):
            out = tf.matmul(x, weights + variants[task])
            scores.append(tf.reduce_mean(tf.square(out - y)))
    with tf.device("/job:ps/task:0"):
        best = tf.argmin(tf.stack(scores))
        step = weights.assign_add(tf.gather(tf.constant(variants), best))
    result = []
    with tf.Session(servers["worker"][0].target) as session:
        session.run(weights.initializer)
        for _ in range(4):
            result.append(session.run(scores))
            session.run(step)
        return result, session.run(weights)


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
