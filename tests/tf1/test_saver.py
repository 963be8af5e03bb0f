"""`tf.train.Saver` on real tasks: who writes, what damage changes, what stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit import tf1 as tf
from kit.testing.task_process import until
from tests.tf1.monitored.counting import counting
from tests.tf1.servers import cluster


def on(task: str) -> Any:
    return tf.device(f"/job:{task}")


@contextmanager
def two_owners(**options: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Give a variable on each of two tasks, their saver, and a session with values."""
    servers = cluster(ps=2, worker=1)
    with tf.Graph().as_default():
        with on("ps/task:0"):
            v = tf.Variable([1.0, 2.0], name="v")
        with on("ps/task:1"):
            w = tf.Variable([[3]], name="w")
        saver = tf.train.Saver(**options)
        with tf.Session(servers["worker"][0].target) as sess:
            sess.run(tf.global_variables_initializer())
            yield v, w, saver, sess


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_each_task_writes_what_it_owns_and_all_come_back(tmp_path: Path) -> None:
    with two_owners(sharded=True) as (v, w, saver, sess):
        (tmp_path / "run").mkdir()
        prefix = saver.save(sess, str(tmp_path / "run" / "m"), global_step=7)
        names = {path.name for path in (tmp_path / "run").iterdir()}
        sess.run([v.assign([0, 0]), w.assign([[0]])])
        saver.restore(sess, prefix)
        result = sess.run([v, w])

    assert prefix == str(tmp_path / "run" / "m-7")
    assert names == {
        *("m-7.index", "m-7.data-00000-of-00002", "m-7.data-00001-of-00002"),
        *("m-7.meta", "checkpoint"),
    }
    assert result[0].tolist() == [1, 2]
    assert result[1].tolist() == [[3]]


def test_shards_are_written_by_the_tasks_and_not_by_the_client(
    tmp_path: Path,
) -> None:
    with two_owners(sharded=True) as (_, _, saver, sess):
        metadata = tf.RunMetadata()
        sess.run(
            saver.saver_def.save_tensor_name,
            {saver.saver_def.filename_tensor_name: str(tmp_path / "m")},
            tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            metadata,
        )

    where = {
        node.node_name.split(":")[0]: dev_stat.device
        for dev_stat in metadata.step_stats.dev_stats
        for node in dev_stat.node_stats
    }
    assert "/job:ps/replica:0/task:0/" in where["save/SaveV2"]
    assert "/job:ps/replica:0/task:1/" in where["save/SaveV2_1"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_shard_changes_no_variable_of_any_task(
    tmp_path: Path, number: int
) -> None:
    with two_owners(sharded=True) as (v, w, saver, sess):
        prefix = saver.save(sess, str(tmp_path / "m"))
        flip(tmp_path / f"m.data-0000{number}-of-00002", -1)
        sess.run([v.assign([5, 5]), w.assign([[5]])])

        with pytest.raises(tf.errors.DataLossError, match="damaged"):
            saver.restore(sess, prefix)

        assert sess.run(v).tolist() == [5, 5]
        assert sess.run(w).tolist() == [[5]]


def test_a_shape_that_does_not_fit_changes_no_variable(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.Variable([1.0, 2.0], name="a"), tf.Variable([3.0], name="b")
        sess.run(tf.global_variables_initializer())
        prefix = tf.train.Saver([a, b]).save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.Variable([0.0, 0.0], name="a"), tf.Variable([0.0, 0.0], name="b")
        sess.run(tf.global_variables_initializer())

        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"'b' as float32\[1\]"
        ):
            tf.train.Saver().restore(sess, prefix)

        assert sess.run(a).tolist() == [0, 0]


def test_a_save_that_fails_leaves_the_checkpoint_before_it(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, name="v")
        tf.Variable(1.0, name="w")
        saver = tf.train.Saver()
        sess.run(tf.global_variables_initializer())
        saver.save(sess, str(tmp_path / "m"))
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with tf.Graph().as_default(), tf.Session() as sess:
        v, _ = tf.Variable(2.0, name="v"), tf.Variable(2.0, name="w")
        saver = tf.train.Saver()
        sess.run(v.initializer)

        with pytest.raises(tf.errors.FailedPreconditionError, match="'w'"):
            saver.save(sess, str(tmp_path / "m"))

    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_slots_of_a_partitioned_variable_are_cut_as_it_is(
    tmp_path: Path, session: Any
) -> None:
    p = tf.get_variable(
        "p",
        [5, 2],
        initializer=tf.ones_initializer(),
        partitioner=tf.fixed_size_partitioner(2),
    )
    loss = tf.reduce_sum(tf.convert_to_tensor(p))
    train = tf.train.AdagradOptimizer(0.1, 0.5).minimize(loss)
    session.run(tf.global_variables_initializer())
    session.run(train)
    prefix = tf.train.Saver().save(session, str(tmp_path / "m"))

    assert dict(tf.train.list_variables(prefix))["p/Adagrad"] == [5, 2]
    assert tf.train.load_variable(prefix, "p/Adagrad").tolist() == [[1.5] * 2] * 5


def test_reshape_sets_a_variable_of_another_shape(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([1.0, 2.0, 3.0, 4.0], name="v")
        sess.run(v.initializer)
        prefix = tf.train.Saver().save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([[0.0, 0.0], [0.0, 0.0]], name="v")
        tf.train.Saver(reshape=True).restore(sess, prefix)

        assert sess.run(v).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "call",
    [
        lambda prefix: tf.train.load_variable(prefix, "v"),
        lambda prefix: tf.train.NewCheckpointReader(prefix).get_tensor("v"),
    ],
)
def test_reading_one_variable_notices_its_damage_only(
    tmp_path: Path, call: Callable[[str], Any], session: Any
) -> None:
    for name in ("u", "v"):
        tf.Variable([1.0, 2.0], name=name)
    session.run(tf.global_variables_initializer())
    prefix = tf.train.Saver().save(session, str(tmp_path / "m"))

    flip(tmp_path / "m.data-00000-of-00001", -1)

    assert tf.train.load_variable(prefix, "u").tolist() == [1, 2]
    with pytest.raises(tf.errors.DataLossError):
        call(prefix)


def test_a_damaged_index_is_no_checkpoint(tmp_path: Path, session: Any) -> None:
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    saver = tf.train.Saver()
    prefix = saver.save(session, str(tmp_path / "m"))
    flip(tmp_path / "m.index", 30)

    with pytest.raises(tf.errors.DataLossError, match="index"):
        saver.restore(session, prefix)


def test_a_saver_of_the_whole_cluster_without_shards_writes_one_file(
    tmp_path: Path,
) -> None:
    with two_owners() as (v, w, saver, sess):
        prefix = saver.save(sess, str(tmp_path / "m"), write_meta_graph=False)
        sess.run([v.assign([0, 0]), w.assign([[0]])])
        saver.restore(sess, prefix)

        assert sess.run(w).tolist() == [[3]]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("m.index", "m.data-00000-of-00001", "checkpoint"),
    }


