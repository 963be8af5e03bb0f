"""Placement in a cluster of servers of one process, read from where each node ran."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case
from tests.tf1.servers import cluster

REFUSED: dict[str, str] = {
    "an_unknown_job": "/job:moon",
    "an_unknown_task": "/job:worker/task:7",
    "an_unknown_replica": "/job:worker/replica:1",
    "a_gpu": "/job:worker/task:0/gpu:0",
    "a_second_cpu": "/job:worker/task:0/cpu:1",
    "an_unknown_type": "/job:ps/device:XPU:0",
}


def ran_at(tf: Any, session: Any, fetches: Any, feeds: Any) -> dict[str, str]:
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
def placed(tf: Any, target: tuple[str, int], **requests: str) -> Any:
    servers = cluster(tf, ps=1, worker=2)
    x = tf.placeholder(tf.float32, [])
    fetches: list[Any] = []
    for name, request in requests.items():
        with tf.device(request):  # two equal operations would become one
            fetches.append(tf.multiply(x, len(fetches) + 2.0, name=name))
    job, task = target
    with tf.Session(servers[job][task].target) as session:
        result = ran_at(tf, session, fetches, {x: 1.0})
    return sorted(result.items())


@makes_case
def tried(tf: Any, request: str, soft: bool) -> Any:
    servers = cluster(tf, ps=1, worker=1)
    x = tf.placeholder(tf.float32, [])
    with tf.device(request):
        y = tf.multiply(x, 2.0, name="y")
    config = tf.ConfigProto(allow_soft_placement=soft)
    with tf.Session(servers["ps"][0].target, config=config) as session:
        return sorted(ran_at(tf, session, [y], {x: 1.0}).items())


@makes_case
def filtered(tf: Any, *filters: str) -> Any:
    servers = cluster(tf, ps=1, worker=2)
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker/task:1"):
        y = tf.multiply(x, 2.0, name="y")
    config = tf.ConfigProto(device_filters=list(filters))
    with tf.Session(servers["worker"][0].target, config=config) as session:
        return session.run(y, {x: 1.0})


@makes_case
def devices_left(tf: Any, *filters: str) -> Any:
    servers = cluster(tf, ps=1, worker=2)
    config = tf.ConfigProto(device_filters=list(filters))
    with tf.Session(servers["worker"][0].target, config=config) as session:
        names = [device.name for device in session.list_devices()]
    return sorted(name for name in names if "XLA" not in name)


EACH = {
    "on_ps": "/job:ps/task:0",
    "on_first": "/job:worker/task:0",
    "on_second": "/job:worker/replica:0/task:1/device:CPU:0",
    "on_only_ps": "/job:ps",
    "on_ps_cpu": "/job:ps/cpu:0",
    "on_task_1": "/task:1",
}

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
}
