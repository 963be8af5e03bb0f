"""Session: deadlines, cancelling, traces, configs and the list of devices."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.tf1.servers import addresses, cluster

SHORT_MS = 100


def blocked(tf: Any) -> Any:
    """Return an operation that waits for an element that nobody enqueues."""
    return tf.FIFOQueue(1, tf.int32, name="empty").dequeue()


def case_a_run_ends_at_its_deadline(tf: Any) -> Any:
    waiting = blocked(tf)
    with tf.Session() as session:
        options = tf.RunOptions(timeout_in_ms=SHORT_MS)
        return session.run(waiting, options=options)


def case_a_run_on_a_server_ends_at_its_deadline(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    waiting = blocked(tf)
    with tf.Session(server.target) as session:
        options = tf.RunOptions(timeout_in_ms=SHORT_MS)
        return session.run(waiting, options=options)


def case_the_deadline_of_the_config_holds_for_every_run(tf: Any) -> Any:
    waiting = blocked(tf)
    config = tf.ConfigProto(operation_timeout_in_ms=SHORT_MS)
    with tf.Session(config=config) as session:
        return session.run(waiting)


def case_a_run_in_time_does_not_mind_the_deadline(tf: Any) -> Any:
    with tf.Session() as session:
        options = tf.RunOptions(timeout_in_ms=20000)
        return session.run(tf.constant(7), options=options)


def case_a_session_works_after_a_deadline(tf: Any) -> Any:
    waiting = blocked(tf)
    with tf.Session() as session:
        try:
            session.run(waiting, options=tf.RunOptions(timeout_in_ms=SHORT_MS))
        except tf.errors.DeadlineExceededError:
            return session.run(tf.constant(7))


def closed_while_running(tf: Any, target: str) -> Any:
    waiting = blocked(tf)
    session = tf.Session(target)
    session.run(tf.constant(7))
    found: list[Any] = []

    def wait() -> None:
        try:
            session.run(waiting)
        except tf.errors.OpError as error:
            found.append(type(error).__name__)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # the run needs a moment to reach the queue
    session.close()
    thread.join(10.0)
    return found


def case_closing_cancels_what_runs(tf: Any) -> Any:
    return closed_while_running(tf, "")


def case_closing_cancels_what_runs_on_a_server(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    return closed_while_running(tf, server.target)


def case_run_metadata_needs_no_options(tf: Any) -> Any:
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        found = session.run(tf.constant(7), run_metadata=metadata)
    return found, len(metadata.step_stats.dev_stats)


def case_a_full_trace_names_device_and_nodes(tf: Any) -> Any:
    fed = tf.Variable(2.0, name="v")
    with tf.Session() as session:
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(fed.initializer)
        session.run(tf.add(fed, fed, name="sum"), None, options, metadata)
    stats = metadata.step_stats.dev_stats
    nodes = {node.node_name for one in stats for node in one.node_stats}
    devices = {one.device for one in stats}
    name = "/job:localhost/replica:0/task:0/device:CPU:0"
    return "sum" in nodes, name in devices


def case_a_full_trace_has_a_row_for_each_task(tf: Any) -> Any:
    servers = cluster(tf, ps=1, worker=1)
    with tf.device("/job:ps/task:0"):
        fed = tf.placeholder(tf.float32, [], name="fed")
        left = tf.multiply(fed, 2.0, name="left")
    with tf.device("/job:worker/task:0"):
        right = tf.multiply(left, 3.0, name="right")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session(servers["worker"][0].target) as session:
        session.run(right, {fed: 1.0}, options, metadata)
    rows = {
        node.node_name: one.device
        for one in metadata.step_stats.dev_stats
        for node in one.node_stats
    }
    return [rows.get(name) for name in ("left", "right")]


def case_a_trace_has_times(tf: Any) -> Any:
    fed = tf.placeholder(tf.float32, [])
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        session.run(tf.add(fed, fed, name="sum"), {fed: 1.0}, options, metadata)
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            if node.node_name == "sum":
                return node.all_start_micros > 0, node.all_end_rel_micros >= 0


def case_the_values_of_the_trace_levels(tf: Any) -> Any:
    levels = ("NO_TRACE", "SOFTWARE_TRACE", "HARDWARE_TRACE", "FULL_TRACE")
    return [getattr(tf.RunOptions, one) for one in levels]


def case_a_config_has_these_defaults(tf: Any) -> Any:
    config = tf.ConfigProto()
    return {
        "allow_soft_placement": config.allow_soft_placement,
        "log_device_placement": config.log_device_placement,
        "operation_timeout_in_ms": config.operation_timeout_in_ms,
        "intra_op_parallelism_threads": config.intra_op_parallelism_threads,
        "inter_op_parallelism_threads": config.inter_op_parallelism_threads,
        "isolate_session_state": config.isolate_session_state,
        "device_filters": list(config.device_filters),
        "device_count": dict(config.device_count),
        "allow_growth": config.gpu_options.allow_growth,
    }


def case_a_config_is_filled_field_by_field(tf: Any) -> Any:
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.per_process_gpu_memory_fraction = 0.5
    config.device_filters.append("/job:ps")
    config.device_count["CPU"] = 2
    config.allow_soft_placement = True
    gpu = config.gpu_options
    return (
        (gpu.allow_growth, gpu.per_process_gpu_memory_fraction),
        (list(config.device_filters), config.device_count["CPU"]),
        config.allow_soft_placement,
    )


def case_a_config_takes_gpu_options(tf: Any) -> Any:
    options = tf.GPUOptions(visible_device_list="0", allow_growth=True)
    config = tf.ConfigProto(gpu_options=options, log_device_placement=False)
    return config.gpu_options.visible_device_list, config.gpu_options.allow_growth


def case_a_config_refuses_an_unknown_field(tf: Any) -> Any:
    return tf.ConfigProto(moon=True)


def case_a_config_refuses_to_set_an_unknown_field(tf: Any) -> Any:
    config = tf.ConfigProto()
    config.moon = True


def case_a_config_refuses_text_for_a_bool(tf: Any) -> Any:
    return tf.ConfigProto(allow_soft_placement="yes")


def case_the_config_makes_devices_of_a_session_here(tf: Any) -> Any:
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.device("/cpu:1"):
        seven = tf.constant(7)
    with tf.Session(config=config) as session:
        names = [one.name for one in session.list_devices()]
        return session.run(seven), [one for one in names if "device:CPU" in one]


def case_a_device_has_these_members(tf: Any) -> Any:
    with tf.Session() as session:
        cpu = next(one for one in session.list_devices() if one.device_type == "CPU")
    return cpu.name, cpu.device_type, cpu.memory_limit_bytes, cpu.incarnation != 0


def case_the_devices_of_the_target_come_first(tf: Any) -> Any:
    servers = cluster(tf, ps=1, worker=2)
    with tf.Session(servers["worker"][1].target) as session:
        names = [one.name for one in session.list_devices() if one.device_type == "CPU"]
    return names[0], sorted(names)


def case_a_new_server_has_a_new_incarnation(tf: Any) -> Any:
    found = set()
    for _ in range(2):
        server = tf.train.Server({"w": addresses(1)})
        with tf.Session(server.target) as session:
            found |= {one.incarnation for one in session.list_devices()}
    return len(found) > 1


def case_filters_let_a_session_run_without_all_tasks(tf: Any) -> Any:
    spec = {"ps": addresses(1), "worker": addresses(2)}
    ps = tf.train.Server(spec, "ps", 0)
    worker = tf.train.Server(spec, "worker", 0)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.device("/job:ps/task:0"):
        seven = tf.constant(7)
    with tf.Session(worker.target, config=config) as session:
        names = [one.name for one in session.list_devices() if one.device_type == "CPU"]
        return session.run(seven + 1), sorted(names), ps.target == worker.target


def case_a_device_that_was_filtered_out_is_refused(tf: Any) -> Any:
    servers = cluster(tf, ps=1, worker=2)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.device("/job:worker/task:1"):
        seven = tf.constant(7)
    with tf.Session(servers["worker"][0].target, config=config) as session:
        return session.run(seven + 1)
