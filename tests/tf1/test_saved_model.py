"""What is written for TensorFlow Serving, and graphs in files, are read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.compat.proto.graph_pb2 import GraphDef

from kit import tf1 as tf
from kit.errors import UnimplementedError
from kit.tf1.not_offered import OutsideScopeError
from kit.tf1.summary.messages import message
from tests.cases import for_each
from tests.tf1.look import initialized

KERNEL = np.arange(6, dtype=np.float32).reshape(3, 2)
X = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 4.0]], np.float32)
COMPUTED: dict[str, Any] = {
    "MatMul": np.matmul,
    "BiasAdd": np.add,
    "Add": np.add,
    "Identity": lambda x: x,
    "Softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "ArgMax": lambda x, axis: x.argmax(axis),
    "Mean": lambda x, axes: x.mean(tuple(axes)),
}


def model() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    kernel = tf.get_variable("kernel", initializer=tf.constant(KERNEL))
    bias = tf.get_variable("bias", [2], initializer=tf.ones_initializer())
    y = tf.nn.softmax(tf.nn.bias_add(tf.matmul(x, kernel), bias), name="y")
    loss = tf.reduce_mean(y)
    tf.train.AdamOptimizer(0.1).minimize(loss)
    return {"x": x, "y": y, "class": tf.argmax(y, 1, name="class"), "mean": loss}


def saved(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Write the model; return the message of its graph, and what a run gives."""
    made = model()
    outputs = {name: made[name] for name in ("y", "class", "mean")}
    with initialized() as session:
        tf.saved_model.simple_save(session, folder, {"x": made["x"]}, outputs)
        values = session.run(outputs, {made["x"]: X})
    data = (folder / "saved_model.pb").read_bytes()
    size, at, shift = 0, 3, 0
    assert data[:3] == b"\x08\x01\x12"  # version 1, then one graph of a length
    while True:
        size, shift, at = size | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            break
    assert len(data) == at + size
    return message("MetaGraphDef").FromString(data[at:]), values


def computed(graph_def: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    values = dict(feeds)
    for node in graph_def.node:
        if node.op == "Const":
            proto = node.attr["value"].tensor
            dtype = tf.as_dtype(proto.dtype).as_numpy_dtype
            sizes = [array.size for array in proto.tensor_shape.dim]
            flat = np.frombuffer(proto.tensor_content, dtype)
            values[node.name] = flat.reshape(sizes)
        elif node.op != "Placeholder":
            inputs = [values[item] for item in node.input]
            values[node.name] = COMPUTED[node.op](*inputs)
    return values


def test_a_saved_model_computes_what_the_session_did(tmp_path: Path) -> None:
    meta, values = saved(tmp_path / "model")
    signature = meta.signature_def["serving_default"]
    result = computed(meta.graph_def, {"x": X})

    assert list(meta.meta_info_def.tags) == ["serve"]
    assert signature.method_name == "tensorflow/serving/predict"
    assert signature.inputs["x"].name == "x:0"
    assert [item.size for item in signature.inputs["x"].tensor_shape.dim] == [-1, 3]
    for name, value in values.items():
        output = signature.outputs[name].name.removesuffix(":0")
        np.testing.assert_allclose(result[output], value, rtol=1e-6)


def test_only_what_the_outputs_need_is_kept(tmp_path: Path) -> None:
    meta, _ = saved(tmp_path / "model")

    ops = {node.op for node in meta.graph_def.node}
    assert ops == {"Const", "Placeholder", *COMPUTED} - {"Add"}


def test_constants_in_place_of_variables_are_written_as_a_graph(tmp_path: Path) -> None:
    model()
    with initialized() as session:
        made = tf.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), ["class"]
        )
    path = tf.train.write_graph(made, tmp_path, "frozen.pb", as_text=False)

    read = message("GraphDef").FromString(Path(path).read_bytes())
    assert computed(read, {"x": X})["class"].tolist() == [1, 1]


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")

    with pytest.raises(AssertionError, match="isn't empty"):
        tf.saved_model.builder.SavedModelBuilder(tmp_path)


def test_an_operation_without_a_form_names_the_saver(tmp_path: Path) -> None:
    x = tf.placeholder(tf.float32, [2])
    y = x * tf.random_uniform([2])

    with (
        tf.Session() as session,
        pytest.raises(UnimplementedError, match=r"RandomUniform.*Saver\(\)\.save"),
    ):
        tf.saved_model.simple_save(session, tmp_path / "a", {"x": x}, {"y": y})
    assert not (tmp_path / "a").exists()


def test_what_a_model_cannot_hold_is_refused(tmp_path: Path, session: Any) -> None:
    build = tf.saved_model.Builder(tmp_path / "a").add_meta_graph_and_variables

    with pytest.raises(ValueError, match="signature_def_map is needed"):
        build(session, ["serve"])
    with pytest.raises(ValueError, match="leave assets_collection"):
        build(session, ["serve"], {"a": object()}, main_op=tf.no_op())


def test_the_exporter_before_it_can_be_imported_and_is_refused_when_used() -> None:
    from kit.tf1.contrib.session_bundle import exporter

    with pytest.raises(OutsideScopeError, match=r"simple_save.*Saver\(\)\.save"):
        exporter.Exporter(object())


def sliced(spec: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        name = tf.placeholder(tf.float32, [4, 5])[spec].op.name
        made = tf.graph_util.convert_variables_to_constants(session, None, [name])
    node = made.node.pop()
    masks = [node.attr[f"{item}_mask"].i for item in ("begin", "end", "shrink_axis")]
    values = computed(made, {})
    return [values[item].tolist() for item in list(node.input)[1:]], masks


@for_each(
    ("spec", "numbers", "masks"),
    [
        ((slice(None), 1), [[0, 1], [0, 2], [1, 1]], [1, 1, 2]),
        ((slice(1, None, 2),), [[1], [0], [2]], [0, 1, 0]),
        ((-1, slice(None, 3)), [[-1, 0], [0, 3], [1, 1]], [2, 0, 1]),
    ],
)
def test_slices_have_numbers_and_masks(spec: Any, numbers: Any, masks: Any) -> None:
    assert sliced(spec) == (numbers, masks)


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
