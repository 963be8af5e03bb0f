"""What a program finds when it looks into a graph's messages, and printed forms."""

from __future__ import annotations

import pickle
from operator import add
from typing import Any

from tests.tf1.look import names_of, run, tf


def node(op: Any) -> Any:
    """Tell of a message what all versions agree on, whatever the order."""
    result = op.node_def
    attrs = {key: str(result.attr[key]) for key in sorted(result.attr)}
    return [result.name, result.op, list(result.input), result.device, attrs]


def matrix() -> Any:
    return tf.constant([[1.0, 2.0], [3.0, 4.0]], name="c")


def case_shape_of_a_placeholder() -> Any:
    shape = tf.placeholder(tf.float32, [None, 3]).op.get_attr("shape")
    return [array.size for array in shape.dim]


def first_node() -> Any:
    matrix()
    return tf.get_default_graph().as_graph_def().node[0]


def case_graph_is_whole_from_any_version() -> Any:
    matrix()
    version = tf.get_default_graph().version
    tf.constant(1.0, name="later")
    result = tf.get_default_graph().as_graph_def(from_version=version)
    return names_of(result.node)


def case_device_set_afterwards() -> Any:
    with tf.device("/job:a"):
        made = tf.constant(1.0)
    made.op._set_device("/job:b")
    return made.device


def slices(*shape: Any) -> Any:
    return str(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), *shape))


def case_text_of_an_optimizer_level() -> Any:
    result = tf.ConfigProto()
    result.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return str(result)


def case_container_and_shared_name() -> Any:
    made = tf.Variable(1.0, name="v")
    return [made.op.get_attr(name) for name in ("container", "shared_name")]


CASES = {
    "message_of_a_constant": lambda: node(matrix().op),
    "message_of_a_number": lambda: node(tf.constant(1.5).op),
    "message_of_a_whole_number": lambda: node(tf.constant(7).op),
    "message_of_texts": lambda: node(tf.constant(["a", 'b"']).op),
    "message_of_a_placeholder": lambda: node(
        tf.placeholder(tf.float32, [None, 2], name="p").op
    ),
    "message_of_any_shape": lambda: node(tf.placeholder(tf.int64, name="p").op),
    "message_of_a_variable": lambda: node(tf.Variable(1.0, name="v").op),
    "message_of_an_assignment": lambda: node(tf.Variable(1.0, name="v").initializer),
    "message_of_a_sum_of_two": lambda: node(tf.add(1, 2, name="s").op)[:4][2:],
    "number_of_a_dtype": lambda: first_node().attr["dtype"].type,
    "bytes_of_a_constant": lambda: first_node().attr["value"].tensor.tensor_content,
    "number_of_a_reference": lambda: tf.Variable(1.0).op.node_def.attr["dtype"].type,
    "graph_tells_who_wrote_it": lambda: (
        tf.get_default_graph().as_graph_def().versions.producer > 0
        and tf.get_default_graph().graph_def_versions.producer > 0
    ),
    "text_of_slices": slices,
    "text_of_slices_of_a_whole": lambda: slices(tf.constant([3])),
    "text_of_reuse": lambda: [str(tf.AUTO_REUSE), repr(tf.AUTO_REUSE)],
    "shape_as_a_message": lambda: str(tf.TensorShape([1, None]).as_proto()),
    "any_shape_as_a_message": lambda: str(tf.TensorShape(None).as_proto()),
    "shapes_are_joined": lambda: add(tf.TensorShape([1]), [2]).as_list(),
    "shape_is_joined_to_a_list": lambda: add([3], tf.TensorShape([1])).as_list(),
    "what_two_shapes_share": lambda: (
        tf.TensorShape([1, None, 2]).most_specific_compatible_shape([1, 3, 4]).as_list()
    ),
    "sizes_have_no_hash": lambda: hash(tf.Dimension(3)),
    "fully_known_shapes_have_one": lambda: (
        hash(tf.TensorShape([1])) == hash(tf.TensorShape([1]))
    ),
    "dtype_survives_pickling": lambda: pickle.loads(pickle.dumps(tf.int32)) == tf.int32,
    "version_begins_with_a_number": lambda: [
        tf.__version__[0].isdigit(),
        tf.__version__ == tf.VERSION,
    ],
    "value_of_a_graph_with_messages": lambda: run(matrix()),
}
