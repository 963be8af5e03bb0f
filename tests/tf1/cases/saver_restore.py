"""Savers: what comes back, into which variables, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.folders import files, in_folder
from tests.tf1.look import initialized


def there_and_back(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a case: save, build the same in a new graph, restore, and read all."""

    def body(tf: Any, folder: Path) -> Any:
        with tf.Graph().as_default():
            make(tf)
            with initialized(tf) as session:
                prefix = tf.train.Saver().save(session, str(folder / "m"))
        with tf.Graph().as_default():
            make(tf)
            saver = tf.train.Saver()
            with tf.Session() as session:
                none = saver.restore(session, prefix)
                missing = session.run(tf.report_uninitialized_variables())
                values = session.run(tf.global_variables())
        return [none, missing.tolist(), values]

    return in_folder(body)


def of_every_dtype(tf: Any) -> None:
    for name in ("float16", "float32", "float64", "int32", "int64", "uint8", "int8"):
        tf.Variable(np.arange(6).reshape(2, 3).astype(name), name=name)
    tf.Variable([True, False], name="bool")
    tf.Variable(["a", "bc", ""], name="string")


def of_odd_shapes(tf: Any) -> None:
    tf.Variable(np.zeros((0, 3), np.float32), name="empty")
    tf.Variable(3.5, name="scalar")
    tf.Variable(np.full((1, 1, 2, 1), 7, np.int32), name="deep")


def of_special_values(tf: Any) -> None:
    tf.Variable([np.inf, -np.inf, 0.0, 1e-45, 3.4e38], name="v")


def case_training_goes_on(tf: Any, folder: Path) -> Any:
    """Training goes on after a restore as if it had not been interrupted."""

    def build() -> Any:
        v = tf.Variable([1.0, -2.0], name="v")
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.1)
        return v, step, optimizer.minimize(tf.reduce_sum(v * v), step)

    with tf.Graph().as_default():
        v, step, train = build()
        saver = tf.train.Saver()
        with initialized(tf) as session:
            for _ in range(3):
                session.run(train)
            prefix = saver.save(session, str(folder / "m"), step)
            for _ in range(2):
                session.run(train)
            expected = session.run([v, step])
    with tf.Graph().as_default():
        v, step, train = build()
        with tf.Session() as session:
            tf.train.Saver().restore(session, prefix)
            for _ in range(2):
                session.run(train)
            return [expected, session.run([v, step]), Path(prefix).name]


def case_values_are_overwritten(tf: Any, folder: Path) -> Any:
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    saver = tf.train.Saver([v])
    with initialized(tf) as session:
        prefix = saver.save(session, str(folder / "m"))
        session.run([v.assign(10.0), w.assign(20.0)])
        saver.restore(session, prefix)
        return session.run([v, w])


def case_into_another_name(tf: Any, folder: Path) -> Any:
    """A dict restores a tensor into a variable of another name."""
    with tf.Graph().as_default():
        v = tf.Variable([1.0, 2.0], name="old")
        with tf.Session() as session:
            session.run(v.initializer)
            prefix = tf.train.Saver().save(session, str(folder / "m"))
    w = tf.Variable([0.0, 0.0], name="new")
    with tf.Session() as session:
        tf.train.Saver({"old": w}).restore(session, prefix)
        return session.run(w)


def case_some_of_them(tf: Any, folder: Path) -> Any:
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    with initialized(tf) as session:
        prefix = tf.train.Saver().save(session, str(folder / "m"))
    with tf.Session() as session:
        tf.train.Saver([w]).restore(session, prefix)
        found = session.run(tf.report_uninitialized_variables()).tolist()
        return [found, session.run(w), attempt(tf, session.run, v)]


def case_older_ones(tf: Any, folder: Path) -> Any:
    v = tf.Variable(0.0)
    saver = tf.train.Saver()
    found = []
    with tf.Session() as session:
        for step in (1, 2, 3):
            session.run(v.assign(float(step)))
            saver.save(session, str(folder / "m"), step)
        for step in (1, 3, 2):
            saver.restore(session, str(folder / f"m-{step}"))
            found.append(session.run(v))
    return found


def case_the_latest(tf: Any, folder: Path) -> Any:
    v = tf.Variable(4.0)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(v.initializer)
        saver.save(session, str(folder / "m"), 8)
    with tf.Session() as session:
        saver.restore(session, tf.train.latest_checkpoint(str(folder)))
        return session.run(v)


