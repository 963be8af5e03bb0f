"""Savers: what comes back, into which variables, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import initialized, makes_case


@makes_case
def there_and_back(tf: Any, folder: Path, make: Callable[[Any], Any]) -> Any:
    """Return a case: save, build the same in a new graph, restore, and read all."""
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
        result = session.run(tf.report_uninitialized_variables()).tolist()
        return [result, session.run(w), attempt(tf, session.run, v)]


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


CASES: dict[str, Callable[[Any], Any]] = {
    "every_dtype": there_and_back(of_every_dtype),
    "odd_shapes": there_and_back(of_odd_shapes),
    "special_values": there_and_back(of_special_values),
}
