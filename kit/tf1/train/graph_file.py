"""`tf.train.write_graph`: the operations of a graph in a file, to look at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kit.checkpoint.files import replace_file
from kit.tf1.graph.graph_def import GraphDef
from kit.tf1.summary.messages import parsed
from kit.tf1.train.checkpointing.meta_graph import MetaGraphDef


def write_graph(
    graph_or_graph_def: Any,
    logdir: str | os.PathLike[str],
    name: str,
    as_text: bool = True,
) -> str:
    """Write a graph, or a `GraphDef`, to a file in a folder, and return its path.

    The folder is made if need be. Without `as_text` the file has protobuf's bytes, for
    which TensorBoard must be installed. Raises `TypeError` for what is no graph.
    """
    graph = graph_or_graph_def
    definition = graph.as_graph_def() if hasattr(graph, "as_graph_def") else graph
    is_message = hasattr(
        definition, "SerializeToString"
    )  # of convert_variables_to_constants
    if not is_message and not isinstance(definition, GraphDef | MetaGraphDef):
        raise TypeError(
            f"{graph!r} is not a graph; give session.graph or tf.get_default_graph()."
        )
    path = Path(logdir, name)
    if as_text:
        data = str(definition).encode()
    else:
        kept = (
            definition
            if is_message
            else parsed(type(definition).__name__, str(definition))
        )
        data = kept.SerializeToString()
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)
    return str(path)
