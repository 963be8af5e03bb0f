"""Summaries: TensorBoard reads back what a program has written for it."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kit import tf1 as tf
from kit.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from tests.cases import for_each


@pytest.fixture(autouse=True)
def fresh_graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield
    tf.summary.FileWriterCache.clear()


def seen_in(folder: Path) -> Any:
    """What TensorBoard finds in a folder."""
    result = EventAccumulator(str(folder), size_guidance={"images": 0})
    return result.Reload()


def computed(summary: Any, feed_dict: Any = None) -> Any:
    """The values of a summary that a session has run."""
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(summary, feed_dict)).value


def test_tensorboard_shows_what_a_program_writes(tmp_path: Path) -> None:
    loss = tf.placeholder(tf.float32, [], name="seen")
    with tf.name_scope("train"):
        tf.summary.scalar("loss", loss)
    tf.summary.histogram("weights", tf.constant([1.0, 2.0, -3.0]))
    tf.summary.image("digits", tf.ones([5, 4, 3, 1]))
    tf.summary.text("notes", tf.constant("**bold**"))
    merged = tf.summary.merge_all()

    with (
        tf.Session() as session,
        tf.summary.FileWriter(str(tmp_path), session.graph) as writer,
    ):
        for step in (1, 2):
            writer.add_summary(session.run(merged, {loss: step / 2}), step)

    seen = seen_in(tmp_path)
    assert [(Scalar.step, Scalar.value) for Scalar in seen.Scalars("train/loss")] == [
        (1, 0.5),
        (2, 1.0),
    ]
    histogram = seen.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num) == (-3, 2, 3)
    assert seen.Tags()["images"] == [f"digits/image/{n}" for n in range(3)]
    assert seen.Tensors("notes")[0].tensor_proto.string_val == [b"**bold**"]
    names = {node.name for node in seen.Graph().node}
    assert {"seen", "train/loss", "Merge/MergeSummary"} <= names


@for_each(
    ("family", "name", "tag"),
    [
        (None, "loss", "loss"),
        (None, "a b:0", "a_b_0"),
        ("bin", "loss", "bin/bin/loss"),
    ],
)
def test_tag_is_the_name_of_the_operation_below_its_family(
    family: str | None, name: str, tag: str
) -> None:
    with tf.Graph().as_default():
        values = computed(tf.summary.scalar(name, 1.0, family=family))

    assert [value.tag for value in values] == [tag]


def test_second_summary_of_a_name_gets_a_number() -> None:
    tf.summary.scalar("loss", 1.0)

    assert computed(tf.summary.scalar("loss", 2.0))[0].tag == "loss_1"


@for_each(
    "values",
    [
        np.random.default_rng(0).normal(size=1000),
        np.array([0.0, 0.0]),
        np.array([-1e30, 1e30, 1e-20]),
        np.arange(-5, 5),
        np.array([], np.float32),
    ],
    ids=lambda values: str(values.shape),
)
def test_histogram_counts_each_value_below_the_limit_of_its_part(values: Any) -> None:
    with tf.Graph().as_default():
        histogram = computed(tf.summary.histogram("h", tf.constant(values)))[0].histo

    limits = np.array(histogram.bucket_limit)
    below = [int(np.sum(values < limit)) for limit in limits]
    assert np.cumsum(histogram.bucket).tolist() == below
    assert histogram.num == values.size
    assert histogram.sum == pytest.approx(values.sum())
    assert histogram.sum_squares == pytest.approx((values**2.0).sum())
    filled = np.array(histogram.bucket) > 0
    above = limits[filled] > 1e-12
    ratio = limits[filled][above] / limits[np.flatnonzero(filled)[above] - 1]
    assert np.all(ratio[np.isfinite(ratio)] >= 1.1 - 1e-9)  # never finer than a tenth


@for_each("value", [np.nan, np.inf])
def test_histogram_of_what_is_no_number_is_refused_with_its_name(value: float) -> None:
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="histogram for: h"),
    ):
        session.run(tf.summary.histogram("h", tf.constant([1.0, value])))


@for_each(
    ("pixels", "shown"),
    [
        ([0.0, 0.5, 1.0], [0, 127, 255]),
        ([-1.0, 0.0, 1.0], [1, 128, 255]),
        ([0.0, 0.0, 0.0], [0, 0, 0]),
        (np.array([3, 4, 5], np.uint8), [3, 4, 5]),
    ],
)
def test_image_is_a_png_with_the_largest_value_white(pixels: Any, shown: Any) -> None:
    with tf.Graph().as_default():
        tensor = tf.constant(np.reshape(pixels, (1, 1, 3, 1)))
        if tensor.dtype != tf.uint8:
            tensor = tf.cast(tensor, tf.float32)
        values = computed(tf.summary.image("i", tensor, max_outputs=1))

    assert [value.tag for value in values] == ["i/image"]
    decoded = Image.open(io.BytesIO(values[0].image.encoded_image_string))
    assert np.asarray(decoded).tolist() == [shown]


def test_pixel_that_is_no_number_is_red() -> None:
    image = np.ones((1, 1, 2, 3), np.float32)
    image[0, 0, 1, 2] = np.nan

    result = computed(tf.summary.image("i", image))[0].image.encoded_image_string

    assert np.asarray(Image.open(io.BytesIO(result))).tolist() == [
        [[255, 255, 255], [255, 0, 0]]
    ]


@for_each(
    "make",
    [
        lambda: tf.summary.merge(
            [tf.constant(tf.Summary(value=[{"tag": "a"}]).SerializeToString())] * 2
        ),
        lambda: tf.summary.merge([tf.constant("no summary")]),
        lambda: tf.summary.merge([tf.constant("\n\x7f")]),
        lambda: tf.summary.scalar("s", tf.placeholder_with_default([1.0, 2.0], None)),
        lambda: tf.summary.image("i", tf.placeholder_with_default([1.0, 2.0], None)),
    ],
)
def test_summary_of_the_wrong_values_is_refused_in_the_run(make: Any) -> None:
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError),
    ):
        session.run(make())


def test_nothing_merged_is_none() -> None:
    assert tf.summary.merge_all() is None


def test_summaries_are_in_the_collections_that_were_asked_for() -> None:
    mine = tf.summary.scalar("mine", 1.0, collections=["evaluation"])
    default = tf.summary.scalar("default", 1.0)

    assert tf.get_collection("evaluation") == [mine]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [default]


def test_summary_made_by_hand_is_shown_and_needs_no_step(tmp_path: Path) -> None:
    made = tf.Summary(value=[tf.Summary.Value(tag="accuracy", simple_value=0.75)])

    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_summary(made)
        writer.add_summary(made, np.int64(7))

    shown = seen_in(tmp_path).Scalars("accuracy")
    assert [(item.step, item.value) for item in shown] == [(0, 0.75), (7, 0.75)]


def test_what_is_added_is_in_the_file_before_the_writer_is_closed(
    tmp_path: Path,
) -> None:
    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_summary(tf.Summary(value=[{"tag": "a", "simple_value": 1}]), 1)

        assert seen_in(tmp_path).Tags()["scalars"] == ["a"]


def test_closed_writer_warns_once_and_goes_on_in_a_new_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = tf.summary.FileWriter(tmp_path)
    writer.close()
    for step in (1, 2):
        writer.add_event(tf.Event(step=step))
    before = len(list(tmp_path.iterdir()))
    writer.reopen()
    writer.close()

    assert [record.message.count("closed FileWriter") for record in caplog.records] == [
        1
    ]
    assert (before, len(list(tmp_path.iterdir()))) == (1, 2)


@for_each("wrong", [b"no summary", 3.0, "text", None])
def test_what_is_no_summary_is_refused(
    wrong: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        tf.summary.FileWriter(tmp_path_factory.mktemp("logs")) as writer,
        pytest.raises(InvalidArgumentError, match="not a summary"),
    ):
        writer.add_summary(wrong)


def test_cache_has_one_writer_for_a_folder_until_it_is_cleared(tmp_path: Path) -> None:
    cache = tf.summary.FileWriterCache
    first = cache.get(str(tmp_path))

    assert cache.get(str(tmp_path)) is first
    cache.clear()
    assert cache.get(str(tmp_path)) is not first


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    with pytest.raises(FailedPreconditionError, match="taken"):
        tf.summary.FileWriter(tmp_path / "taken")


def test_traced_run_is_written_under_its_tag(tmp_path: Path, session: Any) -> None:
    noted = tf.RunMetadata()
    traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(tf.constant(1) + 1, options=traced, run_metadata=noted)

    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_run_metadata(noted, "step1", 1)

    devices = seen_in(tmp_path).RunMetadata("step1").step_stats.dev_stats
    assert [device.device for device in devices] == [
        dev_stat.device for dev_stat in noted.step_stats.dev_stats
    ]


@pytest.mark.slow
def test_monitored_session_writes_all_summaries_every_few_steps(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    tf.summary.scalar("twice", 2.0 * tf.cast(step, tf.float32))
    update = tf.assign_add(step, 1)
    hooks = [tf.train.StopAtStepHook(last_step=7)]

    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path),
        hooks=hooks,
        save_summaries_steps=3,
        log_step_count_steps=2,
    ) as session:
        while not session.should_stop():
            session.run(update)

    seen = seen_in(tmp_path)
    assert [Scalar.step for Scalar in seen.Scalars("twice")] == [1, 4, 7]
    assert seen.Scalars("global_step/sec")[0].value > 0
    assert "global_step" in {node.name for node in seen.Graph().node}


def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)


@for_each(
    "use",
    [
        lambda: tf.summary.FileWriter("logs"),
        lambda: tf.summary.Summary,
        lambda: tf.Summary,
    ],
)
def test_without_tensorboard_the_line_that_installs_it_is_said(
    use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_tensorboard(monkeypatch)

    with pytest.raises(NotFoundError, match=r"pip install 'psring\[tensorboard\]'"):
        use()


def test_summaries_are_computed_without_tensorboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as hidden, tf.Session() as session:
        without_tensorboard(hidden)
        made = session.run(tf.summary.scalar("loss", 0.5))

    assert tf.Summary.FromString(made).value[0].simple_value == 0.5


@pytest.mark.slow
def test_monitored_session_trains_without_tensorboard_and_warns(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    without_tensorboard(monkeypatch)
    update = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    tf.summary.scalar("loss", 1.0)

    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
        trained = session.run(update)

    assert trained == 1
    assert "psring[tensorboard]" in caplog.text
    assert not list(tmp_path.glob("events*"))


@pytest.mark.slow
def test_a_programs_own_tensorboard_py_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "tensorboard.py").write_text("is_ours = True\n")
    (tmp_path / "program.py").write_text(
        "import tensorboard\n"
        "from kit import tf1 as tf\n"
        "with tf.summary.FileWriter('logs') as writer:\n"
        "    writer.add_summary(tf.Summary(), 1)\n"
        "import tensorboard as again\n"
        "print(again.is_ours and again is tensorboard)\n"
    )
    program = [sys.executable, str(tmp_path / "program.py")]

    output = subprocess.run(
        program, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert output.stdout == "True\n", output.stderr
    assert len([*(tmp_path / "logs").iterdir()]) == 1


def test_events_of_a_file_are_read_back(tmp_path: Path) -> None:
    event_pb2 = importlib.import_module("kit.tf1.core.util.event_pb2")
    summary_pb2 = importlib.import_module("kit.tf1.core.framework.summary_pb2")
    value = summary_pb2.Summary.Value(tag="loss", simple_value=0.5)
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_summary(summary_pb2.Summary(value=[value]), 3)
        writer.add_event(event_pb2.Event(step=4))
    (path,) = tmp_path.iterdir()

    first, second, third = tf.train.summary_iterator(str(path))

    assert first.file_version == "brain.Event:2"
    assert (second.step, second.summary.value[0].simple_value) == (3, 0.5)
    assert third.step == 4
    with pytest.raises(AttributeError, match="Moon"):
        event_pb2.Moon  # noqa: B018


def test_hooks_write_what_they_see_for_tensorboard(tmp_path: Path) -> None:
    with tf.variable_scope("net"):
        step = tf.train.create_global_step()
    train = tf.assign_add(step, 1)
    hooks = [
        tf.train.StepCounterHook(every_n_steps=1, output_dir=str(tmp_path)),
        tf.train.ProfilerHook(save_steps=1, output_dir=str(tmp_path)),
        tf.train.CheckpointSaverHook(str(tmp_path), save_steps=5),
    ]

    with tf.train.SingularMonitoredSession(hooks) as session:
        for _ in range(3):
            session.run(train)

    seen = seen_in(tmp_path).Tags()
    assert seen["meta_graph"]
    assert seen["run_metadata"] == ["step_2", "step_3"]
    assert seen["scalars"] == ["net/global_step/sec"]
