"""`tf.graph_util`: a graph whose variables are constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.tf1.not_offered import refusing
from kit.tf1.saved_model.inference_graph import inference_graph


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Any = None,
    variable_names_blacklist: Any = None,
) -> Any:
    """Return a `GraphDef` that TensorFlow reads, which computes some operations.

    It is of the session's graph. Variables are constants with their values. Raises
    `ValueError` for lists of variables, `UnimplementedError` for an operation that has
    no form in TensorFlow's files here.
    """
    if variable_names_whitelist or variable_names_blacklist:
        raise ValueError("all variables become constants; leave the lists out.")
    ops = [sess.graph.get_operation_by_name(name) for name in output_node_names]
    return inference_graph(sess, [op.outputs[0] for op in ops])


__getattr__ = refusing("graph_util")
