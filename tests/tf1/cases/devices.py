"""Devices: what texts and scopes mean, and what replica_device_setter chooses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tests.tf1.look import Case, makes_case, run, tf

TEXTS: dict[str, Any] = {
    "nothing": "",
    "a_slash": "/",
    "two_slashes": "//",
    "none": None,
    "cpu_0_in_small_letters": "/cpu:0",
    "cpu_0_in_capitals": "/CPU:0",
    "cpu_0_without_a_slash": "cpu:0",
    "device_cpu_0": "/device:CPU:0",
    "device_cpu_0_in_small_letters": "/device:cpu:0",
    "gpu_1_in_small_letters": "/gpu:1",
    "gpu_1_in_capitals": "/GPU:1",
    "device_gpu_1_in_small_letters": "/device:gpu:1",
    "cpu_without_an_index": "/cpu",
    "cpu_without_slash_and_index": "CPU",
    "cpu_with_any_index": "/cpu:*",
    "device_cpu_with_any_index": "/device:CPU:*",
    "device_gpu_without_an_index": "/device:GPU",
    "a_type_of_ones_own": "/device:MyDev:3",
    "a_type_of_ones_own_in_small_letters": "/device:xpu:0",
    "a_mixed_case_cpu": "/device:Cpu:0",
    "tpu_0": "/TPU:0",
    "everything": "/job:ps/replica:0/task:3/device:GPU:1",
    "everything_backwards": "/device:GPU:1/task:3/replica:0/job:ps",
    "a_doubled_slash": "/job:ps//task:1",
    "a_slash_at_the_end": "/job:ps/task:1/",
    "no_slash_in_front": "job:ps/task:1",
    "two_jobs": "/job:a/job:b",
    "two_tasks": "/task:1/task:2",
    "two_replicas": "/replica:1/replica:2",
    "two_types": "/cpu:0/gpu:0",
    "one_type_twice": "/device:CPU:0/device:CPU:0",
    "any_job": "/job:*",
    "any_task": "/task:*",
    "any_replica": "/replica:*",
    "a_word_as_task": "/task:x",
    "a_word_as_replica": "/replica:x",
    "a_fraction_as_task": "/task:1.5",
    "a_word_as_gpu_index": "/gpu:x",
    "a_word_as_device_index": "/device:GPU:x",
    "a_space_before_the_task": "/task: 1",
    "a_space_at_the_end": "/cpu:0 ",
    "a_space_in_front": " /cpu:0",
    "a_negative_task": "/task:-1",
    "a_negative_gpu": "/gpu:-1",
    "job_in_capitals": "/JOB:ps",
    "task_with_a_capital": "/Task:1",
    "an_unknown_part": "/foo:1",
    "an_unknown_word": "/foo",
    "a_job_without_a_name": "/job",
    "a_job_with_an_empty_name": "/job:",
    "a_job_with_two_names": "/job:a:b",
    "a_job_alone": "/job:worker",
    "a_task_alone": "/task:7",
    "a_job_of_letters_and_digits": "/job:worker_2/task:10",
    "a_number": 3,
    "bytes": b"/cpu:0",
}

FIELDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a_job": {"job": "ps"},
    "job_and_task": {"job": "ps", "task": 1},
    "everything": {
        **{"job": "ps", "replica": 0, "task": 1},
        **{"device_type": "GPU", "device_index": 2},
    },
    "a_type_in_small_letters": {"device_type": "cpu", "device_index": 0},
    "a_type_in_mixed_letters": {"device_type": "Cpu", "device_index": 0},
    "a_type_without_an_index": {"device_type": "GPU"},
    "an_index_without_a_type": {"device_index": 0},
    "a_task_in_digits": {"task": "1"},
    "a_task_in_letters": {"task": "x"},
    "an_index_in_letters": {"device_type": "CPU", "device_index": "x"},
    "a_replica_in_letters": {"replica": "x"},
    "a_job_that_is_a_number": {"job": 1},
    "an_unknown_field": {"host": "a"},
}

# A spec, and another that is laid over it.
MERGES: dict[str, tuple[str, str]] = {
    "fields_that_are_apart": ("/job:ps", "/task:1/cpu:0"),
    "fields_that_clash": ("/job:ps/task:1/gpu:0", "/job:worker/cpu:1"),
    "nothing": ("/job:ps/task:1", ""),
    "any_index": ("/device:GPU:1", "/device:CPU:*"),
    "task_zero": ("/job:ps/task:1", "/task:0"),
}


@makes_case
def parsed(text: Any) -> Any:
    spec = tf.DeviceSpec.from_string(text)
    parts = [spec.job, spec.replica, spec.task, spec.device_type, spec.device_index]
    return [spec.to_string(), parts]


def built(fields: dict[str, Any]) -> Case:
    return lambda: tf.DeviceSpec(**fields).to_string()


@makes_case
def merged(left: str, right: str) -> Any:
    spec = tf.DeviceSpec.from_string(left)
    other = tf.DeviceSpec.from_string(right)
    result = spec.make_merged_spec(other)
    before = spec.to_string()
    spec.merge_from(other)
    return [result.to_string(), before, spec.to_string(), other.to_string()]


@makes_case
def in_a_scope(text: Any) -> Any:
    with tf.device(text):
        return tf.constant(1.0).device


def case_replace_gives_another_spec() -> Any:
    spec = tf.DeviceSpec(job="ps", task=1)
    other = spec.replace(task=2, device_type="gpu", device_index=0)
    return [spec.to_string(), other.to_string(), spec.replace(job=None).to_string()]


SCOPES = [
    *("nothing", "a_slash", "none", "cpu_0_in_small_letters", "cpu_without_an_index"),
    *("everything", "everything_backwards", "device_gpu_without_an_index"),
    *("two_types", "a_word_as_task", "an_unknown_part", "a_number", "any_job"),
    *("no_slash_in_front", "job_in_capitals", "a_negative_task"),
]


# From the outer scope to the inner one.
NESTED: dict[str, list[Any]] = {
    "job_outside_and_cpu_inside": ["/job:ps", "/cpu:0"],
    "another_job_inside_keeps_the_task": ["/job:ps/task:0", "/job:worker"],
    "another_task_inside": ["/job:ps/task:0", "/task:1"],
    "any_cpu_inside_gpu_1": ["/device:GPU:1", "/device:CPU:*"],
    "cpu_inside_gpu_1": ["/device:GPU:1", "/cpu"],
    "any_gpu_inside_gpu_1": ["/device:GPU:1", "/device:GPU:*"],
    "none_inside": ["/job:ps/gpu:1", None],
    "cpu_inside_none": ["/job:ps", None, "/cpu:0"],
    "nothing_inside": ["/job:ps", ""],
    "a_slash_inside": ["/job:ps", "/"],
    "none_outside": [None, "/job:ps"],
    "three_scopes": ["/job:ps", "/task:3", "/gpu:1"],
    "three_scopes_that_clash": ["/job:a/task:1", "/job:b/cpu:0", "/job:c"],
    "cpu_outside_and_job_inside": ["/cpu:0", "/job:ps/task:1"],
    "everything_outside": ["/job:ps/replica:0/task:1/device:CPU:0", "/task:2"],
    "replica_outside": ["/replica:1", "/job:ps"],
}


def nested(scopes: list[Any]) -> str:
    with ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(tf.device(scope))
        return str(tf.constant(1.0).device)


def of_texts(scopes: list[Any]) -> Case:
    return lambda: nested(scopes)


def case_specs_merge_as_their_texts_do() -> Any:
    make = tf.DeviceSpec.from_string
    return {
        name: nested([scope if scope is None else make(scope) for scope in scopes])
        for name, scopes in NESTED.items()
    }


def with_functions(*scopes: Any) -> Case:
    return lambda: nested(list(scopes))


def giving(value: Any) -> Callable[[Any], Any]:
    return lambda op: value


def raising(op: Any) -> Any:
    raise KeyError(op.name)


def case_function_may_give_a_spec() -> Any:
    spec = tf.DeviceSpec(job="fn", device_type="GPU", device_index=0)
    return nested(["/job:ps/task:1", giving(spec)])


def groups(tensor: Any) -> list[Any]:
    return [sorted(tensor.op.colocation_groups()), tensor.device]


def anchored() -> Any:
    with tf.device("/job:ps/task:1"):
        return tf.constant(1.0, name="anchor")


def case_colocated_ignores_a_device_scope_inside() -> Any:
    with tf.colocate_with(anchored()), tf.device("/job:worker/gpu:1"):
        return groups(tf.constant(2.0))


def case_colocated_by_the_graph() -> Any:
    with tf.get_default_graph().colocate_with(anchored()):
        return groups(tf.constant(2.0))


def case_group_that_wants_this_task_runs() -> Any:
    free = tf.constant(1.0)
    with tf.colocate_with(free), tf.device("/cpu:0"):
        made = tf.identity(free)
    return run(made)


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


CASES: dict[str, Case] = {
    **{f"from_string_of_{name}": parsed(text) for name, text in TEXTS.items()},
    **{f"constructor_of_{name}": built(fields) for name, fields in FIELDS.items()},
    **{f"merge_of_{name}": merged(*pair) for name, pair in MERGES.items()},
    **{f"scope_of_{name}": in_a_scope(TEXTS[name]) for name in SCOPES},
    "replace_refuses_an_unknown_field": lambda: tf.DeviceSpec().replace(host="a"),
    "a_spec_can_be_a_scope": lambda: in_a_scope(tf.DeviceSpec(job="ps", task=1))(),
    "merge_with_text_is_refused": lambda: tf.DeviceSpec().merge_from("/cpu:0"),
    **{f"scopes_{name}": of_texts(scopes) for name, scopes in NESTED.items()},
    "function_that_gives_none_is_refused": with_functions("/job:ps", giving(None)),
    "function_that_gives_a_number_is_refused": with_functions(giving(3)),
    "function_that_raises_is_heard": with_functions(raising),
    "function_may_give_nonsense": with_functions(giving("/zzz:0")),
    "scope_of_a_bad_text_is_refused": of_texts(["/job:ps", "/zzz:0"]),
    "scope_of_a_number_is_refused": of_texts([3]),
    "not_colocated_is_a_group_of_its_own": lambda: groups(tf.constant(1.0, name="c")),
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
