"""What goes from task to task: values of every dtype, once for each destination."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import makes_case
from tests.tf1.servers import cluster

VALUES: dict[str, Any] = {
    "float16": np.array([0.5, -2.0], np.float16),
    "float32": np.array([[0.1, 0.2], [0.3, 0.4]], np.float32),
    "float64": np.array([0.1, 1e300]),
    "int8": np.array([-128, 127], np.int8),
    "uint8": np.array([0, 255], np.uint8),
    "int32": np.array([-5, 2**31 - 1], np.int32),
    "int64": np.array(2**62, np.int64),
    "bool": np.array([True, False]),
    "strings": np.array([b"ab", b"\x00\xff", b""], object),
    "nothing": np.zeros([0, 3], np.float32),
    "a_scalar": np.array(1.5, np.float32),
}


@makes_case
def there_and_back(tf: Any, value: Any) -> Any:
    servers = cluster(tf, ps=1, worker=1)
    dtype = tf.string if value.dtype == object else value.dtype
    x = tf.placeholder(dtype, value.shape)
    with tf.device("/job:ps"):
        there = tf.stack([x, x])
    with tf.device("/job:worker"):
        back = there[1]
    with tf.Session(servers["worker"][0].target) as session:
        return session.run(back, {x: value})


@makes_case
def moved(tf: Any, consumers: int, tasks: int) -> Any:
    """Count what the workers receive of one tensor on the ps."""
    servers = cluster(tf, ps=1, worker=2)
    with tf.device("/job:ps"):
        variable = tf.Variable([1.0, 2.0], name="v")
        source = tf.multiply(variable, 3.0, name="source")
    results = []
    for index in range(consumers):
        with tf.device(f"/job:worker/task:{index % tasks}"):
            results.append(tf.add(source, float(index)).op)
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session(servers["worker"][0].target) as session:
        session.run(variable.initializer)
        session.run(results, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    kinds = [node.op for node in nodes]
    return [
        kinds.count("_Send"),
        kinds.count("_Recv"),
        len(metadata.partition_graphs),
    ]


def case_control_dependency_reaches_across_tasks(tf: Any) -> Any:
    servers = cluster(tf, ps=1, worker=1)
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0, name="v")
        change = tf.assign(variable, 5.0)
    with tf.device("/job:worker"), tf.control_dependencies([change]):
        after = tf.identity(variable.read_value()) * 2.0
    with tf.Session(servers["worker"][0].target) as session:
        session.run(variable.initializer)
        return session.run(after)


CASES = {
    **{f"{name}_go_there_and_back": there_and_back(VALUES[name]) for name in VALUES},
    "one_consumer_gets_it_once": moved(1, 1),
    "three_consumers_on_a_task_get_it_once": moved(3, 1),
    "two_tasks_get_it_twice": moved(4, 2),
}
