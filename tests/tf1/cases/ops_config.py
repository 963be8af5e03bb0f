"""The messages that configure a session, as plain objects with fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIELDS = (
    "allow_soft_placement log_device_placement intra_op_parallelism_threads "
    "inter_op_parallelism_threads operation_timeout_in_ms isolate_session_state "
    "use_per_session_threads"
)


def case_config_proto_has_defaults(tf: Any) -> Any:
    config = tf.ConfigProto()
    found = {name: getattr(config, name) for name in FIELDS.split()}
    found["device_count"] = dict(config.device_count)
    found["device_filters"] = list(config.device_filters)
    return found


def case_gpu_options_have_defaults(tf: Any) -> Any:
    options = tf.GPUOptions()
    return [
        options.allow_growth,
        options.per_process_gpu_memory_fraction,
        options.visible_device_list,
    ]


def case_config_proto_holds_gpu_options(tf: Any) -> Any:
    options = tf.GPUOptions(
        allow_growth=True, per_process_gpu_memory_fraction=0.25, visible_device_list="1"
    )
    config = tf.ConfigProto(gpu_options=options, device_count={"CPU": 2, "GPU": 0})
    config.gpu_options.allow_growth = False
    found = config.gpu_options
    return [
        [found.allow_growth, found.per_process_gpu_memory_fraction],
        [found.visible_device_list, options.allow_growth],
        sorted(config.device_count.items()),
    ]


def case_config_proto_holds_device_filters(tf: Any) -> Any:
    config = tf.ConfigProto(device_filters=["/job:ps"])
    config.device_filters.append("/job:worker/task:1")
    return list(config.device_filters)


def case_config_proto_is_set_later(tf: Any) -> Any:
    config = tf.ConfigProto()
    config.allow_soft_placement = True
    config.device_count["CPU"] = 3
    config.gpu_options.allow_growth = True
    return [
        config.allow_soft_placement,
        config.device_count["CPU"],
        config.gpu_options.allow_growth,
    ]


def case_config_proto_makes_several_devices(tf: Any) -> Any:
    config = tf.ConfigProto(device_count={"CPU": 3})
    with tf.device("/cpu:2"):
        value = tf.constant(5.0) * 2.0
    with tf.Session(config=config) as session:
        names = [one.name for one in session.list_devices()]
        return [
            [name for name in names if "XLA" not in name],
            session.run(value),
        ]


def case_config_proto_compares_by_fields(tf: Any) -> Any:
    one = tf.ConfigProto(allow_soft_placement=True)
    other = tf.ConfigProto()
    different = one == other
    other.allow_soft_placement = True
    return [different, one == other]


def case_config_proto_is_copied(tf: Any) -> Any:
    one = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
    other = tf.ConfigProto()
    other.CopyFrom(one)
    one.allow_soft_placement = False
    return [other.allow_soft_placement, other.device_count["CPU"]]


CASES: dict[str, Callable[[Any], Any]] = {
    "config_proto_refuses_an_unknown_field": lambda tf: tf.ConfigProto(unknown=1),
    "config_proto_refuses_a_word_as_bool": lambda tf: tf.ConfigProto(
        allow_soft_placement="word"
    ),
    "config_proto_refuses_to_set_an_unknown_field": lambda tf: setattr(
        tf.ConfigProto(), "unknown", 1
    ),
    "gpu_options_refuse_an_unknown_field": lambda tf: tf.GPUOptions(unknown=1),
    "session_refuses_a_config_of_another_type": lambda tf: tf.Session(config={}),
    "session_refuses_a_graph_of_another_type": lambda tf: tf.Session(graph="graph"),
}
