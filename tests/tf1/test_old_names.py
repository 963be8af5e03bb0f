"""Names of the first versions, and modules that programs import from inside."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from kit.graph.ops.state.checks import summary
from kit.tf1.python.client import device_lib, timeline
from kit.tf1.python.ops.control_flow_ops import with_dependencies
from tests.cases import for_each
from tests.tf1.look import names_of
from tests.tf1.servers import cluster


def test_old_names_of_argmax_take_the_dimension_second(session: Any) -> None:
    rows = tf.constant([[1, 7, 3], [9, 2, 5]])

    result = session.run([tf.arg_max(rows, 1), tf.arg_min(rows, dimension=0)])

    assert [array.tolist() for array in result] == [[1, 0], [0, 1, 0]]
    assert [tensor.dtype for tensor in result] == [np.int64, np.int64]


def test_initializer_of_all_tables_runs(session: Any) -> None:
    assert session.run(tf.initialize_all_tables()) is None


def test_version_of_the_sources_has_three_names() -> None:
    assert tf.GIT_VERSION == tf.__git_version__ == f"v{tf.VERSION}"


def test_program_moves_variables_through_the_private_collections(graph: Any) -> None:
    tf.Variable(1.0, name="v")
    kept = graph._collections[tf.GraphKeys.GLOBAL_VARIABLES]

    assert names_of(kept) == ["v:0"]
    del kept[0]
    assert tf.global_variables() == []


@for_each(
    ("convert", "value", "expected"),
    [
        ("as_bytes", "é", b"\xc3\xa9"),
        ("as_bytes", b"a", b"a"),
        ("as_text", b"\xc3\xa9", "é"),
        ("as_str", "a", "a"),
        ("as_str_any", b"a", "a"),
        ("as_str_any", 1, "1"),
        ("path_to_str", Path("a/b"), "a/b"),
        ("path_to_str", "a/b", "a/b"),
    ],
)
def test_texts_and_bytes_are_converted(convert: str, value: Any, expected: Any) -> None:
    assert getattr(tf.compat, convert)(value) == expected


@for_each("convert", ["as_bytes", "as_text", "as_str"])
def test_number_is_neither_text_nor_bytes(convert: str) -> None:
    with pytest.raises(TypeError, match="Expected binary or unicode string, got 1"):
        getattr(tf.compat, convert)(1)


def test_number_of_numpy_is_of_the_types_of_compat() -> None:
    assert isinstance(np.int8(1), tf.compat.integral_types)
    assert isinstance(np.float32(1), tf.compat.real_types)
    assert not isinstance(1j, tf.compat.real_types)
    assert isinstance(1j, tf.compat.complex_types)


# -- Print -----------------------------------------------------------------------------


@for_each(
    ("values", "limit", "text"),
    [
        (3, 3, "3"),
        (np.float32(0.1), 3, "0.1"),
        (np.float64(0.1), 3, "0.1"),
        (np.float32(16777217), 3, "16777216"),
        (np.float64(1 / 3), 3, "0.333333333333333315"),
        (np.float32("nan"), 3, "nan"),
        ([1, 2, 3], 3, "1 2 3"),
        ([1, 2, 3, 4], 3, "1 2 3..."),
        ([1, 2, 3, 4], -1, "1 2 3 4"),
        ([True, False], 3, "1 0"),
        (np.array([b"a", b"b c"], object), 3, "a b c"),
        ([], 3, ""),
        ([[1, 2], [3, 4]], 10, "[1 2][3 4]"),
        ([[1, 2], [3, 4]], 3, "[1 2][3...]..."),
        ([[1, 2], [3, 4]], 2, "[1 2]..."),
        ([[[1], [2]], [[3], [4]]], 3, "[[1][2]][[3]]..."),
    ],
)
def test_values_are_written_as_the_original_writes_them(
    values: Any, limit: int, text: str
) -> None:
    assert summary(np.asarray(values), limit) == text


def test_print_passes_its_value_on_and_says_it_a_few_times(
    capfd: pytest.CaptureFixture[str], session: Any
) -> None:
    x = tf.placeholder(tf.float32, [2])
    y = tf.Print(x * 2, [x, "text"], "now: ", first_n=2)

    result = [session.run(y, {x: [i, i + 1]}).tolist() for i in range(3)]

    assert result == [[0, 2], [2, 4], [4, 6]]
    assert capfd.readouterr().err == "now: [0 1][text]\nnow: [1 2][text]\n"


def test_gradients_flow_through_print(session: Any) -> None:
    x = tf.constant(3.0)
    y = tf.Print(x * x, [x])

    assert session.run(tf.gradients(y, x)) == [6.0]


@pytest.mark.slow
def test_print_on_another_task_gives_its_value(
    capfd: pytest.CaptureFixture[str],
) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        y = tf.Print(tf.constant([5]), [tf.constant([5])], "on the ps: ", summarize=-1)
        with tf.Session(servers["worker"][0].target) as session:
            assert session.run(y).tolist() == [5]

    assert "on the ps: [5]" in capfd.readouterr().err


# -- modules ---------------------------------------------------------------------------


@for_each(
    ("module", "name"),
    [
        ("python.client.timeline", "Timeline"),
        ("python.client.device_lib", "list_local_devices"),
        ("python.client.session", "Session"),
        ("python.framework.ops", "get_default_graph"),
        ("python.framework.dtypes", "as_dtype"),
        ("python.framework.errors", "NotFoundError"),
        ("python.ops.array_ops", "reshape"),
        ("python.ops.control_flow_ops", "group"),
        ("python.ops.nn_ops", "relu"),
        ("python.training.queue_runner", "QueueRunner"),
        ("python.training.supervisor", "Supervisor"),
        ("python.platform.gfile", "GFile"),
        ("python.platform.flags", "DEFINE_string"),
        ("python.platform.app", "run"),
        ("python.platform.tf_logging", "info"),
        ("python.ops.control_flow_ops", "with_dependencies"),
        ("python.ops.rnn_cell_impl", "BasicLSTMCell"),
        ("python.layers.core", "dense"),
        ("python.summary.summary", "scalar"),
        ("python.training.session_run_hook", "SessionRunArgs"),
        ("python.training.summary_io", "SummaryWriterCache"),
        ("python.util.compat", "as_bytes"),
        ("compat.v1", "Session"),
        ("contrib.learn.datasets.mnist", "read_data_sets"),
        ("contrib.learn.python.learn.datasets.mnist", "read_data_sets"),
    ],
)
def test_module_of_an_import_line_has_its_name(module: str, name: str) -> None:
    folder, _, last = module.rpartition(".")

    result = getattr(importlib.import_module(f"kit.tf1.{folder}"), last)

    assert callable(getattr(result, name))
    # As `from kit.tf1.python.framework.ops import get_default_graph` does.
    assert importlib.import_module(f"kit.tf1.{module}") is result


def test_tensor_with_dependencies_has_its_value_once_they_have_run(
    session: Any,
) -> None:
    count = tf.Variable(0, name="count")
    value = tf.constant(7.0, name="value")
    result = with_dependencies([tf.assign_add(count, 1)], value, name="train_op")
    unnamed = with_dependencies([], value)
    session.run(tf.global_variables_initializer())

    assert [session.run(result), session.run(unnamed), session.run(count)] == [
        7,
        7,
        1,
    ]
    assert (result.op.name, unnamed.op.name) == ("train_op", "control_dependency")
    assert result.op.colocation_groups() == [b"loc:@value"]


def test_timeline_is_a_trace_with_each_operation_that_ran(session: Any) -> None:
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    total = tf.add(tf.placeholder_with_default(1.0, []), 2.0, name="total")
    session.run(total, options=options, run_metadata=metadata)

    text = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()

    events = json.loads(text)["traceEvents"]
    assert {"process_name", "total"} <= {event["name"] for event in events}
    assert all(event["dur"] > 0 for event in events if event["ph"] == "X")


def test_timeline_of_a_run_metadata_itself_names_the_field() -> None:
    metadata: Any = tf.RunMetadata()

    with pytest.raises(TypeError, match=r"Timeline\(run_metadata.step_stats\)"):
        timeline.Timeline(metadata)


def test_memory_is_not_in_a_timeline_and_says_so() -> None:
    made = timeline.Timeline(tf.RunMetadata().step_stats)

    with pytest.raises(tf.errors.UnimplementedError, match="show_memory"):
        made.generate_chrome_trace_format(show_memory=True)


def test_devices_of_this_host_are_named_without_a_task() -> None:
    result = device_lib.list_local_devices()

    assert ("/device:CPU:0", "CPU") in [
        (tensor.name, tensor.device_type) for tensor in result
    ]


# -- names from before 1.0 -------------------------------------------------------------


def test_summaries_from_before_1_0_take_their_tag_as_it_is_written(
    tmp_path: Path, graph: Any, session: Any
) -> None:
    with tf.name_scope("scope"):
        made = tf.scalar_summary("loss (all)", 2.0)
        tf.scalar_summary(["a", "b"], [1.0, 2.0], name="both")
    tf.contrib.deprecated.histogram_summary("spread", [1.0, 2.0])
    tf.image_summary("look", tf.zeros([4, 2, 2, 1]), max_images=2)
    merged = session.run(tf.merge_all_summaries())
    read = tf.Summary.FromString(merged)
    writer = tf.train.SummaryWriter(str(tmp_path), graph)
    writer.add_summary(merged, 1)
    writer.close()

    assert made.op.name == "scope/ScalarSummary"
    assert [value.tag for value in read.value] == [
        *("loss (all)", "a", "b", "spread", "look/image/0", "look/image/1")
    ]
    assert len(list(tmp_path.iterdir())) == 1


@for_each(
    ("compute", "expected"),
    [
        (lambda: tf.mul(2, 3), 6),
        (lambda: tf.sub(2, 3), -1),
        (lambda: tf.neg(2), -2),
        (lambda: tf.inv(4.0), 0.25),
        (lambda: tf.pack([1, 2]), [1, 2]),
        (lambda: tf.unpack([1, 2])[1], 2),
        (lambda: tf.select([True, False], [1, 2], [3, 4]), [1, 4]),
        (lambda: tf.batch_matmul([[[1, 2]]], [[[3, 4]]], adj_y=True), [[[11]]]),
    ],
)
def test_operations_from_before_1_0_are_those_of_today(
    compute: Any, expected: Any
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(compute()).tolist() == expected


def test_optimizer_of_version_two_is_that_of_today() -> None:
    assert tf.train.SyncReplicasOptimizerV2 is tf.train.SyncReplicasOptimizer


def test_numbers_of_types_are_those_that_dtypes_are_made_of() -> None:
    types_pb2 = importlib.import_module("kit.tf1.core.framework.types_pb2")

    assert tf.as_dtype(types_pb2.DT_INT32) == tf.int32
    assert tf.as_dtype(types_pb2.DT_FLOAT) == tf.float32
    assert tf.string.as_datatype_enum == types_pb2.DT_STRING
    for name in ("DT_MOON", "INT32"):
        with pytest.raises(AttributeError, match=name):
            getattr(types_pb2, name)


def test_losses_of_sequences_have_the_name_from_before_1_0() -> None:
    assert tf.nn.seq2seq is tf.contrib.legacy_seq2seq


@pytest.mark.slow
def test_a_program_may_have_a_module_called_statistics(tmp_path: Path) -> None:
    (tmp_path / "statistics.py").write_text("raise SystemExit('the wrong one')\n")
    (tmp_path / "program.py").write_text("from kit import tf1 as tf\ntf.constant(1)\n")

    subprocess.run([sys.executable, str(tmp_path / "program.py")], check=True)
