"""`replica_device_setter`: which device each operation gets."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case

CLUSTER = {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1", "e:1"]}

# What stands in a scope inside the setter's.
INNER: dict[str, Any] = {
    "cpu": "/cpu:0",
    "another_job": "/job:moon",
    "job_ps": "/job:ps",
    "job_ps_and_task": "/job:ps/task:1",
    "task": "/task:1",
    "none": None,
    "job_worker_and_task": "/job:worker/task:2",
    "gpu": "/gpu:1",
    "nothing": "",
    "replica": "/replica:1",
}


def devices(tf: Any, setter: Any, inner: Any = "") -> list[str]:
    """Tell the devices of v, and of w and c that stand in an inner scope, and of x."""
    with tf.device(setter):
        v = tf.Variable(1.0, name="v")
        with tf.device(inner):
            w = tf.Variable(1.0, name="w")
            c = tf.constant(1.0, name="c")
        x = tf.Variable(1.0, name="x")
    return [str(tensor.device) for tensor in (v, w, c, x)]


@makes_case
def set_by(tf: Any, inner: Any = "", **options: Any) -> Any:
    setter = tf.train.replica_device_setter(**options)
    return [setter is None, devices(tf, setter, inner)]


def case_cluster_as_a_def(tf: Any) -> Any:
    spec = tf.train.ClusterSpec(CLUSTER).as_cluster_def()
    return devices(tf, tf.train.replica_device_setter(cluster=spec))


@makes_case
def with_a_scope_outside(tf: Any, outer: str) -> Any:
    with tf.device(outer):
        return devices(tf, tf.train.replica_device_setter(cluster=CLUSTER))


def case_setter_counts_over_graphs(tf: Any) -> Any:
    setter = tf.train.replica_device_setter(ps_tasks=2)
    seen = []
    for _ in range(2):
        with tf.Graph().as_default(), tf.device(setter):
            seen.append([tf.Variable(1.0).device for _ in range(3)])
    return seen


def case_queues_go_to_the_worker(tf: Any) -> Any:
    with tf.device(tf.train.replica_device_setter(cluster=CLUSTER)):
        return tf.FIFOQueue(3, tf.float32).queue_ref.device


CASES = {
    **{f"inner_{name}": set_by(INNER[name], cluster=CLUSTER) for name in INNER},
    **{
        f"unmerged_inner_{name}": set_by(
            INNER[name], cluster=CLUSTER, merge_devices=False
        )
        for name in INNER
    },
    "cluster_overrides_the_number": set_by(ps_tasks=5, cluster=CLUSTER),
    "cluster_without_the_ps_job": set_by(cluster={"worker": ["a:1"]}),
    "cluster_with_an_empty_ps_job": set_by(cluster={"ps": [], "worker": ["a:1"]}),
    "cluster_with_a_sparse_ps_job": set_by(cluster={"ps": {0: "a:1", 5: "b:1"}}),
    "cluster_and_no_ps_device": set_by(ps_device="", cluster=CLUSTER),
    "no_tasks": set_by(ps_tasks=0),
    "nothing_at_all": set_by(),
    "one_task": set_by(ps_tasks=1),
    "three_tasks": set_by(ps_tasks=3),
    "ps_device_without_a_job": set_by(ps_tasks=2, ps_device="/cpu:0"),
    "ps_device_with_a_task": set_by(ps_tasks=2, ps_device="/job:ps/task:1"),
    "ps_device_with_a_cpu": set_by(ps_tasks=2, ps_device="/job:ps/cpu:0"),
    "ps_device_that_is_empty": set_by(ps_tasks=2, ps_device=""),
    "worker_device_with_a_task": set_by(ps_tasks=2, worker_device="/job:worker/task:7"),
    "worker_device_that_is_empty": set_by(ps_tasks=2, worker_device=""),
    "worker_device_that_is_none": set_by(ps_tasks=2, worker_device=None),
    "ps_ops_of_ones_own": set_by(ps_tasks=2, ps_ops=["Const"]),
    "no_ps_ops": set_by(ps_tasks=2, ps_ops=[]),
    "gpu_outside": with_a_scope_outside("/gpu:3"),
    "job_outside": with_a_scope_outside("/job:moon/task:9"),
    "cluster_that_is_a_number": set_by(cluster=3),
    "cluster_that_is_a_word": set_by(cluster="ps"),
    "cluster_that_is_a_list": set_by(cluster=["a:1"]),
    "strategy_that_is_no_function": set_by(ps_tasks=2, ps_strategy=3),
    "ps_device_that_is_nonsense": set_by(ps_tasks=2, ps_device="/zzz:0"),
    "strategy_of_ones_own": set_by(ps_tasks=4, ps_strategy=lambda op: 3),
    "strategy_beyond_the_tasks": set_by(ps_tasks=2, ps_strategy=lambda op: 7),
}
