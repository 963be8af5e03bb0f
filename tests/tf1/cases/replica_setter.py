"""Which device `replica_device_setter` gives an operation, by which strategy."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import Case, makes_case, tf

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


def devices(setter: Any, inner: Any = "") -> list[str]:
    """Tell the devices of v, and of w and c that stand in an inner scope, and of x."""
    with tf.device(setter):
        v = tf.Variable(1.0, name="v")
        with tf.device(inner):
            w = tf.Variable(1.0, name="w")
            c = tf.constant(1.0, name="c")
        x = tf.Variable(1.0, name="x")
    return [str(tensor.device) for tensor in (v, w, c, x)]


@makes_case
def set_by(inner: Any = "", **options: Any) -> Any:
    setter = tf.train.replica_device_setter(**options)
    return [setter is None, devices(setter, inner)]


def case_cluster_as_a_def() -> Any:
    spec = tf.train.ClusterSpec(CLUSTER).as_cluster_def()
    return devices(tf.train.replica_device_setter(cluster=spec))


@makes_case
def with_a_scope_outside(outer: str) -> Any:
    with tf.device(outer):
        return devices(tf.train.replica_device_setter(cluster=CLUSTER))


def case_setter_counts_over_graphs() -> Any:
    setter = tf.train.replica_device_setter(ps_tasks=2)
    seen = []
    for _ in range(2):
        with tf.Graph().as_default(), tf.device(setter):
            seen.append([tf.Variable(1.0).device for _ in range(3)])
    return seen


def case_queues_go_to_the_worker() -> Any:
    with tf.device(tf.train.replica_device_setter(cluster=CLUSTER)):
        return tf.FIFOQueue(3, tf.float32).queue_ref.device


def greedy(tasks: int, shapes: list[list[int]]) -> Any:
    training = tf.contrib.training
    strategy = training.GreedyLoadBalancingStrategy(tasks, training.byte_size_load_fn)
    setter = tf.train.replica_device_setter(ps_tasks=tasks, ps_strategy=strategy)
    with tf.device(setter):
        made = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    return [tensor.device for tensor in made]


def case_greedy_counts_bytes_of_the_dtype() -> Any:
    training = tf.contrib.training
    strategy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    setter = tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)
    with tf.device(setter):
        made = [
            tf.Variable(tf.zeros([10], dtype))
            for dtype in (tf.float64, tf.float32, tf.int32, tf.int64, tf.float16)
        ]
    return [tensor.device for tensor in made]


def case_greedy_takes_a_load_of_ones_own() -> Any:
    loads = iter([3.0, 1.0, 1.0, 1.0, 5.0])
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(
        2, lambda op: next(loads)
    )
    op = tf.no_op()
    return [int(strategy(op)) for _ in range(5)]


def bytes_of(make: Case) -> Case:
    return lambda: int(tf.contrib.training.byte_size_load_fn(make().op))


def by_chance(**options: Any) -> Any:
    strategy = tf.contrib.training.RandomStrategy(5, **options)
    return [int(strategy(tf.no_op(name))) for name in ("w", "b", "layer/w", "layer/b")]


def parts(partitioner: Any, shape: list[int], dtype: Any = None) -> Any:
    with tf.variable_scope("layer", partitioner=partitioner):
        variable = tf.get_variable("w", shape, dtype or tf.float32)
    return [[tensor.name, tensor.shape.as_list()] for tensor in variable]


@makes_case
def fixed(rows: int, count: int, axis: int = 0) -> Any:
    shape = [rows, 2] if axis == 0 else [2, rows]
    return parts(tf.fixed_size_partitioner(count, axis), shape)


GREEDY = [[100], [10], [20], [80], [1], [1]]


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
    "greedy_gives_to_the_least_loaded": lambda: greedy(2, GREEDY),
    "greedy_over_three_tasks": lambda: greedy(3, GREEDY),
    "greedy_over_one_task": lambda: greedy(1, GREEDY),
    "greedy_counts_matrices": lambda: greedy(2, [[3, 4], [12], [1], [5, 5]]),
    "byte_size_of_a_vector": bytes_of(lambda: tf.Variable(tf.zeros([10]))),
    "byte_size_of_a_scalar": bytes_of(lambda: tf.Variable(1.0)),
    "byte_size_of_float64": bytes_of(lambda: tf.zeros([2, 3], tf.float64)),
    "byte_size_of_an_unknown_shape": bytes_of(lambda: tf.placeholder(tf.float32)),
    "byte_size_of_several_outputs": bytes_of(lambda: tf.split(tf.zeros([4]), 2)[0]),
    "random_strategy_goes_by_the_name": lambda: by_chance(),
    "random_strategy_goes_by_the_seed": lambda: by_chance(seed=7),
    "seven_rows_in_three": fixed(7, 3),
    "ten_rows_in_four": fixed(10, 4),
    "two_rows_in_three": fixed(2, 3),
    "six_columns_in_two": fixed(6, 2, axis=1),
    "one_part": fixed(4, 1),
    "parts_of_at_least_256_kib": lambda: parts(
        tf.min_max_variable_partitioner(8), [20, 4]
    ),
    "parts_of_at_most_a_size": lambda: parts(
        tf.variable_axis_size_partitioner(100), [20, 4]
    ),
    "parts_of_at_most_a_size_and_number": lambda: parts(
        tf.variable_axis_size_partitioner(100, max_shards=2), [20, 4]
    ),
}
