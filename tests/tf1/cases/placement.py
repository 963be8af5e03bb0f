"""Placement here and on servers of one process, and what goes from task to task."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import makes_case, names_of, run, tf
from tests.tf1.servers import cluster

REFUSED: dict[str, str] = {
    "an_unknown_job": "/job:moon",
    "an_unknown_task": "/job:worker/task:7",
    "an_unknown_replica": "/job:worker/replica:1",
    "a_gpu": "/job:worker/task:0/gpu:0",
    "a_second_cpu": "/job:worker/task:0/cpu:1",
    "an_unknown_type": "/job:ps/device:XPU:0",
}


def ran_at(session: Any, fetches: Any, feeds: Any) -> dict[str, str]:
    """Run and tell for each fetched tensor, by the name of its op, where it ran."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    names = {fetch.op.name for fetch in fetches}
    return {
        node.node_name: device.device
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name in names and device.device.startswith("/job")
    }


@makes_case
def placed(target: tuple[str, int], **requests: str) -> Any:
    servers = cluster(ps=1, worker=2)
    x = tf.placeholder(tf.float32, [])
    fetches: list[Any] = []
    for name, request in requests.items():
        with tf.device(request):  # two equal operations would become one
            fetches.append(tf.multiply(x, len(fetches) + 2.0, name=name))
    job, task = target
    with tf.Session(servers[job][task].target) as session:
        result = ran_at(session, fetches, {x: 1.0})
    return sorted(result.items())


@makes_case
def tried(request: str, soft: bool) -> Any:
    servers = cluster(ps=1, worker=1)
    x = tf.placeholder(tf.float32, [])
    with tf.device(request):
        y = tf.multiply(x, 2.0, name="y")
    config = tf.ConfigProto(allow_soft_placement=soft)
    with tf.Session(servers["ps"][0].target, config=config) as session:
        return sorted(ran_at(session, [y], {x: 1.0}).items())


@makes_case
def filtered(*filters: str) -> Any:
    servers = cluster(ps=1, worker=2)
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker/task:1"):
        y = tf.multiply(x, 2.0, name="y")
    config = tf.ConfigProto(device_filters=list(filters))
    return run(y, {x: 1.0}, target=servers["worker"][0].target, config=config)


@makes_case
def devices_left(*filters: str) -> Any:
    servers = cluster(ps=1, worker=2)
    config = tf.ConfigProto(device_filters=list(filters))
    with tf.Session(servers["worker"][0].target, config=config) as session:
        names = names_of(session.list_devices())
    return sorted(name for name in names if "XLA" not in name)


EACH = {
    "on_ps": "/job:ps/task:0",
    "on_first": "/job:worker/task:0",
    "on_second": "/job:worker/replica:0/task:1/device:CPU:0",
    "on_only_ps": "/job:ps",
    "on_ps_cpu": "/job:ps/cpu:0",
    "on_task_1": "/task:1",
}

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
def there_and_back(value: Any) -> Any:
    servers = cluster(ps=1, worker=1)
    dtype = tf.string if value.dtype == object else value.dtype
    x = tf.placeholder(dtype, value.shape)
    with tf.device("/job:ps"):
        there = tf.stack([x, x])
    with tf.device("/job:worker"):
        back = there[1]
    return run(back, {x: value}, target=servers["worker"][0].target)


@makes_case
def moved(consumers: int, tasks: int) -> Any:
    """Count what the workers receive of one tensor on the ps."""
    servers = cluster(ps=1, worker=2)
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


def case_control_dependency_reaches_across_tasks() -> Any:
    servers = cluster(ps=1, worker=1)
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0, name="v")
        change = tf.assign(variable, 5.0)
    with tf.device("/job:worker"), tf.control_dependencies([change]):
        after = tf.identity(variable.read_value()) * 2.0
    with tf.Session(servers["worker"][0].target) as session:
        session.run(variable.initializer)
        return session.run(after)


OWN = "/job:localhost/replica:0/task:0/device:CPU:0"

REQUESTS: dict[str, str] = {
    "nothing": "",
    "cpu": "/cpu:0",
    "any_cpu": "/device:CPU:*",
    "its_own_name": OWN,
    "job_localhost": "/job:localhost",
    "task_0": "/task:0",
    "another_job": "/job:ps",
    "another_task": "/task:1",
    "another_replica": "/replica:1",
    "a_gpu_that_is_not_there": "/gpu:0",
    "a_second_cpu_that_is_not_there": "/cpu:1",
    "a_type_that_is_not_there": "/device:XPU:0",
    "another_job_and_cpu": "/job:ps/cpu:0",
}


@makes_case
def placed_here(request: str, soft: bool) -> Any:
    x = tf.placeholder(tf.float32, [])
    with tf.device(request):
        y = tf.multiply(x, 2.0, name="y")
    config = tf.ConfigProto(allow_soft_placement=soft)
    return run(y, {x: 3.0}, config=config)


def case_nonsense_from_a_function_fails_when_run() -> Any:
    with tf.device(lambda op: "/zzz:0"):
        value = tf.constant(1.0)
    return run(value)


@makes_case
def variable_on_no_gpu(soft: bool) -> Any:
    with tf.device("/gpu:0"):
        variable = tf.Variable([1.0, 2.0])
    config = tf.ConfigProto(allow_soft_placement=soft)
    with tf.Session(config=config) as session:
        session.run(variable.initializer)
        return [variable.device, session.run(variable + 1.0)]


CASES = {
    "explicit_requests_from_the_first_worker": placed(("worker", 0), **EACH),
    "explicit_requests_from_the_ps": placed(("ps", 0), **EACH),
    "no_request_from_the_second_worker": placed(("worker", 1), free="", cpu="/cpu:0"),
    "no_request_from_the_ps": placed(("ps", 0), free="", cpu="/cpu:*"),
    "a_job_alone_from_the_second_worker": placed(("worker", 1), one="/job:worker"),
    "a_job_alone_from_the_ps": placed(("ps", 0), one="/job:worker"),
    "a_task_alone_from_the_ps": placed(("ps", 0), one="/task:0"),
    "a_task_alone_from_the_first_worker": placed(("worker", 0), one="/task:0"),
    **{f"strict_request_of_{name}": tried(REFUSED[name], False) for name in REFUSED},
    **{f"soft_request_of_{name}": tried(REFUSED[name], True) for name in REFUSED},
    "task_that_is_filtered_out_is_refused": filtered("/job:ps", "/job:worker/task:0"),
    "task_that_is_filtered_in_is_used": filtered("/job:worker"),
    "filters_leave_these_devices": devices_left("/job:ps"),
    "no_filters_leave_all_devices": devices_left(),
    "filters_of_an_unknown_job_leave_the_target": devices_left("/job:moon"),
    **{f"{name}_go_there_and_back": there_and_back(VALUES[name]) for name in VALUES},
    "one_consumer_gets_it_once": moved(1, 1),
    "three_consumers_on_a_task_get_it_once": moved(3, 1),
    "two_tasks_get_it_twice": moved(4, 2),
    **{
        f"strict_{name}": placed_here(item, soft=False)
        for name, item in REQUESTS.items()
    },
    **{f"soft_{name}": placed_here(item, soft=True) for name, item in REQUESTS.items()},
    "strict_variable_on_no_gpu": variable_on_no_gpu(soft=False),
    "soft_variable_on_no_gpu": variable_on_no_gpu(soft=True),
}