class Training:
    """A thread that counts on, in a session of its own."""

    def __init__(self, target: Any, count: Any) -> None:
        self.error: BaseException | None = None
        self.seen: list[int] = []
        self._session, self._count = tf.Session(target, graph=count.graph), count
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="counting")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.seen.append(int(self._session.run(self._count)))
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._session.close()


@pytest.mark.slow
def test_training_goes_on_from_what_another_session_restores(tmp_path: Path) -> None:
    servers = cluster(ps=1, worker=2)
    _, count = counting()
    saver, init = tf.train.Saver(), tf.global_variables_initializer()
    with tf.Session(servers["worker"][1].target) as session:
        session.run(init)
        path = saver.save(session, str(tmp_path / "model"), global_step=0)
        training = Training(servers["worker"][0].target, count)
        until(lambda: len(training.seen) > 50, 30)

        saver.restore(session, path)
        restored_at = len(training.seen)
        until(lambda: len(training.seen) > restored_at + 20, 30)
        training.end()

    assert training.error is None
    back = [b for a, b in zip(training.seen, training.seen[1:], strict=False) if b <= a]
    assert len(back) == 1, "the count went back once: to what was restored"
    assert back[0] <= 3


@pytest.mark.slow
def test_restore_that_fails_takes_nothing_from_who_trains(tmp_path: Path) -> None:
    servers = cluster(ps=1, worker=2)
    _, count = counting()
    saver, init = tf.train.Saver(), tf.global_variables_initializer()
    with tf.Session(servers["worker"][1].target) as session:
        session.run(init)
        path = saver.save(session, str(tmp_path / "model"), global_step=0)
        (data,) = tmp_path.glob("model-0.data-*")
        damaged = bytearray(data.read_bytes())
        damaged[-1] ^= 1
        data.write_bytes(damaged)
        training = Training(servers["worker"][0].target, count)
        until(lambda: len(training.seen) > 20, 30)

        for _ in range(3):
            with pytest.raises(tf.errors.DataLossError, match="model-0"):
                saver.restore(session, path)
        training.end()

    assert training.error is None
    assert training.seen == list(range(1, len(training.seen) + 1))
