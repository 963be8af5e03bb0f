"""The messages that configure a session, as plain objects with fields."""

from __future__ import annotations

from typing import Any


def case_config_proto_holds_gpu_options(tf: Any) -> Any:
    options = tf.GPUOptions(
        allow_growth=True, per_process_gpu_memory_fraction=0.25, visible_device_list="1"
    )
    config = tf.ConfigProto(gpu_options=options, device_count={"CPU": 2, "GPU": 0})
    config.gpu_options.allow_growth = False
    result = config.gpu_options
    return [
        [result.allow_growth, result.per_process_gpu_memory_fraction],
        [result.visible_device_list, options.allow_growth],
        sorted(config.device_count.items()),
    ]


CASES = {
    "config_proto_refuses_an_unknown_field": lambda tf: tf.ConfigProto(unknown=1),
    "config_proto_refuses_to_set_an_unknown_field": lambda tf: setattr(
        tf.ConfigProto(), "unknown", 1
    ),
    "gpu_options_refuse_an_unknown_field": lambda tf: tf.GPUOptions(unknown=1),
    "session_refuses_a_config_of_another_type": lambda tf: tf.Session(config={}),
    "session_refuses_a_graph_of_another_type": lambda tf: tf.Session(graph="graph"),
}
