"""A graph in a file: as text to read, or as protobuf's bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto.graph_pb2 import GraphDef

from kit import tf1 as tf


def test_graph_is_written_as_text_and_as_bytes_of_the_same_message(
    tmp_path: Path, graph: Any
) -> None:
    tf.add(tf.constant(1.5, name="a"), 2.0, name="b")
    folder = tmp_path / "new" / "folder"

    text = tf.train.write_graph(graph, str(folder), "graph.pbtxt")
    binary = tf.train.write_graph(
        graph.as_graph_def(), folder, "graph.pb", as_text=False
    )

    assert (text, binary) == (f"{folder}/graph.pbtxt", f"{folder}/graph.pb")
    read = text_format.Parse(Path(text).read_text(), GraphDef())
    assert [item.name for item in read.node] == ["a", "b/y", "b"]
    assert read.node[0].attr["value"].tensor.float_val == [1.5]
    assert GraphDef.FromString(Path(binary).read_bytes()) == read


def test_what_is_no_graph_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"3 is not a graph; give session\.graph"):
        tf.train.write_graph(3, tmp_path / "folder", "graph")

    assert not (tmp_path / "folder").exists()