def case_parts_into_other_parts(tf: Any, folder: Path) -> Any:
    """What was saved in three parts is restored into two."""
    values = np.arange(7, dtype=np.float32)

    def build(n_parts: int) -> Any:
        return tf.get_variable(
            *("p", [7]),
            initializer=lambda shape, dtype, partition_info: tf.constant(
                values[partition_info.single_offset(shape) :][: shape[0]]
            ),
            partitioner=tf.fixed_size_partitioner(n_parts),
        )

    with tf.Graph().as_default():
        build(3)
        with initialized(tf) as session:
            prefix = tf.train.Saver().save(session, str(folder / "m"))
    with tf.Graph().as_default():
        two = build(2)
        with tf.Session() as session:
            tf.train.Saver().restore(session, prefix)
            return [session.run(list(two)), session.run(two.as_tensor())]


def case_parts_into_a_whole(tf: Any, folder: Path) -> Any:
    with tf.Graph().as_default():
        partitioner = tf.fixed_size_partitioner(2)
        ones = tf.ones_initializer()
        tf.get_variable("p", [5, 2], initializer=ones, partitioner=partitioner)
        with initialized(tf) as session:
            prefix = tf.train.Saver().save(session, str(folder / "m"))
    whole = tf.get_variable("p", [5, 2], initializer=tf.zeros_initializer())
    with tf.Session() as session:
        tf.train.Saver().restore(session, prefix)
        return session.run(whole)


def case_read_without_a_graph(tf: Any, folder: Path) -> Any:
    """A checkpoint is read without a graph."""
    tf.Variable([[1.0, 2.0]], name="a")
    tf.Variable(3, name="scope/b")
    with initialized(tf) as session:
        prefix = tf.train.Saver().save(session, str(folder / "m"), 1)
    listed = [[key, list(shape)] for key, shape in tf.train.list_variables(prefix)]
    reader = tf.train.NewCheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    return [
        *(listed, tf.train.load_variable(prefix, "a"), reader.get_tensor("scope/b")),
        *([[key, list(shapes[key]), dtypes[key].name] for key in sorted(shapes)],),
        *(reader.has_tensor("a"), reader.has_tensor("b")),
        *(tf.train.load_variable(str(folder), "scope/b"),),
        tf.train.load_checkpoint(str(folder)).get_tensor("a"),
    ]


def case_a_checkpoint_exists(tf: Any, folder: Path) -> Any:
    tf.Variable(1.0)
    with initialized(tf) as session:
        prefix = tf.train.Saver().save(session, str(folder / "m"), 1)
    names = [prefix, str(folder / "m"), str(folder), str(folder / "n-1")]
    found = [tf.train.checkpoint_exists(name) for name in names]
    (folder / "m-1.index").unlink()
    return [*found, tf.train.checkpoint_exists(prefix)]


def case_sessions_of_a_server(tf: Any, folder: Path) -> Any:
    server = tf.train.Server.create_local_server()
    v = tf.Variable([1.0, 2.0], name="v")
    saver = tf.train.Saver()
    with tf.Session(server.target) as session:
        session.run(v.initializer)
        prefix = saver.save(session, str(folder / "m"))
        session.run(v.assign([5.0, 6.0]))
    with tf.Session(server.target) as other:
        before = other.run(v)
        saver.restore(other, prefix)
        return [before, other.run(v)]


def case_nothing_to_save(tf: Any, folder: Path) -> Any:
    saver = tf.train.Saver(allow_empty=True)
    with tf.Session() as session:
        found = attempt(tf, saver.save, session, str(folder / "m"))
        restored = attempt(tf, saver.restore, session, str(folder / "m"))
    return [found, files(folder), restored]


def case_variables_made_before_the_saver(tf: Any, folder: Path) -> Any:
    """A saver knows the variables that are there when it is made."""
    tf.Variable(1.0, name="before")
    saver = tf.train.Saver()
    tf.Variable(2.0, name="after")
    with initialized(tf) as session:
        prefix = saver.save(session, str(folder / "m"))
    return [name for name, _ in tf.train.list_variables(prefix)]


def case_a_saver_that_is_built_later(tf: Any, folder: Path) -> Any:
    saver = tf.train.Saver(defer_build=True)
    tf.Variable(1.0, name="v")
    saver.build()
    with initialized(tf) as session:
        prefix = saver.save(session, str(folder / "m"))
    return [name for name, _ in tf.train.list_variables(prefix)]


def case_local_variables_are_not_saved(tf: Any, folder: Path) -> Any:
    tf.Variable(1.0, name="globally")
    tf.Variable(1.0, name="locally", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.Variable(1.0, name="fixed", trainable=False)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer()])
        prefix = tf.train.Saver().save(session, str(folder / "m"))
    return [name for name, _ in tf.train.list_variables(prefix)]


CASES: dict[str, Callable[[Any], Any]] = {
    "every_dtype": there_and_back(of_every_dtype),
    "odd_shapes": there_and_back(of_odd_shapes),
    "special_values": there_and_back(of_special_values),
}
