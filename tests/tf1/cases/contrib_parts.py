"""Parts of contrib: names of layers' outputs, old losses, averages and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.look import initialized, inner, names_of, run, static, tf


def case_outputs_of_layers_by_name() -> Any:
    slim = tf.contrib.slim
    x = tf.ones([2, 8, 8, 3])
    with tf.variable_scope("net", values=[x]) as scope:
        kept = scope.name + "_end_points"
        with slim.arg_scope(
            [slim.conv2d, slim.fully_connected, slim.max_pool2d],
            outputs_collections=kept,
        ):
            net = slim.repeat(x, 2, slim.conv2d, 4, [3, 3], scope="conv")
            net = slim.max_pool2d(net, [2, 2], scope="pool")
            net = slim.fully_connected(slim.flatten(net), 5, scope="fc")
        slim.utils.collect_named_outputs(kept, "own/", net)
        result = slim.utils.convert_collection_to_dict(kept)
        again = slim.utils.convert_collection_to_dict(kept, clear_collection=True)
    tf.add_to_collection("plain", tf.identity(x, name="x"))
    plain = slim.utils.convert_collection_to_dict("plain")
    return [
        [[name, tensor.shape.as_list()] for name, tensor in result.items()],
        list(again) == list(result),
        tf.get_collection(kept),
        list(plain),
    ]


def case_size_of_a_shape() -> Any:
    shape = tf.TensorShape([None, 3, 4])
    return tf.contrib.slim.utils.last_dimension(shape, min_rank=3)


def case_a_shape_with_too_few_axes() -> Any:
    return tf.contrib.slim.utils.last_dimension(tf.TensorShape([2]), min_rank=2)


def case_losses_with_their_old_order() -> Any:
    logits = np.array([[0.2, -1.0, 3.0], [1.0, 0.0, 0.5]], np.float32)
    labels = np.array([[0, 0, 1], [0, 1, 0]], np.float32)
    nn = tf.contrib.nn
    made = [
        nn.deprecated_flipped_softmax_cross_entropy_with_logits(logits, labels),
        nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(logits, [2, 1]),
        nn.deprecated_flipped_sigmoid_cross_entropy_with_logits(logits, labels),
    ]
    return run(made)


def averages(**how: Any) -> Any:
    moving_averages = inner("python.training.moving_averages")
    with tf.variable_scope("net"):
        mean = tf.get_variable("mean", [2], initializer=tf.zeros_initializer())
    x = tf.placeholder(tf.float32, [2])
    update = moving_averages.assign_moving_average(mean, x, 0.9, **how)
    names = [
        [global_variable.op.name, global_variable.shape.as_list()]
        for global_variable in tf.global_variables()
    ]
    with initialized() as session:
        values = [session.run(update, {x: [i, -2.0]}) for i in (1.0, 5.0, 2.0)]
    return [names, len(tf.trainable_variables()), values]


def settings() -> Any:
    return tf.contrib.training.HParams(
        rate=0.1, units=3, sizes=[1, 2], on=True, how="a"
    )


def case_settings() -> Any:
    made = settings()
    made.parse("rate=2,units=5, sizes=[7,8,9],on=false,how=b")
    made.add_hparam("more", 1.5)
    made.override_from_dict({"units": 6})
    return [
        made.values(),
        made.get("rate"),
        made.get("none", 3),
        "rate" in made,
        made.to_json(sort_keys=True),
        str(made),
    ]


def case_queue_runners_have_a_module() -> Any:
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    runner = tf.train.queue_runner.QueueRunner(queue, [queue.enqueue(1.0)])
    tf.train.queue_runner.add_queue_runner(runner)
    return [len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)), static(queue.size())]


def case_separable_convolutions() -> Any:
    slim = tf.contrib.slim
    x = tf.reshape(tf.range(96.0), [1, 4, 8, 3]) / 96
    start = tf.constant_initializer(0.5)
    with slim.arg_scope(
        [slim.separable_conv2d],
        weights_initializer=start,
        weights_regularizer=slim.l2_regularizer(0.1),
    ):
        made = [
            slim.separable_conv2d(x, 5, [3, 3], 2, stride=2, scope="a"),
            slim.separable_conv2d(x, None, [3, 2], 1, activation_fn=None),
            slim.separable_conv2d(x, 4, 3, padding="VALID", rate=1),
        ]
    kept = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    with initialized() as session:
        return [
            [
                [model_variable.op.name, model_variable.shape.as_list()]
                for model_variable in tf.model_variables()
            ],
            [[tensor.op.name, tensor.shape.as_list()] for tensor in made],
            len(kept),
            session.run([*made, *kept]),
        ]


def case_labels_as_rows() -> Any:
    make = tf.keras.utils.to_categorical
    return [
        make([0, 2, 1]),
        make([[1], [0]], 3),
        make([[1, 0]], 2, dtype="int64"),
        make(2),
    ]


def case_elements_that_wait_for_a_step(session: Any) -> Any:
    make = tf.contrib.staging.StagingArea
    area = make([tf.float32, tf.int32], [[2], []])
    named = make([tf.float32], names=["x"])
    first = make([tf.int32], [[]])
    put = area.put([tf.constant([1.0, 2.0]), tf.constant(3)])
    got, waiting = area.get(), area.size()
    put_named, got_named = named.put({"x": tf.constant([4.0])}), named.get()
    put_one, got_one = first.put([tf.constant(5)]), first.get()
    session.run([put, put_named, put_one])
    return [
        [first.name, area.names, [shape.as_list() for shape in area.shapes]],
        [[part.shape.as_list(), part.dtype.name] for part in got],
        session.run(waiting),
        session.run([got, got_named, got_one]),
        session.run(waiting),
    ]


def case_metrics_by_name() -> Any:
    made = {"a": tf.metrics.mean([1.0, 2.0]), "b": tf.metrics.accuracy([1], [1])}
    values, updates = tf.contrib.metrics.aggregate_metric_map(made)
    pairs = tf.contrib.metrics.aggregate_metrics(*made.values())
    return [
        [[name, item.name] for name, item in values.items()],
        [[name, item.name] for name, item in updates.items()],
        [names_of(part) for part in pairs],
    ]


def case_scope_from_before_1_0() -> Any:
    x = tf.ones([2])
    with tf.op_scope([x], None, "own") as scope:
        return [scope, tf.identity(x, name="y").name]


def case_files_by_other_names(folder: Path) -> Any:
    file_io = inner("python.lib.io.file_io")
    below = str(folder / "a" / "b")
    file_io.recursive_create_dir(below)
    file_io.write_string_to_file(below + "/x.txt", "text")
    with file_io.FileIO(below + "/y.txt", mode="w") as file:
        file.write("more")
    file_io.copy(below + "/x.txt", below + "/z.csv")
    file_io.delete_file(below + "/y.txt")
    return [
        file_io.read_file_to_string(below + "/z.csv"),
        file_io.read_file_to_string(below + "/x.txt", binary_mode=True),
        sorted(file_io.get_matching_files([below + "/*.txt", below + "/*.csv"])),
        file_io.file_exists(below + "/y.txt"),
        file_io.is_directory(below),
        sorted(file_io.list_directory(below)),
        file_io.stat(below + "/x.txt").length,
    ]


CASES = {
    "moving_average": lambda: averages(zero_debias=False),
    "moving_average_that_did_not_begin_at_zero": lambda: averages(),
    "setting_that_is_not_there": lambda: settings().parse("depth=3").values(),
    "setting_of_another_type": lambda: settings().parse("units=much").values(),
    "setting_twice": lambda: settings().add_hparam("rate", 1),
    "no_metrics": lambda: tf.contrib.metrics.aggregate_metrics(),
    "settings_of_a_list_one_by_one": lambda: settings().parse("sizes[1]=4").values(),
}
